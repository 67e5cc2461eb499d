"""Made-up secrets, others in every run, are sent through every door and operation; then everything that was printed,
logged, stored and served is searched for them.

Two lots. `nowhere` are credentials, keys in settings, and what was refused or only asked: no trace of them may be left.
`kept` are in what was stored under the policy `warn`: those are in `MAY_HOLD`, and nowhere else.
"""

import json
import logging
import random
import re
import string
import sys
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, cast

import apsw
import httpx2
import psycopg
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from psycopg import sql
from tests.doors.doors import KHO, MODERN, PLAIN, Json, Served, bearer, kho, new_key, served, talking
from tests.key_watch import watched

from kho import slices
from kho.doors.logs import JsonFormatter, LineFormatter
from kho.kernel.access import METRICS
from kho.kernel.operation import Operation
from kho.settings import Settings

LETTERS = string.ascii_letters + string.digits
TENANT = "local"
MAY_HOLD = {
    "documents", "document_revisions", "document_bodies", "document_events", "document_webhooks", "passages", "receipts",
    "conversations", "messages", "research_documents", "research_texts", "research_collections", "research_projects",
    "research_jobs", "research_feedback", "devices", "api_keys",
}  # fmt: skip
"""Tables with what was stored as sent."""
NEVER = {"audit", "audit_subjects", "research_history", "device_calls", "facts", "experiences"}


def made(random: random.Random) -> str:
    """A secret of a kind that is known by its form alone, so that every place recognises it."""

    def letters(length: int, alphabet: str = LETTERS) -> str:
        return "".join(random.choices(alphabet, k=length))

    return watched(
        random.choice(
            (
                "ghp" + "_" + letters(36),
                "xoxb" + "-" + letters(12, string.digits) + "-" + letters(24),
                "sk_live" + "_" + letters(32),
                "npm" + "_" + letters(36),
                "hf" + "_" + letters(34),
            )
        )
    )


@dataclass
class Canaries:
    random: random.Random
    nowhere: set[str] = field(default_factory=set[str])
    kept: set[str] = field(default_factory=set[str])

    def gone(self) -> str:
        self.nowhere.add(secret := made(self.random))
        return secret

    def stored(self) -> str:
        self.kept.add(secret := made(self.random))
        return secret

    def of(self, operation: Operation) -> str:
        keeps = operation.effect != "read" and operation.capability not in ("facts", "experiences")
        return self.stored() if keeps else self.gone()

    def in_(self, text: str, lot: set[str]) -> list[str]:
        """Those that occur, in the text itself or escaped."""
        return [secret for secret in lot if secret in text]


@pytest.fixture
def canaries() -> Canaries:
    seed = random.SystemRandom().randrange(10**9)
    sys.stderr.write(f"seed {seed}\n")
    return Canaries(random.Random(seed))


@pytest.fixture
def logged() -> Iterator[list[StringIO]]:
    """Everything that is logged, in both formats."""
    root, ours = logging.getLogger(), logging.getLogger("kho")
    streams, levels = [StringIO(), StringIO()], (root.level, ours.level)
    handlers = [logging.StreamHandler(stream) for stream in streams]
    for handler, formatter in zip(handlers, (JsonFormatter(), LineFormatter()), strict=True):
        handler.setFormatter(formatter)
        root.addHandler(handler)
    root.setLevel(logging.WARNING)  # as `kho serve` does; a client in this process logs the addresses that it asks
    ours.setLevel(logging.DEBUG)
    yield streams
    for handler in handlers:
        root.removeHandler(handler)
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


def of_settings(canaries: Canaries, home: Path, url: str | None) -> Settings:
    """With a key in every place that takes one; the models are not asked."""
    return Settings.model_validate(
        {
            "home": home,
            "database_url": url,
            "llm": {"api_key": canaries.gone()},
            "vision": {"api_key": canaries.gone()},
            "search": {
                "embedder": {"provider": "none", "api_key": canaries.gone()},
                "reranker": {"api_key": canaries.gone()},
                "vectors": {"qdrant_api_key": canaries.gone()},
            },
        }
    )


