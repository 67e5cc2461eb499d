"""A process that holds a virtual board's connection until its stdin ends. Says 'ready', then every call it hears of.

holder.py HOME DEVICE [DATABASE_URL] [--mute]
"""

import asyncio
import sys
from pathlib import Path

from tests.devices.factories import HubWorker, Wire
from tests.engines import AdminPostgres

from kho.app import migrations
from kho.devices.connections import boards
from kho.devices.protocol.session import Session
from kho.kernel.ports import Database
from kho.lib.clock import SECOND
from kho.simulator.board import Board
from kho.storage.migrate import migrate
from kho.storage.sqlite.database import Sqlite


class Spoken(Wire):
    """Says what it hears; with `mute` it never answers a call."""

    async def send(self, text: str) -> None:
        if '"tools/call"' in text:
            sys.stdout.write("called\n")
            sys.stdout.flush()
        await super().send(text)


async def main(home: Path, device: str, url: str | None, mute: bool) -> None:
    if mute:
        boards.LEASE, boards.BEAT = (
            4 * SECOND,
            1.0,
        )  # so that who waits for an answer need not wait long when it is killed
    db: Database = Sqlite.open(home / "kho.db") if url is None else AdminPostgres.open(url)
    await migrate(db, migrations())
    worker = HubWorker(db, home, url, tenant="local")
    await worker.registrations.register(device, "client", {})
    wire = Spoken(Board(device))
    wire.link = worker.live.attach("local", device, wire, Session())
    await worker.live.connected("local", device, wire.link)
    await wire.link.received(wire.board.hello())
    await wire.link.settled()
    if mute:
        wire.free.clear()
    worker.background.add(worker.live.run)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    await worker.close()
    await db.aclose()


if __name__ == "__main__":
    options = [word for word in sys.argv[1:] if word != "--mute"]
    asyncio.run(main(Path(options[0]), options[1], options[2] if len(options) > 2 else None, "--mute" in sys.argv))
