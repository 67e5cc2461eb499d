"""Two tenants on one hub, each with something in every slice, and a walk over everything that a hub serves.

The slices are filled with what the operations' own examples name (`chat_1`, `doc-onboarding`, `papers` …), so that an
example works as it stands. The other tenant has the same names with other texts, and more under names of its own.
"""

import base64
import json
import re
import secrets
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import orjson
from tests.doors.doors import MODERN, Json, Served, bearer
from tests.doors.streams import META, board_that_speaks

from kho.kernel.call import Call, Principal
from kho.kernel.capability import Capability
from kho.kernel.hub import Hub
from kho.kernel.operation import Operation
from kho.simulator.board_tools import FirmwareTool

EXAMPLE = "550e8400-e29b-41d4-a716-446655440000"
"""The id that examples name where a slice makes ids itself."""
KEY, WEBHOOK, BOARD, CODE = "1f9d3c07", "4b3a1c9e-9f0a-4d6e-8a55-0f6f2f6f7a10", "aa:bb:cc:dd:ee:ff", "123456"
"""What other examples name."""
FOLDER = "notes"
WORD = "kestrel"
"""In the texts of both tenants: whoever asks for it finds the own."""


@dataclass(frozen=True)
class Mark:
    """What makes a tenant's data known. `secret` is in every text and name that nobody else ever states."""

    secret: str

    @classmethod
    def new(cls, beginning: str) -> "Mark":
        """Random, but no text that could be taken for a credential."""
        syllables = (secrets.choice("bdfgklmnprstvz") + secrets.choice("aeiou") for _ in range(8))
        return cls(f"{beginning}{''.join(syllables)}")

    def of(self, capability: str) -> str:
        return f"{self.secret}{capability}"

    def text(self, capability: str, prefix: str = "") -> str:
        return f"The {WORD} nests at {self.of(capability)}, {prefix or 'its'} old tower."


def filling(mark: Mark, *, prefix: str) -> list[tuple[str, Json]]:
    """Methods at /jsonrpc that put something into every slice. Names begin with `prefix`, or are those of examples."""

    def name(text: str) -> str:
        return f"{prefix}{text}"

    chat, fact, record, kb, doc = (
        mark.text(one, prefix) for one in ("memory", "facts", "experiences", "research", "documents")
    )
    line = {"problem_description": record, "solution": record, "context": record, "keywords": [mark.of("experiences")]}
    paper = {"content": kb, "collection": name("papers"), "tags": [mark.of("research")], "author": mark.of("research")}
    body = {"content": {"mime_type": "text/markdown", "body": doc}}
    about = {"metadata": {"title": doc, "tags": [mark.of("documents")]}}
    why = {"reason": mark.of("documents")}
    return [
        ("memory-server/memory/get_or_create", {"conversation_id": name("chat_1"), "user_id": mark.of("memory")}),
        (
            "memory-server/memory/add_message",
            {"conversation_id": name("chat_1"), "role": "user", "content": chat, "speaker": mark.of("memory")},
        ),
        ("memory-server/memory/add_message", {"conversation_id": name("chat_1"), "role": "assistant", "content": chat}),
        ("memory-server/memory/set_summary", {"conversation_id": name("chat_1"), "summary": chat}),
        ("memory-server/memory/add_message", {"conversation_id": name("chat_2"), "role": "user", "content": chat}),
        (
            "facts-server/import_facts",
            {
                "lines": [
                    {"id": name(EXAMPLE), "text": fact, "about": mark.of("facts"), "source": mark.of("facts")},
                    {"id": name("retired"), "text": f"{fact} Once.", "tags": [mark.of("facts")]},
                ]
            },
        ),
        ("facts-server/forget", {"id": name("retired"), "reason": mark.of("facts")}),
        (
            "experiences-server/import_experiences",
            {
                "experiences": [
                    {"id": name(EXAMPLE), "title": record, **line},
                    {"id": name("retired"), "title": f"{record} Once.", **line},
                ]
            },
        ),
        ("experiences-server/delete_experience", {"id": name("retired"), "reason": mark.of("experiences")}),
        (
            "research-server/manage_collections",
            {"action": "create", "collection_name": name("papers"), "description": kb},
        ),
        ("research-server/manage_projects", {"action": "create", "project_name": name("thesis"), "description": kb}),
        (
            "research-server/manage_projects",
            {"action": "link", "project_name": name("thesis"), "collections": [name("papers")]},
        ),
        ("research-server/augment_knowledge", {**paper, "source": name("reading.md"), "title": name("reading.md")}),
        (
            "research-server/augment_knowledge",
            {**paper, "content": f"{kb} And more.", "source": name("attention.pdf"), "title": name("attention.pdf")},
        ),
        (
            "research-server/submit_feedback",
            {"document_id": name("reading.md"), "verdict": "positive", "reason": mark.of("research")},
        ),
        ("documents-server/create_document", {"document_id": name("doc-onboarding"), **body, **about}),
        (
            "documents-server/edit_document",
            {"document_id": name("doc-onboarding"), "old_text": "nests", "new_text": "nests on the first day"},
        ),
        (
            "documents-server/create_document",
            {"document_id": name("doc-below"), "parent_id": name("doc-onboarding"), **body, **about},
        ),
        ("documents-server/create_document", {"document_id": name("doc-retired"), **body, **about}),
        ("documents-server/delete_document", {"document_id": name("doc-retired"), **why}),
        ("documents-server/create_document", {"document_id": name("doc-purged"), **body, **about}),
        ("documents-server/delete_document", {"document_id": name("doc-purged"), **why}),
    ]