def variants(operation: Operation, canaries: Canaries) -> Iterator[Json]:
    """Its example with a secret in each parameter that takes a text, in one that there is not, and in all at once."""
    properties: Json = operation.input_schema.get("properties", {})
    example = {name: value for name, value in operation.example.items() if name in properties}
    # A tenant's name is what rows are kept apart by, in the audit trail too.
    texts = [name for name, schema in properties.items() if '"string"' in json.dumps(schema) and name != "tenant"]
    for name in texts if operation.capability not in OUTSIDE else ():
        yield {**example, name: _with(example.get(name), canaries.of(operation))}
    yield {**example, canaries.of(operation): "x"}
    yield {**example, **{name: _with(example.get(name), canaries.of(operation)) for name in texts}}


def _with(value: Any, secret: str) -> Any:
    if isinstance(value, dict):
        return {**cast(Json, value), "note": f"see {secret}"}
    if isinstance(value, list):
        return [*cast(list[Any], value), secret]
    return f"see {secret}" if isinstance(value, str) and " " in value else secret


SKIPPED = {"keys_off", "revoke_key", "delete_key", "rotate_key"}
"""They would end the test's own key."""
OUTSIDE = {"toolbox"}
"""Their examples are addresses of others; they are asked with secrets in all places at once, which no address is."""


def operations() -> list[Operation]:
    found = [one for capability in slices.describe().capabilities for one in capability.operations]
    assert len(found) > 80
    return [one for one in found if one.name.partition(".")[2] not in SKIPPED]


