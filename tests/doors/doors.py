"""The doors, as tests use them: a hub on a real socket, real `kho` processes, and tools that come and go.

Run as a program, it serves the tools that come and go over stdio.
"""

import asyncio
import os
import socket
import ssl
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2
import orjson
import uvicorn
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from pydantic import BaseModel, ConfigDict
from tests.outside import NO_NAMES
from tests.timeouts import PATIENCE

from kho.app import open_hub
from kho.doors.http.app import Application
from kho.doors.http.uvicorn_protocols import guarded_protocol
from kho.doors.mcp.stdio import serve
from kho.kernel import api_keys
from kho.kernel.api_keys import ApiKey
from kho.kernel.call import Call
from kho.kernel.capability import Capability
from kho.kernel.hub import Hub
from kho.kernel.operation import Operation
from kho.kernel.toolset import ALL
from kho.lib.clock import DAY, Clock, system_clock
from kho.settings import Settings

Json = dict[str, Any]

MODERN = "2026-07-28"
HANDSHAKE = "2025-11-25"
ERAS = ("legacy", MODERN)
"""As the SDK's client names them."""

PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients of plain HTTP: reading the machine's certificates takes longer than most tests."""

MEMORY = [
    "memory_get_or_create", "memory_add_message", "memory_clear", "memory_delete", "memory_get_context",
    "memory_get_all_messages", "memory_search", "memory_list", "memory_get_summary", "memory_set_summary",
]  # fmt: skip
TOOLBOX = ["duckduckgo_search", "fetch_url"]
FACTS = ["remember", "forget", "restore_fact", "list_facts", "fact_history", "update_fact"]
RECALL = ["search", "fetch", "recent"]
EXPERIENCES = [
    "query_experiences", "submit_experience", "get_experience", "update_experience", "rate_experience",
    "delete_experience", "restore_experience", "list_waiting_experiences", "approve_experience", "reject_experience",
]  # fmt: skip
RESEARCH = [
    "query_knowledge_base", "manage_collections", "manage_projects", "ingest_documents", "augment_knowledge",
    "submit_feedback", "similar_documents", "ingest_status", "list_kb_documents", "get_kb_document", "remove_kb_document",
]  # fmt: skip
DOCUMENTS = [
    "create_document", "update_document", "delete_document", "move_document", "query_knowledge", "edit_document",
    "restore_document", "restore_revision", "get_document", "get_documents", "list_documents", "document_history",
    "diff_revisions",
]  # fmt: skip
DEVICES = ["devices_list", "device_tools", "device_call", "device_notifications", "device_log", "device_label"]
AUDIT = ["audit_log"]
"""The tools of each capability, in the order in which they are listed."""
SERVERS = [
    "memory-server", "tool-server", "facts-server", "recall-server", "experiences-server", "research-server",
    "documents-server", "devices-server", "administration-server", "audit-server",
]  # fmt: skip

KHO = str(Path(sys.executable).with_name("kho"))


# -- a hub on a socket -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Served:
    url: str
    app: Application
    http: httpx2.AsyncClient

    async def post(self, path: str, body: Any, **headers: str) -> httpx2.Response:
        """JSON there. Bytes are sent as they are."""
        content = body if isinstance(body, bytes) else orjson.dumps(body)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.http.post(path, content=content, headers={"content-type": "application/json", **sent})

    async def get(self, path: str, **headers: str) -> httpx2.Response:
        return await self.http.get(path, headers=headers)

    async def rpc(self, method: str, params: Any = None, **headers: str) -> Json:
        """The whole JSON-RPC answer of an operation of experiences."""
        body: Json = {"jsonrpc": "2.0", "id": 1, "method": f"experiences-server/{method}", "params": params or {}}
        return (await self.post("/jsonrpc", body, **headers)).json()

    async def act(self, action: str, payload: Json, *, key: str | None = None, **envelope: Any) -> httpx2.Response:
        headers = {} if key is None else bearer(key)
        return await self.post("/actions", {"action": action, "payload": payload, **envelope}, **headers)


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@asynccontextmanager
async def listening(app: Application) -> AsyncGenerator[tuple[str, httpx2.AsyncClient]]:
    """Its address, and a client of it."""
    config = uvicorn.Config(
        app, http=guarded_protocol(), log_config=None, timeout_graceful_shutdown=1, proxy_headers=False
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        await server.startup([listener])
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        try:
            async with httpx2.AsyncClient(base_url=url, timeout=PATIENCE, trust_env=False, verify=PLAIN) as http:
                yield url, http
        finally:
            await server.shutdown([listener])


@asynccontextmanager
async def served(
    settings: Settings,
    *extra: Capability,
    serving: bool = False,
    clock: Clock = system_clock,
    ticks: Callable[[], float] = time.monotonic,
    **rechecks: Any,
) -> AsyncGenerator[Served, None]:
    """The whole HTTP application, by uvicorn in this loop, on a free port of the loopback. `serving` as `kho serve`;
    `rechecks` says how often keys are looked up (`fresh`, `heartbeat`), `clock` when they expire, `ticks` when limits
    begin anew."""

    @asynccontextmanager
    async def opened() -> AsyncGenerator[Hub, None]:
        async with open_hub(settings, extra, serving=serving, network=NO_NAMES) as hub:
            hub.limiter.ticks = ticks
            yield replace(hub, clock=clock)

    without_id = settings.jsonrpc.answer_without_id
    app = Application(opened, settings.http, settings.mcp, answer_without_id=without_id, **rechecks)
    async with listening(app) as (url, http):
        yield Served(url, app, http)


async def new_key(settings: Settings, tenant: str = "acme", *scopes: str, sub: str = "bot", lifetime: int = DAY) -> str:
    """A key that opens the hub of these settings, all of it unless scopes are named."""
    async with open_hub(settings) as hub:
        return await add_key(hub, tenant, *scopes, sub=sub, lifetime=lifetime)


async def add_key(hub: Hub, tenant: str, *scopes: str, sub: str = "bot", lifetime: int = DAY) -> str:
    id, text, digest = api_keys.mint()
    now = hub.clock()
    await hub.keys.add(ApiKey(id, sub, tenant, scopes or ("*",), digest, now, now + lifetime))
    return text


# -- real processes ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Finished:
    status: int
    out: str
    err: str


def environment(home: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Nothing of ours from outside but which model it is, and no locale: the program must speak UTF-8 by itself."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KHO_", "LC_", "LANG"))}
    kept |= {name: value for name, value in os.environ.items() if name.startswith("KHO_SEARCH__EMBEDDER__")}
    return {**kept, "KHO_HOME": str(home), **(more or {})}