@dataclass
class Tenant:
    """One who calls: a key of a tenant."""

    name: str
    served: Served
    key: str
    mark: Mark
    folder: Path
    """What it may read files from."""
    ids: dict[str, str] = field(default_factory=dict[str, str])
    """What the slices named themselves, by what stands for it in the examples."""
    cursors: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Those that it was given, by operation."""

    async def rpc(self, method: str, params: Json) -> Json:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return (await self.served.post("/jsonrpc", body, **bearer(self.key))).json()

    async def do(self, method: str, params: Json) -> Json:
        answer = await self.rpc(method, params)
        assert "error" not in answer, (method, params, answer)
        result = answer["result"]
        assert result.get("success", True), (method, params, answer)
        return result

    async def fill(self, *prefixes: str) -> None:
        self.ids[FOLDER] = str(self.folder)
        for prefix in prefixes:
            for method, params in filling(self.mark, prefix=prefix):
                await self.do(method, params)
            made = await self.do(
                "administration-server/create_key", {"name": f"{prefix}{self.mark.of('administration')}"}
            )
            self.ids[f"{prefix}{KEY}"] = made["id"]
            ingest = {"path": str(self.folder), "collection": f"{prefix}papers"}
            await self.do("research-server/ingest_documents", ingest)
            self.ids[f"{prefix}a job"] = (await self.do("research-server/list_jobs", {}))["jobs"][0]["job_id"]
            page = await self.do("research-server/list_kb_documents", {"collection": f"{prefix}papers"})
            self.ids[f"{prefix}reading.md"] = page["documents"][0]["id"]
        for prefix in prefixes:  # when all is deleted that will be: nothing is delivered while somebody looks
            hook = {"url": f"https://hooks.example.org/{self.mark.of('documents')}", "events": ["document.deleted"]}
            self.ids[f"{prefix}{WEBHOOK}"] = (await self.do("documents-server/add_webhook", hook))["webhook_id"]
        # With a request id that others may use, too.
        body = {
            "action": "remember",
            "request_id": "request-1",
            "payload": {"text": f"{self.mark.text('facts')} Once."},
        }
        assert (await self.served.post("/actions", body, **bearer(self.key))).status_code == 200

    async def approve(self, board: str) -> dict[str, str]:
        """Let a board in; return the headers with which it connects."""
        headers = {"device-id": board, "client-id": f"client-of-{board}"}
        reply = (await self.served.post("/xiaozhi/ota/", {}, **headers)).json()
        label = {"label": f"{self.mark.of('devices')} {board[:2]}"}
        await self.do("devices-server/device_approve", {"code": reply["activation"]["code"], **label})
        reply = (await self.served.post("/xiaozhi/ota/", {}, **headers)).json()
        return {**headers, "authorization": f"Bearer {reply['websocket']['token']}"}

    async def waiting(self, board: str) -> None:
        """A board shows a code."""
        reply = (await self.served.post("/xiaozhi/ota/", {}, **{"device-id": board, "client-id": "c" * 16})).json()
        self.ids[CODE] = reply["activation"]["code"]

    @asynccontextmanager
    async def board(self, id: str, headers: Mapping[str, str]) -> AsyncGenerator[None]:
        """A board is connected, with a tool of its own, and says something. Yields when its tools are known."""
        said = self.mark.of("devices")
        tool = FirmwareTool(f"self.{said}.greet", f"Greets {said}.", (), lambda context, arguments: said)
        rest = {name: value for name, value in headers.items() if name != "device-id"}
        async with board_that_speaks(self.served, id, said, (tool,), **rest):
            while said not in str(await self.rpc("devices-server/device_tools", {"device": id})):
                pass
            yield


# -- what there is to ask with -----------------------------------------------------------------------------------------

PREFIX = "theirs-"
"""Before the names that only the other tenant has."""
THEIR_BOARD = "fe:dc:ba:98:76:54"

SPECIAL: dict[str, Json] = {
    "facts.restore": {"id": "retired"},
    "experiences.restore": {"id": "retired"},
    "documents.restore_document": {"document_id": "doc-retired"},
    "documents.purge_document": {"document_id": "doc-purged"},
    "documents.move_document": {"document_id": "doc-below", "new_parent_id": "root"},
    "documents.create_document": {"document_id": "doc-new", "content": {"body": "New."}},
    "documents.edit_document": {"document_id": "doc-below", "old_text": "nests", "new_text": "sleeps"},
    "research.collections": {"action": "info", "collection_name": "papers"},
    "research.projects": {"action": "info", "project_name": "thesis"},
    "research.similar": {"document": "reading.md", "top_k": 5},
    "research.feedback": {"document_id": "reading.md", "verdict": "negative"},
    "research.rebuild": {"collection": "papers"},
    "research.ingest": {"path": FOLDER, "collection": "papers"},
    "research.job_status": {"job_id": "a job"},
    "research.cancel_job": {"job_id": "a job"},
    "research.import": {"lines": [{"kind": "collection", "id": "c1", "name": "imported"}]},
    "devices.device_call": {"device": BOARD, "tool": "self.get_device_status"},
    "devices.device_approve": {"code": CODE},
    "administration.create_key": {"name": "another"},
}
"""Arguments where an operation's example does not fit what is filled in here."""

