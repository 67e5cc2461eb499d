"""One process of a hub holds the boards' broker, and another one takes over."""

import asyncio
import logging
import sys
from pathlib import Path

import pytest
from tests.devices.conftest import Ground
from tests.devices.house import PATIENCE, House
from tests.devices.mqtt_house import mqtt
from tests.devices.web_house import Houses

from kho.devices.mqtt import config
from kho.devices.mqtt.lease import BrokerLease, broker_lease
from kho.devices.settings import DeviceSettings

ROOT = Path(__file__).parent.parent.parent


def lease(house: House) -> BrokerLease:
    return broker_lease(house.db, house.core.leases, "devices.broker", house.live)


async def test_it_is_one_process_s_until_that_falls_silent_or_lets_go(houses: Houses) -> None:
    one, two = houses(), houses()
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


async def test_a_process_that_stops_leaves_nothing_to_wait_for(houses: Houses) -> None:
    one, two = houses(), houses()
    assert await lease(one).take()
    await one.live.close()
    assert await lease(two).take()
    await lease(two).release()


async def test_a_process_that_was_killed_is_succeeded_at_once(houses: Houses, ground: Ground) -> None:
    words = [str(ground.home), *([ground.url] if ground.url else [])]
    holder = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.devices.lease_holder",
        *words,
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert holder.stdout is not None
        async with asyncio.timeout(PATIENCE):
            assert await holder.stdout.readline() == b"ready\n"
        next_one = houses()
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


async def test_who_has_to_wait_says_so(houses: Houses, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kho.devices.mqtt")
    one, two = houses(), houses()
    async with mqtt(one, mqtt_broker="127.0.0.1:0"):
        parts = two.live, two.registrations, two.parts.tokens
        settings = DeviceSettings(mqtt_broker="127.0.0.1:0")
        other = config.MqttServed(two.core, settings, *parts, two.approval)
        two.background.add(other.holders[0].run)
        async with asyncio.timeout(PATIENCE):
            while "waiting for 127.0.0.1:0: another process of this hub" not in caplog.text:  # noqa: ASYNC110 - a log tells nobody
                await asyncio.sleep(0)
        await two.background.drain()
