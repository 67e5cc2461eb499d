"""Forwarding through PostgreSQL, for processes on several machines: a request is a row, and NOTIFY signals it.

The row decides, NOTIFY only saves time. The owner takes a row once; a requester that gives up deletes it, which works
only while nobody has taken it. Polling makes up for a NOTIFY that was missed because the connection broke.
"""

import asyncio
import logging
import uuid
from typing import TYPE_CHECKING, Any

import orjson

from kho.devices import store
from kho.devices.connections.forwarding import result, told
from kho.devices.errors import BoardGone, CallTimedOut, DeviceOffline, QueueFull
from kho.devices.store import Owner
from kho.kernel import Database, KhoError, Tx
from kho.lib.clock import SECOND, Clock
from kho.lib.unix_lines import AT_ONCE, Answer

if TYPE_CHECKING:
    from psycopg import AsyncConnection

log = logging.getLogger("kho.devices")

LOOK = 1.0
"""Seconds between polls for an answer when no NOTIFY arrives."""
SLACK = 60 * SECOND
"""How long a row is kept after its deadline."""
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0


def channel(process: str) -> str:
    return f"kho_devices_{process}"


class PostgresForwarding:
    def __init__(self, db: Database, clock: Clock, url: str, process: str) -> None:
        self._db = db
        self._clock = clock
        self._url = url
        self._process = process
        self._answer: Answer | None = None
        self._listening: asyncio.Task[None] | None = None
        self._heard = asyncio.Event()
        self._waiting: dict[str, asyncio.Event] = {}
        self._doing: set[asyncio.Task[None]] = set()

    async def open(self, answer: Answer) -> str:
        self._answer = answer
        await self._listen()
        return channel(self._process)

    async def ask(self, owner: Owner, message: dict[str, Any], timeout: float) -> dict[str, Any]:
        await self._listen()
        id, until = uuid.uuid4().hex, self._clock() + int(timeout * SECOND)
        body = orjson.dumps(message).decode()
        rung = self._waiting[id] = asyncio.Event()
        try:
            await self._db.write(lambda tx: _put(tx, id, owner.process, self._process, body, until))
            async with asyncio.timeout(timeout):
                return await self._answered(id, owner.process, rung)
        except TimeoutError:
            if await self._db.write(lambda tx: _withdraw(tx, id)):
                raise DeviceOffline("The process that holds the device's connection does not answer.") from None
            raise CallTimedOut from None
        except asyncio.CancelledError:
            # The caller is gone: withdraw the request if it has not been taken.
            await asyncio.shield(self._db.write(lambda tx: _withdraw(tx, id)))
            raise
        finally:
            del self._waiting[id]

    async def is_gone(self, owner: Owner) -> bool:
        """Always False: the process may be on another machine, and PostgreSQL does not show who listens, so only the
        lease counts."""
        return False

    async def close(self) -> None:
        tasks = [*self._doing, *([self._listening] if self._listening else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._listening = None

    async def _answered(self, id: str, owner: str, rung: asyncio.Event) -> dict[str, Any]:
        while True:
            rung.clear()
            state, answer, alive = await self._db.write(lambda tx: _look(tx, id, owner, self._clock()))
            if state == "answered":
                return result(orjson.loads(answer))
            if not alive:
                raise (
                    DeviceOffline("The process that held the device's connection has ended.")
                    if (state == "new")
                    else BoardGone()
                )
            try:
                async with asyncio.timeout(LOOK):
                    await rung.wait()
            except TimeoutError:
                continue

    async def _listen(self) -> None:
        if self._listening is None:
            self._heard.clear()
            self._listening = asyncio.create_task(self._keep_listening())
            try:
                async with asyncio.timeout(LOOK):
                    await self._heard.wait()
            except TimeoutError:
                return  # polling is enough until LISTEN works

    async def _keep_listening(self) -> None:
        import psycopg

        pause = FIRST_PAUSE
        while True:
            try:
                connection = await psycopg.AsyncConnection.connect(self._url, autocommit=True)
                async with connection:
                    await connection.execute(f'LISTEN "{channel(self._process)}"'.encode())
                    pause = FIRST_PAUSE
                    await self._hear(connection)
            except (psycopg.Error, OSError, KhoError) as problem:
                log.warning("forwarding: PostgreSQL is not heard: %s", problem)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _hear(self, connection: "AsyncConnection[Any]") -> None:
        self._heard.set()
        for rung in self._waiting.values():
            rung.set()
        for id in await self._db.read(lambda tx: _for(tx, self._process)):
            self._take(id)
        async for bell in connection.notifies():
            kind, _, id = bell.payload.partition(":")
            if kind == "asked":
                self._take(id)
            elif id in self._waiting:
                self._waiting[id].set()

    def _take(self, id: str) -> None:
        task = asyncio.create_task(self._do(id))
        self._doing.add(task)
        task.add_done_callback(self._doing.discard)

    async def _do(self, id: str) -> None:
        if self._answer is None:
            return
        try:
            taken = await self._db.write(lambda tx: _taken(tx, id, self._process, self._clock()))
            if taken is None:
                return
            asker, body = taken
            answer = await self._answer(orjson.loads(body)) if len(self._doing) <= AT_ONCE else told(QueueFull())
            text = orjson.dumps(answer).decode()
            await self._db.write(lambda tx: _reply(tx, id, asker, text))
        except KhoError as problem:
            log.warning("forwarding: a call could not be answered: %s", problem.message)


def sweep(tx: Tx, now: int) -> None:
    """Delete rows that nobody waits for any more."""
    tx.run("DELETE FROM device_requests WHERE until < $1", now - SLACK)


def _put(tx: Tx, id: str, owner: str, asker: str, body: str, until: int) -> None:
    sql = (
        "INSERT INTO device_requests (id, owner, asker, body, state, answer, until) "
        "VALUES ($1, $2, $3, $4, 'new', '', $5)"
    )
    tx.run(sql, id, owner, asker, body, until)
    tx.one("SELECT pg_notify($1, $2)", channel(owner), f"asked:{id}")


def _withdraw(tx: Tx, id: str) -> bool:
    return bool(tx.run("DELETE FROM device_requests WHERE id = $1 AND state = 'new'", id))


def _look(tx: Tx, id: str, owner: str, now: int) -> tuple[str, str, bool]:
    """Return state, answer, and whether the owner is alive. Deletes the row once it is answered or the owner is
    gone."""
    row = tx.one("SELECT state, answer FROM device_requests WHERE id = $1 FOR UPDATE", id)
    if row is None:
        return "taken", "", False
    alive = store.owner(tx, owner, now) is not None
    if row[0] == "answered" or not alive:
        tx.run("DELETE FROM device_requests WHERE id = $1", id)
    return row[0], row[1], alive


def _for(tx: Tx, process: str) -> list[str]:
    return [row[0] for row in tx.all("SELECT id FROM device_requests WHERE owner = $1 AND state = 'new'", process)]


def _taken(tx: Tx, id: str, process: str, now: int) -> tuple[str, str] | None:
    sql = (
        "UPDATE device_requests SET state = 'taken' WHERE id = $1 AND owner = $2 AND state = 'new' AND until > $3 "
        "RETURNING asker, body"
    )
    row = tx.one(sql, id, process, now)
    return None if row is None else (row[0], row[1])


def _reply(tx: Tx, id: str, asker: str, answer: str) -> None:
    if tx.run("UPDATE device_requests SET state = 'answered', answer = $1 WHERE id = $2", answer, id):
        tx.one("SELECT pg_notify($1, $2)", channel(asker), f"answered:{id}")