SAID: dict[str, tuple[str, ...]] = {
    "memory": ("chat_1", "chat_2", "msg:chat_1/1", "memory://conversation/chat_1"),
    "facts": (EXAMPLE, "retired", f"fact:{EXAMPLE}"),
    "experiences": (EXAMPLE, "retired", f"exp:{EXAMPLE}"),
    "research": ("papers", "thesis", "reading.md", "kb:reading.md", "a job"),
    "documents": ("doc-onboarding", "doc-retired", "doc:doc-onboarding", WEBHOOK),
    "administration": (KEY,),
}
"""What a slice's things are called. With `PREFIX` before the name they are the other tenant's."""


def theirs(capability: str, ids: Mapping[str, str]) -> list[str]:
    """Whatever names something of the other tenant's in this slice; in a slice that reads others, in all of them."""
    if capability == "devices":
        return [THEIR_BOARD]
    known = SAID.get(capability) or tuple(name for names in SAID.values() for name in names)
    named = [form for name in known for form in (_with_prefix(name), known_as(_with_prefix(name), ids))]
    return [*dict.fromkeys(named)]


def _with_prefix(name: str) -> str:
    kind, colon, rest = name.rpartition(":" if "://" not in name else "/")
    return f"{kind}{colon}{PREFIX}{rest}"


