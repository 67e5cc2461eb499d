"""Somebody ends Kho's connections to PostgreSQL again and again: callers get an answer or 503, and it recovers."""

import asyncio

import psycopg
import pytest
from tests.doors.doors import served
from tests.stores.fill import until

from kho.settings import Settings

pytestmark = pytest.mark.anyio
THERE = "SELECT pid FROM pg_stat_activity WHERE datname IS NOT NULL"
OTHERS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname IS NOT NULL AND NOT pid = ANY(%s)"


async def test_ended_connections_are_made_anew(postgres_schema_url: str, settings: Settings) -> None:
    chosen = Settings(home=settings.home, database_url=postgres_schema_url)
    kept: set[str] = set()
    statuses: set[int] = set()
    connection = await psycopg.AsyncConnection.connect(postgres_schema_url, autocommit=True)
    # Those of the tests themselves are there already.
    ours = [row[0] for row in await (await connection.execute(THERE)).fetchall()]
    async with connection, served(chosen, serving=True) as hub:
        over = asyncio.Event()

        async def write(number: int) -> None:
            count = 0
            while not over.is_set():
                count += 1
                text = f"Fact {number} {count}."
                answer = await hub.act("remember", {"text": text})
                statuses.add(answer.status_code)
                assert "psycopg" not in answer.text
                assert "terminat" not in answer.text
                if answer.status_code == 200:
                    kept.add(text)

        async with asyncio.TaskGroup() as tasks:
            for number in range(3):
                tasks.create_task(write(number))
            for _ in range(5):
                before = len(kept)
                await until(lambda before=before: _more(kept, before))
                await connection.execute(OTHERS, (ours,))
            over.set()
        assert statuses <= {200, 503}, statuses
        listed: set[str] = set()
        cursor: str | None = ""
        while cursor is not None:
            answer = await hub.act("export_facts", {"limit": 500, **({"cursor": cursor} if cursor else {})})
            assert answer.status_code == 200
            page = answer.json()["result"]
            listed |= {line["text"] for line in page["lines"]}
            cursor = page.get("next_cursor")
        assert kept <= listed


async def _more(kept: set[str], before: int) -> bool:
    return len(kept) > before + 5
