"""A model for Claude Code, on loopback: the Messages API with a script in the place of the model.

The script sees what a model sees: the user's words, the tools that the agent offers and what they returned. It chooses
among those tools by name and schema, and what it answers with is what it has read.
"""

import json
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from tests.timeouts import PATIENCE

Json = dict[str, Any]
ORDER = "Remember that "
MOST = 12
"""Requests that are answered in one conversation, which needs three. An agent that repeats itself is refused."""


class Model(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Endpoint)
        self.requests: list[Json] = []
        """What was asked in this conversation, in the order in which it came; cleared before the next one."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def offered(self) -> list[list[str]]:
        """Names of the tools in each request."""
        return [[tool["name"] for tool in request.get("tools", ())] for request in self.requests]


@contextmanager
def serving() -> Generator[Model, None, None]:
    with Model() as model:
        thread = threading.Thread(target=model.serve_forever)
        thread.start()
        try:
            yield model
        finally:
            model.shutdown()
            thread.join(PATIENCE)


class Endpoint(BaseHTTPRequestHandler):
    timeout = PATIENCE

    def do_POST(self) -> None:
        model = cast(Model, self.server)
        request: Json = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.partition("?")[0] != "/v1/messages":
            return self.refuse(404, "not_found_error", self.path)
        model.requests.append(request)
        if len(model.requests) > MOST:
            return self.refuse(400, "invalid_request_error", f"more than {MOST} requests")
        try:
            block = reply(request)
        except (LookupError, ValueError) as error:  # the agent shows it; a connection that breaks it would try again
            return self.refuse(400, "invalid_request_error", repr(error))
        message = {
            "id": f"msg_{len(model.requests)}",
            "type": "message",
            "role": "assistant",
            "model": request["model"],
            "content": [block],
            "stop_reason": "tool_use" if block["type"] == "tool_use" else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        if request.get("stream"):
            self.answer(200, "text/event-stream", "".join(events(message)))
        else:
            self.answer(200, "application/json", json.dumps(message))

    def refuse(self, status: int, kind: str, message: str) -> None:
        error = {"type": "error", "error": {"type": kind, "message": message}}
        self.answer(status, "application/json", json.dumps(error))

    def answer(self, status: int, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: what was asked is in the server's `requests`."""


def events(message: Json) -> Iterator[str]:
    """The message as the server-sent events of a stream."""
    [block] = message["content"]
    empty: Json
    if block["type"] == "tool_use":
        empty = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    else:
        empty = {**block, "text": ""}
        delta = {"type": "text_delta", "text": block["text"]}
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    sent: list[Json] = [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
    return (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in sent)


# --- the script -------------------------------------------------------------------------------------------------------


def reply(request: Json) -> Json:
    """The next block of the conversation. Raises LookupError or ValueError if a result is not what the script can read,
    or if no tool that is offered does what it needs."""
    blocks = [block for message in request["messages"] if message["role"] == "user" for block in parts(message)]
    words = [block["text"] for block in blocks if block["type"] == "text"]
    said = [text for text in words if not text.startswith("<system-reminder>")]  # the agent's own notes to the model
    results = [block for block in blocks if block["type"] == "tool_result"]
    if failed := [result for result in results if result.get("is_error")]:
        raise ValueError(failed)
    chosen = step(said[-1], [text_of(result) for result in results])
    if isinstance(chosen, str):
        return {"type": "text", "text": chosen}
    name = choose(request.get("tools", ()), *chosen)
    return {"type": "tool_use", "id": f"toolu_{len(results)}", "name": name, "input": chosen[1]}


def step(said: str, results: Sequence[str]) -> tuple[str, Json] | str:
    """What to do next: a tool and its arguments, or the answer."""
    if said.startswith(ORDER):
        return json.loads(results[0])["fact"]["text"] if results else ("remember", {"text": said.removeprefix(ORDER)})
    match results:
        case []:
            return "search", {"query": said}
        case [found]:
            return "fetch", {"id": json.loads(found)["results"][0]["id"]}
        case _:
            return json.loads(results[-1])["text"]


def choose(tools: Sequence[Json], wanted: str, arguments: Json) -> str:
    """The one tool of that name that takes these arguments. Agents put the name of the server before it, each in its own
    way, with `__` between."""
    named = [tool for tool in tools if tool["name"].rpartition("__")[2] == wanted]
    fitting = [tool["name"] for tool in named if takes(tool["input_schema"], arguments)]
    if len(fitting) != 1:
        raise LookupError(f"{wanted}: {fitting} of {[tool['name'] for tool in tools]}")
    return fitting[0]


def takes(schema: Json, arguments: Json) -> bool:
    return {*schema.get("required", ())} <= arguments.keys() <= schema["properties"].keys()


def parts(block: Json) -> list[Json]:
    """The blocks within a message or a result, where a plain text stands for one."""
    content = block["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def text_of(result: Json) -> str:
    return "".join(part["text"] for part in parts(result) if part["type"] == "text")