def known_as(text: str, ids: Mapping[str, str]) -> str:
    """The name, or the global id, with what the slice named it."""
    kind, colon, rest = text.rpartition(":")
    return f"{kind}{colon}{ids.get(rest, rest)}"


def substituted(value: Any, ids: Mapping[str, str]) -> Any:
    """Arguments, with what stands in examples replaced by what the slices named it."""
    match value:
        case str():
            return ids.get(value, value)
        case list():
            return [substituted(one, ids) for one in cast(list[Any], value)]
        case dict():
            return {name: substituted(one, ids) for name, one in cast(Json, value).items()}
        case _:
            return value


def working(operation: Operation, ids: Mapping[str, str]) -> Json:
    return substituted(dict(SPECIAL.get(operation.name, operation.example)), ids)


Path_ = tuple[str, ...]


def texts(schema: Json, path: Path_ = (), root: Json | None = None) -> Iterator[tuple[Path_, bool]]:
    """Every place in the parameters that takes a text: its path, and whether it is a list of them."""
    root = root or schema
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    for name, one in cast(Json, schema.get("properties", {})).items():
        for form in one.get("anyOf", [one]):
            if "$ref" in form:
                form = root["$defs"][form["$ref"].rpartition("/")[2]]
            if form.get("type") == "string" and not {"enum", "const"} & form.keys():
                yield (*path, name), False
            elif form.get("type") == "array" and form.get("items", {}).get("type") == "string":
                yield (*path, name), True
            elif form.get("type") == "object":
                yield from texts(form, (*path, name), root)


def put(arguments: Json, path: Path_, value: Any) -> Json:
    first, *rest = path
    if not rest:
        return {**arguments, first: value}
    inner = arguments.get(first)
    return {**arguments, first: put(cast(Json, inner) if isinstance(inner, dict) else {}, tuple(rest), value)}


def probes(
    operation: Operation, mine: Mapping[str, str], them: Mapping[str, str], cursors: Sequence[str]
) -> list[Json]:
    """The working arguments, each text of which is replaced by whatever names something of the other tenant's."""
    base = working(operation, mine)
    found: list[Json] = []
    for path, several in texts(operation.input_schema):
        names = cursors if path[-1] == "cursor" else [*theirs(operation.capability, them), "globex", WORD]
        found += [put(base, path, [name] if several else name) for name in names]
    return [one for one in found if one != base]


MORE: dict[str, list[Json]] = {
    "research.collections": [
        {"action": "delete", "collection_name": f"{PREFIX}papers", "confirm": True},
        {"action": "rename", "collection_name": f"{PREFIX}papers", "new_name": "mine"},
        {"action": "create", "collection_name": f"{PREFIX}papers"},
        {"action": "list"},
        {"action": "delete", "collection_name": f"{PREFIX}papers", "confirm": True},
    ],
    "research.projects": [
        {"action": "link", "project_name": f"{PREFIX}thesis", "collections": ["papers"]},
        {"action": "link", "project_name": "thesis", "collections": [f"{PREFIX}papers"]},
        {"action": "archive", "project_name": f"{PREFIX}thesis"},
        {"action": "list", "include_archived": True},
    ],
    "facts.import": [{"lines": [{"id": f"{PREFIX}{EXAMPLE}", "text": "Mine."}]}],
    "experiences.import": [
        {
            "experiences": [
                {"id": f"{PREFIX}{EXAMPLE}", "title": "Mine.", "problem_description": "Mine.", "solution": "Mine."}
            ]
        }
    ],
    "memory.import": [
        {
            "lines": [
                {
                    "type": "message",
                    "conversation_id": f"{PREFIX}chat_1",
                    "id": "m1",
                    "role": "user",
                    "content": "Mine.",
                    "created_at": "2026-07-28T09:00:00Z",
                }
            ]
        }
    ],
    "research.import": [{"lines": [{"kind": "collection", "id": f"{PREFIX}c1", "name": f"{PREFIX}papers"}]}],
    "documents.create_document": [{"document_id": f"{PREFIX}doc-onboarding", "content": {"body": "Mine."}}],
}
"""Calls that change one thing after the other, or hold names inside a line."""
ORDER = ("read", "write", "destructive")


