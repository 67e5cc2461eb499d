"""PostgreSQL stops answering without closing a connection, as a machine that swaps does: the hub says so, and goes on
where it was when it answers again."""

import asyncio
import os
import signal
from contextlib import suppress

import httpx2
import psycopg
import pytest
from tests.doors.doors import served
from tests.stores.fill import until

from kho.settings import Settings

pytestmark = pytest.mark.anyio
THERE = "SELECT pid FROM pg_stat_activity WHERE datname IS NOT NULL"


async def test_what_was_begun_is_done_when_the_server_answers_again(
    postgres_schema_url: str, settings: Settings
) -> None:
    chosen = Settings(home=settings.home, database_url=postgres_schema_url, database_timeout=0.5)
    connection = await psycopg.AsyncConnection.connect(postgres_schema_url, autocommit=True)

    async def there() -> set[int]:
        return {row[0] for row in await (await connection.execute(THERE)).fetchall()}

    async with connection:
        others = await there()
        async with served(chosen, serving=True) as hub:
            await asyncio.gather(*(hub.act("remember", {"text": f"Before {number}."}) for number in range(8)))
            halted = await there() - others
            assert halted
            writes: list[asyncio.Task[httpx2.Response]] = []
            for pid in halted:
                os.kill(pid, signal.SIGSTOP)
            try:
                writes += [
                    asyncio.create_task(hub.act("remember", {"text": f"Meanwhile {number}."})) for number in range(12)
                ]
                health = await hub.get("/health")
                assert (health.status_code, health.json()["status"]) == (503, "unhealthy")
            finally:
                for pid in halted:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGCONT)
            answers = [answer.status_code for answer in await asyncio.gather(*writes)]
            assert set(answers) <= {200, 503, 504}, answers

            async def healthy() -> bool:
                return (await hub.get("/health")).status_code == 200

            await until(healthy)
            assert (await hub.act("remember", {"text": "After."})).status_code == 200
            listed = {line["text"] for line in (await hub.act("export_facts", {})).json()["result"]["lines"]}
            kept = {f"Meanwhile {number}." for number, status in enumerate(answers) if status == 200}
            assert kept | {"After.", "Before 0."} <= listed