@dataclass
class Walk:
    hub: Served
    key: str
    canaries: Canaries
    failures: list[str] = field(default_factory=list[str])
    answered: int = 0
    failed: int = 0

    async def jsonrpc(self) -> None:
        methods = {
            id(one): f"{capability.server}/{one.rpc}"
            for capability in slices.describe().capabilities
            for one in capability.operations
        }
        servers = {capability.name: capability.server for capability in slices.describe().capabilities}
        assert methods
        for operation in operations():
            if operation.rpc is None:
                continue
            for params in variants(operation, self.canaries):
                method = f"{servers[operation.capability]}/{operation.rpc}"
                body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
                answer = (await self.hub.post("/jsonrpc", body, **bearer(self.key))).json()
                refused = '"success": false' in json.dumps(answer)
                self.heard(method, answer, error="error" in answer or refused)

    async def actions(self) -> None:
        for operation in operations():
            if operation.action is None:
                continue
            [*_, params] = variants(operation, self.canaries)
            reply = await self.hub.act(operation.action, params, key=self.key, request_id=str(uuid.uuid4()))
            self.heard(operation.action, reply.json(), error=reply.status_code >= 400)

    async def mcp(self) -> None:
        async with (
            httpx2.AsyncClient(headers=bearer(self.key), verify=PLAIN, trust_env=False) as http,
            Client(streamable_http_client(f"{self.hub.url}/mcp?tools=all", http_client=http), mode=MODERN) as client,
        ):
            for operation in operations():
                if operation.tool is None:
                    continue
                [*_, params] = variants(operation, self.canaries)
                try:
                    result = await client.call_tool(operation.tool, params)
                except MCPError as error:
                    self.heard(operation.tool, str(error), error=True)
                else:
                    self.heard(operation.tool, result.model_dump_json(), error=result.is_error)

    async def credentials(self) -> None:
        """Refused credentials, in all places where somebody may put one."""
        gone = self.canaries.gone
        body = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "experiences-server/query_experiences",
            "params": {"keywords": "x"},
        }
        for headers in (
            {"authorization": f"Bearer {gone()}"},
            {"authorization": f"Bearer kho_{gone()}"},
            {"authorization": f"Basic {gone()}"},
            {"authorization": gone()},
            {"x-api-key": gone()},
            {"cookie": f"key={gone()}"},
        ):
            for path in ("/jsonrpc", "/actions", "/mcp", "/metrics", f"/jsonrpc?key={gone()}", f"/nothing/{gone()}"):
                reply = await self.hub.post(path, body, **headers)
                assert reply.status_code >= 400
                self.heard(path, reply.text, error=True)
        for path in (f"/{gone()}", f"/servers/{gone()}/capabilities", f"/metrics?token={gone()}"):
            reply = await self.hub.get(path, **bearer(self.key))
            self.heard(path, reply.text, error=reply.status_code >= 400)

    async def envelopes(self) -> None:
        """What a door refuses before any operation runs."""
        gone, write = self.canaries.gone, {"document_id": "no-such", "content": {"body": "x"}}
        for body in (
            {"action": "create_document", "payload": write, "request_id": gone()},
            {"action": "memory_list", "request_id": gone()},
            {"action": gone()},
            {"action": gone(), "principal": {"sub": "another"}},
            {"action": "memory_list", "principal": {"sub": gone()}},
            {"action": "memory_list", "principal": {"tenant_id": gone()}},
            {"action": "memory_list", "payload": gone()},
            {"action": "memory_list", "version": gone()},
            {"action": "memory_list", gone(): 1},
            {"action": [gone()], "request_id": gone()},
            {"action": "ingest_documents", "payload": {"path": f"/no/{'such/' * 500}{gone()}", "collection": "c"}},
            {"action": "get_document", "payload": {"document_id": f"{'y' * 2_100} {gone()}"}},
        ):
            reply = await self.hub.post("/actions", body, **bearer(self.key))
            assert reply.status_code >= 400, body
            self.heard("/actions", reply.text, error=True)
        several: list[tuple[str, Any]] = [(f"experiences-server/{gone()}", {}), (gone(), {}), ("x/y", gone())]
        for method, params in several:
            body: Json = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            for path in ("/jsonrpc", "/mcp"):
                headers = {**bearer(self.key), "accept": "application/json, text/event-stream"}
                self.heard(path, (await self.hub.post(path, body, **headers)).text, error=True)
        for method in ("GET", "POST"):
            send = self.hub.get if method == "GET" else self.hub.post
            listing: Json = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
            more = [] if method == "GET" else [listing]
            reply = await send(f"/mcp?tools={gone()}", *more, **bearer(self.key))
            assert reply.status_code == 400
            self.heard("/mcp?tools=", reply.text, error=True)
        for path in (f"/open/doc:{gone()}", f"/servers/{gone()}/capabilities", f"/{gone()}"):
            self.heard(path, (await self.hub.get(path, **bearer(self.key))).text, error=True)

    async def of_client(self, client: Client) -> None:
        """What a client of MCP is refused, over whatever it is connected."""
        gone = self.canaries.gone
        prompts = (await client.list_prompts()).prompts
        templates = (await client.list_resource_templates()).resource_templates
        assert len(prompts) > 3
        asked: list[Awaitable[Any]] = [client.call_tool(gone(), {}), client.get_prompt(gone(), {})]
        for prompt in prompts:
            names = [one.name for one in prompt.arguments or []]
            asked += [client.get_prompt(prompt.name, {**dict.fromkeys(names, "1"), name: gone()}) for name in names]
            asked.append(client.get_prompt(prompt.name, {gone(): gone()}))
        for one in ("kho://", "doc:", "fact:", "memory://", "research://", *(one.uri_template for one in templates)):
            asked.append(client.read_resource(re.sub(r"\{[^}]*\}", gone(), one) if "{" in one else one + gone()))
        for number, one in enumerate(asked):
            try:
                await one
            except MCPError as error:
                self.heard(f"MCP {number}", f"{error} {error.error.model_dump_json()}", error=True)

    async def clients(self, settings: Settings) -> None:
        for era in ("legacy", MODERN):
            async with (
                httpx2.AsyncClient(headers=bearer(self.key), verify=PLAIN, trust_env=False) as http,
                Client(streamable_http_client(f"{self.hub.url}/mcp?tools=all", http_client=http), mode=era) as client,
            ):
                await self.of_client(client)
        async with talking(settings.home, MODERN, KHO, "stdio", env=of_store(settings)) as client:
            await self.of_client(client)
        self.heard("stdio, log", settings.home.with_name("stderr.txt").read_text(), error=True)

    async def commands(self, settings: Settings) -> None:
        gone, env = self.canaries.gone, of_store(settings)
        for words in (
            [gone()],
            ["docs", gone()],
            ["docs", "get", gone(), "--json"],
            ["forget", gone()],
            ["experiences", "query", "x", "--limit", gone()],
            ["experiences", "query", "x", "--limit", gone(), "--json"],
            ["docs", "import", f"/no/such/{gone()}"],
            ["kb", "ingest", f"/no/such/{gone()}", "--collection", gone()],
            ["remember", f"the token is {gone()}"],
            ["audit", "verify", gone()],
        ):
            done = await kho(settings.home, *words, env=env)
            assert done.status, words
            self.heard(f"kho {words[:-1]}", done.out + done.err, error=True)
        for form in ("json", "cef"):
            file = settings.home.with_name(f"audit.{form}")
            done = await kho(settings.home, "audit", "export", str(file), "--format", form, env=env)
            assert done.status == 0, done.err
            self.heard(f"audit.{form}", file.read_text() + done.err, error=True)

    def heard(self, where: str, answer: Any, *, error: bool) -> None:
        """An error repeats no secret, neither one that the caller sent."""
        self.answered += 1
        if error:
            self.failed += 1
            said = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
            both = self.canaries.nowhere | self.canaries.kept
            if found := self.canaries.in_(said, both):
                self.failures.append(f"{where}: {said[:400]} has {found}")


