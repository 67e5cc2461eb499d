"""A process that takes the lease of a broker, says 'ready', and holds it until its stdin ends.

lease_holder.py HOME [DATABASE_URL]
"""

import asyncio
import sys
from pathlib import Path

from tests.devices.factories import HubWorker

from kho.devices.mqtt.leader import broker_lease
from kho.kernel.ports import Database
from kho.storage.postgres.database import Postgres
from kho.storage.sqlite.database import Sqlite


async def main(home: Path, url: str | None) -> None:
    db: Database = Sqlite.open(home / "kho.db") if url is None else Postgres.open(url)
    worker = HubWorker(db, home, url)
    assert await broker_lease(db, worker.core.leases, "devices.broker", worker.live).take()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None))
