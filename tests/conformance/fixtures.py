"""What the MCP conformance suite expects to find on a server, as one more capability of the hub.

The suite calls tools, prompts and resources by fixed names. Plain ones come back as Kho's own operations do; those
that ask the client something in mid-call speak MCP themselves: they are handed the SDK's context as `call.peer` and
return the SDK's results. Both eras ask: the handshake era over its session, 2026-07-28 by an InputRequiredResult.
"""

import asyncio
import base64
import re
import struct
import zlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from pydantic import BaseModel, ConfigDict

from kho.kernel.call import Call
from kho.kernel.capability import Argument, Capability, Prompt, Resource, ResourceContent
from kho.kernel.errors import KhoError
from kho.kernel.json_schema import JsonSchema
from kho.kernel.operation import Operation

SCOPE = "conformance"
Context = ServerRequestContext[Any, Any]
Run = Callable[[Any, Call], Awaitable[Any]]
Block = types.ContentBlock

NEEDS_SAMPLING = "test_missing_capability"


class Nothing(BaseModel):
    pass


class Asked(BaseModel):
    prompt: str


class Told(BaseModel):
    message: str


class Anything(BaseModel):
    model_config = ConfigDict(extra="allow")


class Refused(KhoError):
    """This tool always fails."""

    code = "REFUSED"


