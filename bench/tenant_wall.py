"""What row-level security costs on PostgreSQL: the same calls with and without it, in turns, in one run.

    python -m bench.tenant_wall [--calls 400] [--json]

Two hubs in one process, each on a schema of its own in one scratch server, with the same facts and conversations of ten
tenants. In one the wall between tenants is taken down (its policies are off, and BEGIN says no tenant), which only this
bench does. Costs are of a whole operation, through the registry: wall time, and CPU time of Kho and of its PostgreSQL
processes together.
"""

import argparse
import asyncio
import gc
import json
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any, TypeVar
from unittest.mock import patch

import psycopg
from bench.doors import cpu_seconds
from bench.ratios import Ratio
from bench.storage import postgres_server

from kho.app import open_hub
from kho.kernel.call import Call, Principal
from kho.kernel.hub import Hub
from kho.kernel.ports import Tx
from kho.lib.tenancy import in_no_tenant
from kho.models.settings import Embedding
from kho.settings import Search, Settings
from kho.storage.postgres import database

TENANTS = [f"tenant-{number}" for number in range(10)]
FACTS = 300
"""Of each tenant."""
PLACES = ("harbour", "mill", "station", "library", "orchard", "tower", "bakery", "bridge")
ROLE = "kho"
T = TypeVar("T")


class Unsaid(database.Postgres):
    """Says no tenant in BEGIN, as before there was a wall."""

    async def read(self, work: Callable[[Tx], T], *, timeout: float | None = None) -> T:
        with in_no_tenant():
            return await super().read(work, timeout=timeout)

    async def write(self, work: Callable[[Tx], T]) -> T:
        with in_no_tenant():
            return await super().write(work)


@dataclass(slots=True)
class Side:
    hub: Hub
    backends: Callable[[], list[int]]
    facts: list[str]
    number: int = 0

    async def ask(self, method: str, arguments: dict[str, Any], tenant: str = TENANTS[3]) -> Any:
        operation = self.hub.registry.method(method)
        assert operation is not None, method
        principal = Principal("bench", tenant, frozenset({"*"}), "key")
        outcome = await self.hub.registry.call(operation, arguments, Call(principal))
        assert outcome.error is None, outcome.error
        return outcome.result

    def fact(self) -> str:
        self.number += 1
        return f"{PLACES[self.number % 8]} {self.number} opens at {self.number % 24} and has {self.number * 7} lamps"

    async def get(self) -> None:
        self.number += 1
        await self.ask("facts-server/get_fact", {"id": self.facts[self.number % len(self.facts)]})

    async def search(self) -> None:
        self.number += 1
        found = await self.ask("recall-server/search", {"query": f"lamps {PLACES[self.number % 8]} {self.number % 90}"})
        assert found.results

    async def remember(self) -> None:
        await self.ask("facts-server/remember", {"text": f"The {self.fact()}."})

    async def add_message(self) -> None:
        said = {"conversation_id": f"chat-{self.number % 50}", "role": "user", "content": self.fact()}
        await self.ask("memory-server/memory/add_message", said)

    @property
    def operations(self) -> dict[str, Callable[[], Awaitable[None]]]:
        return {"get": self.get, "search": self.search, "remember": self.remember, "memory add": self.add_message}

    def cpu(self) -> float:
        return time.process_time() + sum(map(cpu_seconds, self.backends()))

    async def fill(self) -> None:
        for tenant in TENANTS:
            lines = [{"text": f"The {self.fact()}."} for _ in range(FACTS)]
            await self.ask("facts-server/import_facts", {"lines": lines}, tenant)
            for number in range(50):
                chat = {"conversation_id": f"chat-{number}"}
                await self.ask("memory-server/memory/get_or_create", chat, tenant)
        listed = await self.ask("facts-server/list_facts", {"limit": 50})
        self.facts = [fact.id for fact in listed.facts]