async def kho(home: Path, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Finished:
    """Runs the command to its end."""
    process = await asyncio.create_subprocess_exec(
        KHO,
        *arguments,
        env=environment(home, env),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(PATIENCE):
            out, err = await process.communicate(stdin)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return Finished(process.returncode, out.decode(), err.decode())


@asynccontextmanager
async def talking(
    home: Path, era: str, *command: str, env: Mapping[str, str] | None = None, **more: Any
) -> AsyncGenerator[Client, None]:
    """An MCP client of a real process. What the process logs goes beside its home."""
    with home.with_name("stderr.txt").open("w", encoding="utf-8") as log:
        process = StdioServerParameters(command=command[0], args=list(command[1:]), env=environment(home, env))
        async with Client(stdio_client(process, log), mode=era, **more) as client:
            yield client


# -- tools that come and go --------------------------------------------------------------------------------------------


class Named(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str


class Nothing(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Boards:
    """A live source: boards are plugged in and out, and each brings a tool of its name."""

    def __init__(self, tenant: str = "") -> None:
        self.tenant = tenant
        self.plugged: dict[str, Operation] = {}
        self._listeners: list[Callable[[], None]] = []

    def operations(self) -> Sequence[Operation]:
        return list(self.plugged.values())

    def subscribe(self, changed: Callable[[], None]) -> None:
        self._listeners.append(changed)

    def plug(self, name: str) -> None:
        async def run(params: Nothing, call: Call) -> Json:
            return {"board": name}

        about = f"boards.{name}", f"Asks {name}."
        self.plugged[name] = Operation(*about, Nothing, run, "boards", tool=name, tenant=self.tenant)
        self._changed()

    def unplug(self, name: str) -> None:
        del self.plugged[name]
        self._changed()

    def _changed(self) -> None:
        for changed in self._listeners:
            changed()

    @property
    def capability(self) -> Capability:
        async def plug(params: Named, call: Call) -> Json:
            self.plug(params.name)
            return {}

        async def unplug(params: Named, call: Call) -> Json:
            self.unplug(params.name)
            return {}

        async def count(params: Nothing, call: Call) -> Json:
            for step in (1, 2, 3):
                await call.progress(step, 3, f"step {step}")
            return {"counted": 3}

        async def fail(params: Nothing, call: Call) -> Json:
            raise RuntimeError("the secret ingredient is umami")

        operations = (
            Operation("boards.plug", "Plugs a board in.", Named, plug, "boards", "write", tool="plug"),
            Operation("boards.unplug", "Plugs a board out.", Named, unplug, "boards", "destructive", tool="unplug"),
            Operation("boards.count", "Counts to three.", Nothing, count, "boards", tool="count", rpc="count"),
            Operation("boards.fail", "Has a bug.", Nothing, fail, "boards", tool="fail", rpc="fail", action="fail"),
        )
        return Capability("boards", "boards-server", operations, sources=(self,))


if __name__ == "__main__":
    asyncio.run(serve(lambda: open_hub(Settings(), (Boards().capability,)), "0", {}, ALL, 200))
