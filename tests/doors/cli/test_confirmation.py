"""Commands that cannot be undone ask first, or want --yes."""

import json
from pathlib import Path

import pytest
from tests.doors.command_line import program_of, run_in_process
from tests.doors.doors import kho

from kho.settings import Settings


@pytest.mark.parametrize("more", [(), ("--json",)])
async def test_without_yes_nothing_is_done(home: Path, more: tuple[str, ...]) -> None:
    assert (await kho(home, "memory", "open", "c")).status == 0
    assert (await kho(home, "memory", "add", "c", "--role", "user", "--content", "hello")).status == 0
    for verb in ("clear", "delete"):
        refused = await kho(home, "memory", verb, "c", *more)
        assert refused.status == 1
        assert "--yes" in (refused.out if more else refused.err)
        if more:
            assert json.loads(refused.out)["error"]["code"] == "CONFIRMATION_NEEDED"
    messages = json.loads((await kho(home, "memory", "messages", "c", "--json")).out)["messages"]
    assert [message["content"] for message in messages] == ["hello"]


async def test_with_yes_it_is(home: Path) -> None:
    assert (await kho(home, "memory", "open", "c")).status == 0
    assert (await kho(home, "memory", "delete", "c", "--yes")).status == 0
    assert (await kho(home, "memory", "messages", "c")).status == 1


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("memory delete nope", "CONVERSATION_NOT_FOUND"),
        ("memory delete", "INVALID_ARGUMENT"),
        ("kb remove-document nope", "DOCUMENT_NOT_FOUND"),
        ("admin purge nope", "NOT_FOUND"),
        ("devices revoke nope", "CONFIRMATION_NEEDED"),
        ("kb clear-history", "CONFIRMATION_NEEDED"),
    ],
)
def test_nobody_is_asked_about_what_is_not_there(settings: Settings, words: str, code: str) -> None:
    done = run_in_process(program_of(settings), *words.split(), "--json")
    answer = json.loads(done.out)
    assert (done.status, done.err) == (1, "")
    assert answer.get("error", answer)["code"] == code