@asynccontextmanager
async def opened(server: str, folder: Path, *, walled: bool) -> AsyncGenerator[Side]:
    name = "walled" if walled else "bare"
    url = f"{server.replace('//postgres:', f'//{ROLE}:').replace('//postgres@', f'//{ROLE}@')}"
    url += f"&options=-csearch_path%3D{name},public&application_name={name}"
    admin = psycopg.connect(server, autocommit=True)
    admin.execute(f"CREATE SCHEMA {name} AUTHORIZATION {ROLE}".encode())

    def backends() -> list[int]:
        rows = admin.execute("SELECT pid FROM pg_stat_activity WHERE application_name = %s", (name,)).fetchall()
        return [pid for (pid,) in rows]

    search = Search(embedder=Embedding(provider="none"))
    settings = Settings(home=folder / name, database_url=url, search=search)
    with admin, patch.object(database, "Postgres", database.Postgres if walled else Unsaid):
        async with open_hub(settings) as hub:
            if not walled:
                for (table,) in admin.execute("SELECT polrelid::regclass::text FROM pg_policy").fetchall():
                    if table.startswith(f"{name}."):
                        admin.execute(f"DROP POLICY tenant_wall ON {table}".encode())
                        admin.execute(f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY".encode())
            side = Side(hub, backends, [])
            await side.fill()
            admin.execute(f"SET search_path = {name}".encode())
            admin.execute("ANALYZE")
            yield side


@dataclass(frozen=True, slots=True)
class Figure:
    p50_ms: float
    cpu_us: float
    """Of the lower quarter of the blocks: work in the background disturbs the others."""


async def measure(calls: int) -> dict[str, tuple[Figure, Figure]]:
    """With and without the wall, by operation. Blocks of ten calls take turns, so that load slows both alike."""
    with tempfile.TemporaryDirectory(prefix="kho-bench-") as folder, postgres_server() as server:
        with psycopg.connect(server, autocommit=True) as admin:
            admin.execute("CREATE EXTENSION IF NOT EXISTS vector")
            admin.execute(f"CREATE ROLE {ROLE} LOGIN NOSUPERUSER NOBYPASSRLS".encode())
        async with AsyncExitStack() as stack:
            sides = [
                await stack.enter_async_context(opened(server, Path(folder), walled=walled)) for walled in (True, False)
            ]
            return {name: await _turns(sides, name, calls) for name in sides[0].operations}


async def _turns(sides: list[Side], name: str, calls: int) -> tuple[Figure, Figure]:
    took: list[list[float]] = [[], []]
    cpu: list[list[float]] = [[], []]
    for side in sides:
        for _ in range(100):  # until each connection has prepared its statements
            await side.operations[name]()
    gc.freeze()
    for turn in range(max(2, calls // 10)):
        for place in (0, 1) if turn % 2 else (1, 0):
            before, work = sides[place].cpu(), sides[place].operations[name]
            for _ in range(10):
                started = time.perf_counter()
                await work()
                took[place].append(time.perf_counter() - started)
            cpu[place].append((sides[place].cpu() - before) / 10)
    walled, bare = (Figure(1e3 * median(took[n]), 1e6 * quantiles(cpu[n])[0]) for n in (0, 1))
    return walled, bare


def short() -> dict[str, Ratio]:
    found = asyncio.run(measure(120))
    return {f"{name}: CPU with the wall / without": Ratio(on.cpu_us, off.cpu_us) for name, (on, off) in found.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=400, help="Of each operation, on each side.")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = asyncio.run(measure(options.calls))
    if options.json:
        print(json.dumps({name: [[one.p50_ms, one.cpu_us] for one in both] for name, both in found.items()}))
        return 0
    print(f"{'operation':<12} {'p50 ms':>8} {'without':>8} {'ratio':>6} {'CPU µs':>8} {'without':>8} {'ratio':>6}")
    for name, (on, off) in found.items():
        times = f"{on.p50_ms:8.2f} {off.p50_ms:8.2f} {on.p50_ms / off.p50_ms:6.2f}"
        print(f"{name:<12} {times} {on.cpu_us:8,.0f} {off.cpu_us:8,.0f} {on.cpu_us / off.cpu_us:6.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
