"""Devices on each database. The databases serve a whole module; tenants keep the tests apart."""

import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.devices.factories import HubWorker
from tests.devices.mqtt_brokers import BROKERS, Amqtt, AnyBroker, Mosquitto, free_port, mosquitto
from tests.engines import AdminPostgres

from kho.devices.capability import MIGRATIONS
from kho.kernel.ports import Database
from kho.simulator import simulator
from kho.storage.migrate import OWN, migrate
from kho.storage.sqlite.database import Sqlite

_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Ground:
    db: Database
    home: Path
    url: str | None


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
async def ground(request: pytest.FixtureRequest) -> AsyncIterator[Ground]:
    with tempfile.TemporaryDirectory(prefix="kho-") as home:
        url: str | None = None
        if request.param == "sqlite":
            db: Database = Sqlite.open(Path(home) / "kho.db", durable=False)
        else:
            url = str(request.getfixturevalue("module_schema_url"))
            db = AdminPostgres.open(url)
        try:
            await migrate(db, [OWN, ("devices", MIGRATIONS)])
            yield Ground(db, Path(home), url)
        finally:
            await db.aclose()


@pytest.fixture
async def workers(ground: Ground) -> AsyncIterator[Callable[..., HubWorker]]:
    """Makes workers: several are several processes of one hub."""
    made: list[HubWorker] = []

    def make(**chosen: Any) -> HubWorker:
        made.append(HubWorker(ground.db, ground.home, ground.url, **chosen))
        return made[-1]

    yield make
    for worker in made:
        await worker.close()


@pytest.fixture
def worker(workers: Callable[..., HubWorker]) -> HubWorker:
    return workers()


@pytest.fixture
def mac() -> str:
    """Another board for each test: the hub looks for those that were there before, and the database is shared."""
    return simulator.mac(next(_numbers))


@pytest.fixture(params=BROKERS)
async def broker(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AnyBroker]:
    if request.param == "mosquitto" and mosquitto() is None:
        pytest.skip("mosquitto is not installed here")
    made: AnyBroker = Amqtt(free_port()) if request.param == "amqtt" else Mosquitto(free_port(), tmp_path)
    await made.start()
    yield made
    await made.stop()