def in_order(capabilities: Iterable[Capability]) -> list[tuple[Capability, Operation]]:
    """Every operation: those that look first, those that delete last."""
    every = [(one, operation) for one in capabilities for operation in one.operations]
    return sorted(every, key=lambda pair: ORDER.index(pair[1].effect))


# -- the walk ----------------------------------------------------------------------------------------------------------


@dataclass
class Walk:
    """What one caller is answered, in the order in which it asks."""

    hub: Hub
    served: Served
    key: str
    principal: Principal
    answers: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Each with what was asked."""
    compared: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Those that another hub must answer alike."""
    compares: bool = True

    def note(self, asked: str, answer: str) -> None:
        self.answers.append((asked, answer))
        if self.compares:
            self.compared.append((asked, answer))

    @property
    def text(self) -> str:
        return "\n".join(answer for _, answer in self.answers)

    async def get(self, path: str, *, asked: str = "") -> None:
        answer = await self.served.get(path, **bearer(self.key))
        self.note(asked or path, f"{answer.status_code} {answer.text}")

    async def mcp(self, method: str, named: str = "", **params: Any) -> Json:
        headers = {
            "mcp-protocol-version": MODERN,
            "mcp-method": method,
            "accept": "application/json, text/event-stream",
        }
        if named:
            headers["mcp-name"] = named
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}
        answer = await self.served.post("/mcp", body, **bearer(self.key), **headers)
        self.note(f"{method} {named} {params}", answer.text)
        found = re.search(r"^data: (\{.*)$", answer.text, re.M)
        return json.loads(found[1] if found else answer.text or "{}")

    async def calls(self, server: str, operation: Operation, calls: Sequence[Json]) -> None:
        """At one door: the first that serves it."""
        if operation.rpc is not None:
            method = f"{server}/{operation.rpc}"
            for start in range(0, len(calls), 50):
                part = calls[start : start + 50]
                body = [{"jsonrpc": "2.0", "id": n, "method": method, "params": one} for n, one in enumerate(part)]
                answers = (await self.served.post("/jsonrpc", body, **bearer(self.key))).json()
                for one, answer in zip(part, answers, strict=True):
                    self.note(f"{method} {one}", orjson.dumps(answer).decode())
            return
        for one in calls:
            await self.elsewhere(operation, one)

    async def elsewhere(self, operation: Operation, arguments: Json) -> None:
        """At every other door that serves it; without any, as the command line does."""
        if operation.action is not None:
            body = {"action": operation.action, "payload": arguments}
            answer = await self.served.post("/actions", body, **bearer(self.key))
            self.note(f"/actions {operation.action} {arguments}", f"{answer.status_code} {answer.text}")
        if operation.tool is not None:
            await self.mcp("tools/call", operation.tool, name=operation.tool, arguments=arguments)
        if operation.rpc is operation.action is operation.tool is None:
            outcome = await self.hub.registry.call(operation, arguments, Call(self.principal))
            told = outcome.error.as_dict() if outcome.error else outcome.value
            self.note(f"{operation.name} {arguments}", orjson.dumps(told, default=str).decode())

    async def pages(self, server: str, operation: Operation, arguments: Json) -> list[str]:
        """Read a list one by one, to its end; return the cursors."""
        fields = operation.params.model_fields
        if operation.rpc is None or not {"cursor", "limit"} <= fields.keys():
            return []
        cursors: list[str] = []
        body: Json = {**arguments, "limit": 1}
        while len(cursors) < 40:
            call = {"jsonrpc": "2.0", "id": 1, "method": f"{server}/{operation.rpc}", "params": body}
            answer = (await self.served.post("/jsonrpc", call, **bearer(self.key))).json()
            self.note(f"page {len(cursors)} of {operation.name}", orjson.dumps(answer).decode())
            found = re.search(r'"next_cursor":"([^"]+)"', orjson.dumps(answer).decode())
            if found is None:
                break
            cursors.append(found[1])
            body = {**body, "cursor": found[1]}
        return cursors

    async def surface(self, capabilities: Sequence[Capability], uris: Iterable[str], ids: Iterable[str]) -> None:
        """Everything that is served beside operations."""
        for path in ("/", "/health", "/servers", "/openapi.json", "/metrics", "/nonsuch"):
            await self.get(path)
        for one in capabilities:
            await self.get(f"/servers/{one.server}/capabilities")
        for method in ("server/discover", "tools/list", "resources/list", "resources/templates/list", "prompts/list"):
            await self.mcp(method)
        for uri in uris:
            await self.mcp("resources/read", uri, uri=uri)
        for prompt in (prompt for one in capabilities for prompt in one.prompts):
            arguments = {argument.name: WORD for argument in prompt.arguments}
            await self.mcp("prompts/get", prompt.name, name=prompt.name, arguments=arguments)
        for template in (t for one in capabilities if one.resources for t in one.resources.templates):
            [name] = re.findall(r"\{(\w+)\}", template.uri)
            for begun in ("", PREFIX):
                reference = {"type": "ref/resource", "uri": template.uri}
                await self.mcp("completion/complete", ref=reference, argument={"name": name, "value": begun})
        for id in ids:
            await self.get(f"/open/{id.replace('/', '%2F')}")


