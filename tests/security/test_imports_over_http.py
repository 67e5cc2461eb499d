"""Import operations over HTTP, given what is small to send and large to read, or refers to nothing: each answers in
words, stores nothing of it, and the hub goes on."""

import asyncio
from typing import Any

import orjson
import pytest
from tests.doors.doors import Json, served

from kho import slices
from kho.settings import Settings

pytestmark = pytest.mark.anyio


def imports() -> dict[str, str]:
    """The parameter of each import operation that takes the lines, by its method."""
    found: dict[str, str] = {}
    for capability in slices.describe().capabilities:
        for operation in capability.operations:
            if operation.name.endswith(".import") and operation.rpc is not None:
                found[f"{capability.server}/{operation.rpc}"] = next(iter(operation.params.model_fields))
    return found


BOMBS: dict[str, Any] = {
    "90,000 lines of nothing": [{}] * 90_000,
    "lines that are no objects": [0, None, "x", [], True] * 100,
    "a line within lines": [orjson.loads("[" * 40 + "]" * 40)],
    "a long text": [{"kind": "x" * 7_000_000, "text": "x", "title": "x" * 500_000}],
    "many fields": [{f"field{number}": number for number in range(30_000)}],
    "a line that never was written": [{"kind": "passage", "type": "summary", "id": "x", "conversation_id": "nobody's"}],
    "times that are none": [{"text": "x", "created_at": 2**63 - 1, "id": "x", "version": -(10**18)}],
    "no list": {"a": 1},
}


async def test_all_imports_are_walked() -> None:
    assert {method.partition("/")[0] for method in imports()} == {
        "facts-server", "experiences-server", "memory-server", "research-server",
    }  # fmt: skip


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
async def test_an_import_of_nonsense_is_refused_in_words(settings: Settings, bomb: Any) -> None:
    async with served(settings) as hub:
        for method, field in imports().items():
            body: Json = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {field: bomb}}
            answer, health = await asyncio.gather(hub.post("/jsonrpc", body), hub.get("/health"))
            assert health.status_code == 200
            assert answer.status_code == 200, (method, answer.text[:300])
            told = answer.json()
            assert "INTERNAL" not in answer.text, (method, answer.text[:300])
            assert len(answer.content) < 200_000, method
            refused = told.get("error") or told["result"].get("error") or told["result"].get("refused")
            assert refused or not told["result"].get("imported"), (method, answer.text[:300])
        for action, name in (("export_facts", "lines"), ("export_experiences", "experiences")):
            found = (await hub.act(action, {})).json()["result"]
            assert found.get("data", found)[name] == [], "nothing of it was stored"
