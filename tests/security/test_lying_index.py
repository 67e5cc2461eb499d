"""An index of vectors (a server of its own, perhaps) names passages of another tenant, or none at all. Hits are read back
through the tables, with the tenant."""

import asyncio
import math
from typing import Any

import pytest
from tests.doors.doors import new_key, served

from kho.doctor import change
from kho.settings import Settings
from kho.storage.vector_index.postgres import PostgresVectors
from kho.storage.vector_index.sqlite import SqliteVectors

pytestmark = pytest.mark.anyio
MARK = "zyxmark"
LIES: dict[str, list[tuple[int, float]]] = {
    "everybody's": [(seq, 0.99) for seq in range(1, 60)],
    "nobody's": [(seq, 1.0) for seq in (0, -1, 10**9, 2**62)],
    "not a number": [(1, math.nan), (2, math.inf), (3, -math.inf), (4, 1e300)],
    "the same": [(1, 0.9)] * 500,
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
async def test_a_lying_index_shows_nothing_of_another_tenant(
    both_settings: Settings, lie: list[tuple[int, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed = change(both_settings, {"search": {"embedder": {"provider": "hash"}}})
    mine, theirs = await new_key(hashed, "acme"), await new_key(hashed, "umbrella")

    asked: list[str] = []

    async def nearest(self: Any, model: str, *arguments: Any, **more: Any) -> list[tuple[int, float]]:
        asked.append(model)
        return lie

    async with served(hashed, serving=True) as hub:
        for key, text in ((theirs, f"{MARK} kettle"), (mine, "My own lamp")):
            for action, payload in (
                ("remember", {"text": text}),
                ("create_document", {"content": {"body": text}, "metadata": {"title": text}}),
                ("submit_experience", {"title": text, "problem_description": text, "solution": text}),
            ):
                assert (await hub.act(action, payload, key=key)).status_code == 200
        for engine in (SqliteVectors, PostgresVectors):
            monkeypatch.setattr(engine, "nearest", nearest)
        async with asyncio.timeout(60):
            while not asked:  # until there is a vector, nobody asks for the nearest
                assert MARK not in (await hub.act("search", {"query": "kettle"}, key=mine)).text
                await asyncio.sleep(0.02)
        for action, payload in (
            ("search", {"query": "kettle"}),
            ("query_knowledge", {"query": "kettle"}),
            ("query_experiences", {"keywords": "kettle"}),
        ):
            answer = await hub.act(action, payload, key=mine)
            assert answer.status_code == 200, answer.text
            assert MARK not in answer.text
            answer.json()
        assert asked
