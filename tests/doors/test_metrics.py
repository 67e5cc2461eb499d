"""/metrics: figures of the process, and those of the store, which are the same however many workers there are."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest
from tests.doors.doors import Boards, Json, Served, bearer, new_key, served
from tests.stores.fill import until

from kho.app import open_database, open_hub
from kho.doctor import change
from kho.kernel import api_keys
from kho.kernel.access import METRICS
from kho.kernel.api_keys import ApiKey
from kho.kernel.capability import Capability, Gauge
from kho.kernel.errors import DatabaseError
from kho.kernel.ports import Tx
from kho.lib.clock import SECOND, system_clock
from kho.search.indexing.embedding_queue import LEASE
from kho.settings import Settings
from kho.simulator import simulator
from kho.simulator.simulator import Simulated

RECORD = {"title": "Kettle", "problem_description": "It overheats", "solution": "Descale it"}


async def pending(hub: Served) -> list[str]:
    text = (await hub.get("/metrics")).text
    return [line for line in text.splitlines() if line.startswith("kho_vectors_pending")]


async def test_what_waits_for_vectors_is_counted_when_asked(settings: Settings) -> None:
    hashed = change(settings, {"search": {"embedder": {"provider": "hash"}}})
    async with open_hub(hashed):
        pass  # now there are tables

    def elsewhere(tx: Tx) -> None:
        """Another process has the lease, so nothing is filled in here."""
        row = (LEASE, "4711:another", system_clock() + 600 * SECOND)
        tx.run("INSERT INTO leases (name, owner, until) VALUES ($1, $2, $3)", *row)

    db, _ = open_database(hashed)
    await db.write(elsewhere)
    await db.aclose()
    async with served(hashed) as hub:
        assert await pending(hub) == ["kho_vectors_pending 0.0"]
        for count in (1, 2):
            await hub.rpc("submit_experience", {**RECORD, "title": f"Kettle {count}"})
            assert await pending(hub) == [f"kho_vectors_pending {count}.0"]


@pytest.mark.requirement("004.test.memory")
@pytest.mark.skipif(sys.platform != "linux", reason="the figures come from /proc")
async def test_memory_processor_time_and_files_of_the_process(hub: Served) -> None:
    told = dict(line.split() for line in (await hub.get("/metrics")).text.splitlines() if line.startswith("process_"))
    assert float(told["process_resident_memory_bytes"]) > 1e6
    assert {"process_cpu_seconds_total", "process_open_fds"} <= told.keys()


async def test_boards_webhooks_and_disk(both_settings: Settings) -> None:
    """A board that comes and goes, and a webhook that nobody answers at."""
    chosen = change(
        both_settings,
        {"devices": {"approval": "auto"}, "documents": {"webhook_backoff": [], "webhook_hosts": ["127.0.0.1"]}},
    )
    admin = await new_key(chosen, chosen.local.tenant, "*", "admin", METRICS)
    async with served(chosen) as hub:

        async def figures() -> dict[str, float]:
            text = (await hub.get("/metrics", **bearer(admin))).text
            lines = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
            return {name: float(value) for name, value in lines}

        async def shows(**expected: float) -> None:
            async def reached() -> bool:
                return expected.items() <= (await figures()).items()

            await until(reached)

        before = await figures()
        assert before["kho_store_bytes"] > 10_000
        assert before["kho_disk_free_bytes"] > 0
        await shows(kho_boards=0, kho_boards_connected=0, kho_webhook_deliveries_given_up=0)
        async with simulator.http() as http:
            board = Simulated(simulator.boards(1)[0], hub.url, http)
            running = asyncio.ensure_future(board.run())
            await shows(kho_boards=1, kho_boards_connected=1)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        await shows(kho_boards=1, kho_boards_connected=0)
        hook = {"url": "http://127.0.0.1:9/hook", "events": ["document.created"]}
        assert (await hub.act("add_webhook", hook, key=admin)).status_code == 200
        document = {"metadata": {"title": "Kettle", "category": "note"}, "content": {"body": "Descale it."}}
        assert (await hub.act("create_document", document, key=admin)).status_code == 200
        await shows(kho_webhook_deliveries_given_up=1, kho_webhook_deliveries_waiting=0)


async def test_what_a_tenant_s_boards_can_do_is_nobody_else_s(settings: Settings) -> None:
    """The figures are of the whole hub, and tools of boards are named by them."""
    boards = Boards("acme")
    boards.plug("secret_lamp")
    owner, other = await new_key(settings, "acme"), await new_key(settings, "umbrella", METRICS)
    async with served(settings, boards.capability) as hub:
        call: Json = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "secret_lamp", "arguments": {}},
        }
        accept = {"accept": "application/json, text/event-stream"}
        answer = await hub.post("/mcp?tools=all", call, **accept, **bearer(owner))
        assert "secret_lamp" in answer.text
        assert '"isError":true' not in answer.text.replace(" ", "")
        shown = (await hub.get("/metrics", **bearer(other))).text
        assert 'operation="boards.live"' in shown
        assert "secret_lamp" not in shown


async def test_a_scope_for_it_alone(settings: Settings) -> None:
    monitor = await new_key(settings, "acme", METRICS)
    reader = await new_key(settings, "acme", "exp:read")
    async with served(settings) as hub:
        assert "kho_store_bytes" in (await hub.get("/metrics", **bearer(monitor))).text
        seen = (await hub.get("/servers", **bearer(monitor))).json()["servers"]
        assert {(kind, len(all_)) for one in seen for kind, all_ in one["capabilities"].items()} == {
            ("tools", 0), ("resources", 0), ("prompts", 0)
        }  # fmt: skip
        refused = await hub.get("/metrics", **bearer(reader))
        assert refused.status_code == 403
        assert METRICS in refused.json()["error"]["message"]
        assert (await hub.act("query_experiences", {"keywords": "kettle"}, key=monitor)).status_code == 403


async def test_the_figures_of_the_whole_hub_are_for_keys_that_have_the_scope_by_name(settings: Settings) -> None:
    everything = await new_key(settings, "acme")
    admin = await new_key(settings, "acme", "*", "admin")
    async with open_hub(settings) as opened:
        id, limited, digest = api_keys.mint()
        known = ApiKey(id, "bot", "acme", ("*", METRICS), digest, opened.clock(), tools=("facts",))
        await opened.keys.add(known)
        token = opened.local_token.create()
    async with served(settings) as hub:
        for key in (everything, admin, limited):
            assert (await hub.get("/metrics", **bearer(key))).status_code == 403
        assert "limited to facts" in (await hub.get("/metrics", **bearer(limited))).text
        given = await hub.act("create_key", {"name": "mine", "scopes": [METRICS]}, key=admin)
        assert given.status_code == 403
        assert (await hub.get("/metrics", **bearer(token))).status_code == 200


async def test_what_the_store_does_not_say_leaves_the_rest(settings: Settings) -> None:
    def fail(tx: Tx) -> NoReturn:
        raise DatabaseError

    broken = Capability("broken", "broken-server", (), gauges=(Gauge("kho_broken", "", fail),))
    async with served(settings, broken) as hub:
        text = (await hub.get("/metrics")).text
    assert "process_resident_memory_bytes" in text
    assert "kho_store_bytes" not in text


async def test_by_words_alone_nothing_waits(hub: Served) -> None:
    await hub.rpc("submit_experience", RECORD)
    assert await pending(hub) == []
    assert "kho_calls_total" in (await hub.get("/metrics")).text


def test_several_workers_do_not_add_it_up(tmp_path: Path) -> None:
    worker = "from kho.doors.metrics import Metrics; from kho.kernel.capability import Gauge; print(Metrics().render([(Gauge('kho_boards', '', len), 7)]).decode())"
    for _ in range(2):  # the second one shares the folder of the first
        environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-c", worker], env=environment, check=True, capture_output=True, text=True
        )
        assert done.stdout.count("\nkho_boards 7.0\n") == 1
