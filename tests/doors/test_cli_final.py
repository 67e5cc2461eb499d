"""Commands that cannot be undone ask first, or want --yes."""

import json
from pathlib import Path

import pytest
from tests.doors.doors import kho


@pytest.mark.parametrize("more", [(), ("--json",)])
async def test_without_yes_nothing_is_done(home: Path, more: tuple[str, ...]) -> None:
    assert (await kho(home, "memory", "open", "c")).status == 0
    assert (await kho(home, "memory", "add", "c", "--role", "user", "--content", "hello")).status == 0
    for verb in ("clear", "delete"):
        refused = await kho(home, "memory", verb, "c", *more)
        assert refused.status == 1
        assert "--yes" in refused.err
    messages = json.loads((await kho(home, "memory", "messages", "c", "--json")).out)["messages"]
    assert [message["content"] for message in messages] == ["hello"]


async def test_with_yes_it_is(home: Path) -> None:
    assert (await kho(home, "memory", "open", "c")).status == 0
    assert (await kho(home, "memory", "delete", "c", "--yes")).status == 0
    assert (await kho(home, "memory", "messages", "c")).status == 1