def of_store(settings: Settings) -> dict[str, str]:
    """What another process needs to work on the same store."""
    return {} if settings.database_url is None else {"KHO_DATABASE_URL": settings.database_url}


async def tables(settings: Settings) -> AsyncIterator[tuple[str, str]]:
    """Each table's name and all of its rows as text."""
    if settings.database_url is None:
        connection: Any = apsw.Connection(str(settings.home / "kho.db"))
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        for name in names:
            yield name, repr(list(connection.execute(f'SELECT * FROM "{name}"')))
        connection.close()
        return
    async with await psycopg.AsyncConnection.connect(settings.database_url) as connection:
        await connection.execute("SET kho.all_tenants = on")
        found = await connection.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"
        )
        for (name,) in await found.fetchall():
            rows = await connection.execute(sql.SQL("SELECT t::text FROM {} AS t").format(sql.Identifier(name)))
            yield name, repr(await rows.fetchall())


@asynccontextmanager
async def walked(settings: Settings, canaries: Canaries) -> AsyncGenerator[Walk]:
    key = await new_key(settings, TENANT, "*", "admin", METRICS)
    canaries.nowhere.add(key)
    async with served(settings, serving=True) as hub:
        yield Walk(hub, key, canaries)


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
async def test_secrets_leave_no_trace(
    database: str,
    canaries: Canaries,
    logged: list[StringIO],
    tmp_path: Path,
    request: pytest.FixtureRequest,
    capfd: pytest.CaptureFixture[str],
) -> None:
    url = request.getfixturevalue("postgres_schema_url") if database == "postgres" else None
    settings = of_settings(canaries, tmp_path / "home", url)
    async with walked(settings, canaries) as walk:
        await walk.credentials()
        await walk.jsonrpc()
        await walk.actions()
        await walk.mcp()
        await walk.envelopes()
        await walk.clients(settings)
        await walk.commands(settings)
        assert [*map(str, walk.failures)] == []
        assert walk.failed > 100
        assert walk.answered - walk.failed > 50
        both = canaries.nowhere | canaries.kept
        served_ = {path: (await walk.hub.get(path, **bearer(walk.key))).text for path in ("/metrics", "/health")}
        for name, params in (("audit_log", {"limit": 200}), ("list_settings", {})):
            method = ("audit" if name == "audit_log" else "administration") + f"-server/{name}"
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            served_[name] = (await walk.hub.post("/jsonrpc", body, **bearer(walk.key))).text
        assert {name: canaries.in_(text, both) for name, text in served_.items()} == {name: [] for name in served_}
        assert '"secrets"' in served_["audit_log"]
        assert "********" in served_["list_settings"]
    printed = capfd.readouterr()
    said = [printed.out, printed.err, *(stream.getvalue() for stream in logged)]
    assert "secret stored" in said[2]
    assert "secret stored" in said[3]
    assert [canaries.in_(text, both) for text in said] == [[], [], [], []]
    await stored_as_promised(settings, canaries)


def _around(text: str, found: str) -> str:
    place = text.index(found)
    return text[max(0, place - 300) : place + 200]


async def stored_as_promised(settings: Settings, canaries: Canaries) -> None:
    held: dict[str, list[str]] = {}
    async for name, rows in tables(settings):
        assert canaries.in_(rows, canaries.nowhere) == [], name
        if found := canaries.in_(rows, canaries.kept):
            held[name] = found
            assert name not in NEVER, f"{name}: {_around(rows, found[0])}"
    assert held.keys() <= MAY_HOLD, held.keys() - MAY_HOLD
    assert "documents" in held or "document_revisions" in held
    if settings.database_url is None:  # also what is left on pages that no row has any more
        for path in settings.home.glob("kho.db*"):
            text = path.read_bytes().decode("latin-1")
            assert canaries.in_(text, canaries.nowhere) == [], path.name


def test_the_search_can_fail(canaries: Canaries) -> None:
    secret = canaries.gone()
    assert canaries.in_(f"before {secret} after", canaries.nowhere) == [secret]
    assert re.fullmatch(r"[\w-]+", secret)