def global_ids(mine: Mapping[str, str], them: Mapping[str, str]) -> list[str]:
    named = [name for names in SAID.values() for name in names if ":" in name and "://" not in name]
    return [form for name in named for form in (known_as(name, mine), known_as(_with_prefix(name), them))]


def resource_uris(mine: Mapping[str, str], them: Mapping[str, str]) -> list[str]:
    """Of one's own things and of the other tenant's, listed and not."""
    forms = (
        ("memory://conversation/{}", "chat_1"),
        ("fact://{}", EXAMPLE),
        ("kho://research/collections/{}", "papers"),
        ("kho://research/documents/{}", "reading.md"),
        ("kho://documents/{}", "doc-onboarding"),
    )
    pairs = ((form, own, f"{PREFIX}{own}") for form, own in forms)
    return [uri for form, a, b in pairs for uri in (form.format(mine.get(a, a)), form.format(them.get(b, b)))]


# -- comparing two walks -----------------------------------------------------------------------------------------------

VOLATILE = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)"), "(time)"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?( UTC)?"), "(time)"),
    (re.compile(r',\\?"last_used_at\\?":\\?"\(time\)\\?"'), ""),  # written within a minute, some time after the use
    (re.compile(r"kho_[0-9a-f]{8}_[\w-]{43}"), "(key)"),
    (re.compile(r"whsec_[\w-]+"), "(secret)"),
    (re.compile(r"http://127\.0\.0\.1:\d+"), "(hub)"),
    (re.compile(r'\\?"(\w*(ms|seconds))\\?": ?[\d.e-]+'), r'"\1":0'),
    (re.compile(r"\b17\d{14}\b"), "(microseconds)"),
)
CURSOR = re.compile(r"(?<=next_cursor\":\")[\w-]+|(?<=next_cursor\\\":\\\")[\w-]+")
MINTED = re.compile(
    r"\b([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}|[0-9a-f]{8}|\d{6})\b"
)


def opened(token: str) -> str:
    """What a cursor or another Base64 text holds; the text itself if it is none."""
    try:
        return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
    except ValueError:
        return token


def normal(answers: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Without what differs from run to run: times, secrets, and ids, which are numbered as they come."""
    numbers: dict[str, int] = {}

    def numbered(found: re.Match[str]) -> str:
        return f"(id {numbers.setdefault(found[0], len(numbers))})"

    def plain(text: str) -> str:
        text = CURSOR.sub(lambda found: opened(found[0]), text)
        for pattern, instead in VOLATILE:
            text = pattern.sub(instead, text)
        return MINTED.sub(numbered, text)

    return [(plain(asked), plain(answer)) for asked, answer in answers]