def _png() -> bytes:
    """One red pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\0\xff\0\0")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def _wav() -> bytes:
    """Eight silent samples."""
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8000, 8000, 1, 8)
    data = struct.pack("<4sI", b"data", 8) + b"\x80" * 8
    return struct.pack("<4sI4s", b"RIFF", 4 + len(form) + len(data), b"WAVE") + form + data


def _text(text: str) -> types.TextContent:
    return types.TextContent(text=text)


def _image() -> types.ImageContent:
    return types.ImageContent(data=base64.b64encode(_png()).decode(), mime_type="image/png")


def _embedded(uri: str, mime_type: str, text: str) -> types.EmbeddedResource:
    return types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, mime_type=mime_type, text=text))


def _result(*content: Block) -> types.CallToolResult:
    return types.CallToolResult(content=list(content))


def _gives(*content: Block) -> Run:
    async def run(params: Nothing, call: Call) -> types.CallToolResult:
        return _result(*content)

    return run


def _form(message: str, required: Sequence[str] = (), **properties: JsonSchema) -> types.ElicitRequest:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def _question(text: str) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=_text(text))
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[message], max_tokens=100))


NAME = _form("What is your name?", ["name"], name={"type": "string"})
COLOUR = _form("What is your favourite colour?", ["colour"], colour={"type": "string"})
CONFIRM = _form("Is that right?", ["ok"], ok={"type": "boolean"})
CONTEXT = _form("What is it about?", ["context"], context={"type": "string"})
CAPITAL = _question("What is the capital of France?")
ROOTS = types.ListRootsRequest()

DEFAULTS = _form(
    "Check these values.",
    name={"type": "string", "default": "John Doe"},
    age={"type": "integer", "default": 30},
    score={"type": "number", "default": 95.5},
    status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    verified={"type": "boolean", "default": True},
)


def _titled(*titles: str) -> list[JsonSchema]:
    return [{"const": f"value{number}", "title": title} for number, title in enumerate(titles, 1)]


OPTIONS = ["option1", "option2", "option3"]
ENUMS = _form(
    "Choose.",
    untitledSingle={"type": "string", "enum": OPTIONS},
    titledSingle={"type": "string", "oneOf": _titled("First", "Second", "Third")},
    legacyEnum={"type": "string", "enum": OPTIONS, "enumNames": ["First", "Second", "Third"]},
    untitledMulti={"type": "array", "items": {"type": "string", "enum": OPTIONS}},
    titledMulti={"type": "array", "items": {"anyOf": _titled("First", "Second", "Third")}},
)

JSON_SCHEMA_2020_12: JsonSchema = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"$anchor": "address", "type": "object", "properties": {"city": {"type": "string"}}}},
    "properties": {
        "address": {"$ref": "#/$defs/address"},
        "by": {"enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"by": {"const": "phone"}}, "required": ["by"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

WITH_HEADER: JsonSchema = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    "required": ["region"],
}


# The handshake era: the tool asks in mid-call, over the caller's session, and waits.


def _asks(request: types.ElicitRequest) -> Run:
    async def run(params: Nothing, call: Call) -> types.CallToolResult:
        return await _elicited(call.peer, request)

    return run


async def _elicit(params: Told, call: Call) -> types.CallToolResult:
    text: JsonSchema = {"type": "string"}
    return await _elicited(call.peer, _form(params.message, ["username", "email"], username=text, email=text))


async def _elicited(ctx: Context, request: types.ElicitRequest) -> types.CallToolResult:
    assert isinstance(request.params, types.ElicitRequestFormParams)
    form = request.params
    answer = await ctx.session.elicit_form(form.message, form.requested_schema, related_request_id=ctx.request_id)
    return _result(_text(f"The user chose {answer.action}: {answer.content}"))


async def _sample(params: Asked, call: Call) -> types.CallToolResult:
    ctx: Context = call.peer
    messages = [types.SamplingMessage(role="user", content=_text(params.prompt))]
    answer = await ctx.session.create_message(  # pyright: ignore[reportDeprecated]  # but still tested
        messages, max_tokens=100, related_request_id=ctx.request_id
    )
    return _result(_text(f"The model said: {_said(answer)}"))


async def _log(params: Nothing, call: Call) -> types.CallToolResult:
    ctx: Context = call.peer
    for line in ("started", "working", "done"):
        await ctx.session.send_log_message(  # pyright: ignore[reportDeprecated]  # but still tested
            "info", line, "conformance", related_request_id=ctx.request_id
        )
        await asyncio.sleep(0.05)
    return _result(_text("Logged three lines, to a client that wanted them."))


# 2026-07-28: the tool says what it lacks, and the client calls again with the answers.


def _wants(requests: types.InputRequests, state: str | None = None) -> types.InputRequiredResult:
    return types.InputRequiredResult(input_requests=requests, request_state=state)


def _answers(call: Call) -> types.InputResponses:
    return _retry(call).input_responses or {}


def _retry(call: Call) -> types.InputResponseRequestParams:
    ctx: Context = call.peer
    return types.InputResponseRequestParams.model_validate(ctx.params or {}, by_name=False)


def _until_answered(requests: types.InputRequests, state: str | None = None) -> Run:
    """Asks until every answer is there, and the state that went out has come back."""

    async def run(params: Nothing, call: Call) -> types.Result:
        answers = _answers(call)
        if not requests.keys() <= answers.keys() or _retry(call).request_state != state:
            return _wants(requests, state)
        given = "; ".join(_said(answers[key]) for key in requests)
        return _result(_text(f"{'state-ok; ' if state else ''}{given}"))

    return run


async def _two_rounds(params: Nothing, call: Call) -> types.Result:
    answers, state = _answers(call), _retry(call).request_state
    if state == "first" and "name" in answers:
        return _wants({"colour": COLOUR}, f"second:{_said(answers['name'])}")
    if state is not None and state.startswith("second:") and "colour" in answers:
        return _result(_text(f"{state.removeprefix('second:')} likes {_said(answers['colour'])}"))
    return _wants({"name": NAME}, "first")


async def _what_the_client_can(params: Nothing, call: Call) -> types.Result:
    ctx: Context = call.peer
    can = ctx.session.client_capabilities or types.ClientCapabilities()
    requests: types.InputRequests = {}
    if can.elicitation is not None:
        requests["name"] = NAME
    if can.sampling is not None:
        requests["capital"] = CAPITAL
    return _wants(requests) if requests else _result(_text("There is nothing this client could be asked."))


def _said(answer: types.InputResponse) -> str:
    match answer:
        case types.ElicitResult():
            return ", ".join(str(value) for value in (answer.content or {}).values())
        case types.ListRootsResult():
            return ", ".join(str(root.uri) for root in answer.roots)
        case types.CreateMessageResult(content=types.TextContent(text=text)):
            return text
        case _:
            return answer.model_dump_json()


# Plain operations


async def _fail(params: Nothing, call: Call) -> types.Result:
    raise Refused("This tool fails on purpose.")


async def _progress(params: Nothing, call: Call) -> types.Result:
    for done in (0, 50, 100):
        await call.progress(done, 100, None)
        await asyncio.sleep(0.05)
    return _result(_text("Done."))


def tool(name: str, run: Run, params: type[BaseModel] = Nothing, schema: JsonSchema | None = None) -> Operation:
    return Operation(
        name=f"conformance.{name}",
        summary=f"For the conformance suite: {name.replace('_', ' ')}.",
        params=params,
        run=run,
        scope=SCOPE,
        tool=name,
        literal_input=schema,
    )


TOOLS = (
    tool("test_simple_text", _gives(_text("This is a simple text response for testing."))),
    tool("test_image_content", _gives(_image())),
    tool(
        "test_audio_content",
        _gives(types.AudioContent(data=base64.b64encode(_wav()).decode(), mime_type="audio/wav")),
    ),
    tool("test_embedded_resource", _gives(_embedded("test://embedded-resource", "text/plain", "An embedded text."))),
    tool(
        "test_multiple_content_types",
        _gives(_text("Three kinds:"), _image(), _embedded("test://mixed-content-resource", "application/json", "{}")),
    ),
    tool("test_error_handling", _fail),
    tool("test_tool_with_progress", _progress),
    tool("test_tool_with_logging", _log),
    tool("test_logging_tool", _log),
    tool("test_sampling", _sample, Asked),
    tool("test_elicitation", _elicit, Told),
    tool("test_elicitation_sep1034_defaults", _asks(DEFAULTS)),
    tool("test_elicitation_sep1330_enums", _asks(ENUMS)),
    tool("test_streaming_elicitation", _until_answered({"user_name": NAME})),
    tool("test_input_required_result_elicitation", _until_answered({"user_name": NAME})),
    tool("test_input_required_result_sampling", _until_answered({"capital_question": CAPITAL})),
    tool("test_input_required_result_list_roots", _until_answered({"client_roots": ROOTS})),
    tool("test_input_required_result_request_state", _until_answered({"confirm": CONFIRM}, "asked")),
    tool("test_input_required_result_tampered_state", _until_answered({"confirm": CONFIRM}, "asked")),
    tool(
        "test_input_required_result_multiple_inputs",
        _until_answered({"user_name": NAME, "greeting": _question("Greet me."), "client_roots": ROOTS}, "asked"),
    ),
    tool("test_input_required_result_multi_round", _two_rounds),
    tool("test_input_required_result_capabilities", _what_the_client_can),
    tool(NEEDS_SAMPLING, _gives(_text("The client can sample."))),
    tool("json_schema_2020_12_tool", _gives(_text("Valid.")), Anything, JSON_SCHEMA_2020_12),
    tool("test_header_parameter", _gives(_text("The header and the argument agree.")), Anything, WITH_HEADER),
)


def _prompt_gives(*content: Block) -> Callable[[dict[str, str], Call], Awaitable[types.GetPromptResult]]:
    async def render(arguments: dict[str, str], call: Call) -> types.GetPromptResult:
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=block) for block in content])

    return render


async def _simple(arguments: dict[str, str], call: Call) -> str:
    return "This is a simple prompt for testing."


async def _with_arguments(arguments: dict[str, str], call: Call) -> str:
    return f"Prompt with arguments: arg1='{arguments['arg1']}', arg2='{arguments['arg2']}'"


async def _with_resource(arguments: dict[str, str], call: Call) -> types.GetPromptResult:
    resource = _embedded(arguments["resourceUri"], "text/plain", "An embedded text.")
    return await _prompt_gives(resource, _text("Read the text above."))(arguments, call)


async def _with_input(arguments: dict[str, str], call: Call) -> types.Result | str:
    answer = _answers(call).get("user_context")
    return _wants({"user_context": CONTEXT}) if answer is None else f"About {_said(answer)}."


PROMPTS = (
    Prompt("test_simple_prompt", "No arguments.", _simple, scope=SCOPE),
    Prompt(
        "test_prompt_with_arguments",
        "Two arguments.",
        _with_arguments,
        (Argument("arg1", "The first.", required=True), Argument("arg2", "The second.", required=True)),
        scope=SCOPE,
    ),
    Prompt(
        "test_prompt_with_embedded_resource",
        "A resource inside.",
        _with_resource,
        (Argument("resourceUri", "Its URI.", required=True),),
        scope=SCOPE,
    ),
    Prompt(
        "test_prompt_with_image",
        "An image inside.",
        _prompt_gives(_image(), _text("Describe the image above.")),
        scope=SCOPE,
    ),
    Prompt("test_input_required_result_prompt", "Asks for its context.", _with_input, scope=SCOPE),
)


class FixtureResources:
    scope = SCOPE
    templates: Sequence[Resource] = (Resource("test://template/{id}/data", "template", "Repeats its id."),)
    listed = (
        Resource("test://static-text", "static-text", "A text.", "text/plain"),
        Resource("test://static-binary", "static-binary", "An image.", "image/png"),
    )

    async def page(self, call: Call, cursor: str | None) -> tuple[Sequence[Resource], str | None]:
        return self.listed, None

    async def read(self, call: Call, uri: str) -> ResourceContent | None:
        if uri == "test://static-text":
            return ResourceContent(uri, "text/plain", text="This is the content of the static text resource.")
        if uri == "test://static-binary":
            return ResourceContent(uri, "image/png", blob=_png())
        if found := re.fullmatch(r"test://template/(\w+)/data", uri):
            return ResourceContent(uri, "application/json", text=f'{{"id": "{found[1]}"}}')
        return None

    async def complete(self, call: Call, uri: str, argument: str, value: str) -> Sequence[str]:
        return ()


class Changes:
    """Lists that change on demand. A tool comes or goes as boards bring theirs; prompts never change in Kho, so
    that a client hears of it is up to `prompts_changed`."""

    def __init__(self, prompts_changed: Callable[[], Awaitable[None]]) -> None:
        self._prompts_changed = prompts_changed
        self._guest = tool("test_guest", _gives(_text("Here for a while.")))
        self._present: tuple[Operation, ...] = ()
        self._listeners: list[Callable[[], None]] = []

    def operations(self) -> Sequence[Operation]:
        return self._present

    def subscribe(self, changed: Callable[[], None]) -> None:
        self._listeners.append(changed)

    async def change_tools(self, params: Nothing, call: Call) -> types.Result:
        self._present = () if self._present else (self._guest,)
        for changed in self._listeners:
            changed()
        return _result(_text("The list of tools changed."))

    async def change_prompts(self, params: Nothing, call: Call) -> types.Result:
        await self._prompts_changed()
        return _result(_text("The list of prompts changed."))


def capability(prompts_changed: Callable[[], Awaitable[None]]) -> Capability:
    changes = Changes(prompts_changed)
    triggers = (
        tool("test_trigger_tool_change", changes.change_tools),
        tool("test_trigger_prompt_change", changes.change_prompts),
    )
    return Capability(
        "conformance",
        "conformance",
        (*TOOLS, *triggers),
        prompts=PROMPTS,
        resources=FixtureResources(),
        sources=(changes,),
    )
