"""One process of a hub holds the boards' broker, and another one takes over."""

import asyncio
import logging
import sys
from pathlib import Path

import pytest
from tests.devices.conftest import Ground
from tests.devices.factories import PATIENCE, HubWorker
from tests.devices.http_server import MakeWorker
from tests.devices.mqtt_brokers import mqtt, served_by

from kho.devices.mqtt.leader import BrokerLease, broker_lease

ROOT = Path(__file__).parents[3]


def lease(worker: HubWorker) -> BrokerLease:
    return broker_lease(worker.db, worker.core.leases, "devices.broker", worker.live)


async def test_it_is_one_process_s_until_that_falls_silent_or_lets_go(workers: MakeWorker) -> None:
    one, two = workers(), workers()
    assert await lease(one).take()
    assert await lease(one).take(), "held on"
    assert not await lease(two).take()
    two.clock.pass_(60)
    assert await lease(two).take()
    two.clock.ahead = 0
    assert not await lease(one).take()
    await lease(two).release()
    assert await lease(one).take()
    await lease(one).release()


async def test_a_process_that_stops_leaves_nothing_to_wait_for(workers: MakeWorker) -> None:
    one, two = workers(), workers()
    assert await lease(one).take()
    await one.live.close()
    assert await lease(two).take()
    await lease(two).release()


async def test_a_process_that_was_killed_is_succeeded_at_once(workers: MakeWorker, ground: Ground) -> None:
    words = [str(ground.home), *([ground.url] if ground.url else [])]
    holder = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.devices.mqtt.leader_process",
        *words,
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert holder.stdout is not None
        async with asyncio.timeout(PATIENCE):
            assert await holder.stdout.readline() == b"ready\n"
        next_one = workers()
        assert not await lease(next_one).take()
        holder.kill()
        await holder.wait()
        # Processes that meet in PostgreSQL may be on several machines: there only the lease tells.
        assert await lease(next_one).take() is (ground.url is None)
    finally:
        if holder.returncode is None:
            holder.kill()
        await holder.communicate()
    next_one.clock.pass_(60)
    assert await lease(next_one).take()
    await lease(next_one).release()


async def test_who_has_to_wait_says_so(workers: MakeWorker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kho.devices.mqtt")
    one, two = workers(), workers()
    async with mqtt(one, mqtt_broker="127.0.0.1:0"):
        two.background.add(served_by(two, mqtt_broker="127.0.0.1:0").leaders[0].run)
        async with asyncio.timeout(PATIENCE):
            while "waiting for 127.0.0.1:0: another process of this hub" not in caplog.text:  # noqa: ASYNC110 - a log tells nobody
                await asyncio.sleep(0)
        await two.background.drain()
