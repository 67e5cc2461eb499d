"""/metrics says what waits for vectors: the store's figure, however many workers there are."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.doors.doors import Served, served

from kho.app import open_database, open_hub
from kho.doctor import change
from kho.kernel.ports import Tx
from kho.lib.clock import SECOND, system_clock
from kho.search.indexing.embedding_queue import LEASE
from kho.settings import Settings

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


async def test_by_words_alone_nothing_waits(hub: Served) -> None:
    await hub.rpc("submit_experience", RECORD)
    assert await pending(hub) == []
    assert "kho_calls_total" in (await hub.get("/metrics")).text


def test_several_workers_do_not_add_it_up(tmp_path: Path) -> None:
    worker = "from kho.doors.metrics import Metrics; print(Metrics().render(7).decode())"
    for _ in range(2):  # the second one shares the folder of the first
        environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-c", worker], env=environment, check=True, capture_output=True, text=True
        )
        assert done.stdout.count("\nkho_vectors_pending 7.0\n") == 1
