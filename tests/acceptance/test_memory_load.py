"""Many writers into few conversations: nothing lost, nothing doubled, nothing out of order; and kill -9."""

import http.client
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.acceptance.processes import Client, Hub, Place

WRITERS, EACH, CHATS = 100, 50, 20


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    url: str | None = request.getfixturevalue("postgres_schema_url") if request.param == "postgres" else None
    return Place(tmp_path / "home", url)


def call(client: Client, method: str, **params: Any) -> Any:
    body = {"jsonrpc": "2.0", "id": 1, "method": f"memory-server/memory/{method}", "params": params}
    _, answer = client.post("/jsonrpc", orjson.dumps(body))
    return orjson.loads(answer)["result"]


def add(client: Client, chat: str, content: str) -> None:
    done = call(client, "add_message", conversation_id=chat, role="user", content=content, message_id=content)
    assert done == {"status": "success", "conversation_id": chat}


def begin(port: int) -> None:
    with Client(port) as client:
        for number in range(CHATS):
            call(client, "get_or_create", conversation_id=f"chat-{number}")


def said(port: int) -> list[list[str]]:
    """What each conversation holds."""
    with Client(port) as client:
        return [
            [m["content"] for m in call(client, "get_all_messages", conversation_id=f"chat-{n}")["messages"]]
            for n in range(CHATS)
        ]


def at_once(work: Callable[[int], None]) -> None:
    with ThreadPoolExecutor(WRITERS) as pool:
        for done in [pool.submit(work, number) for number in range(WRITERS)]:
            done.result()


@pytest.mark.parametrize("workers", [1, 4])
def test_five_thousand_messages(place: Place, workers: int) -> None:
    with Hub(place, "--workers", str(workers)) as hub:
        hub.ready()
        begin(hub.port)

        def write(number: int) -> None:
            with Client(hub.port) as client:
                for n in range(EACH):
                    add(client, f"chat-{number % CHATS}", f"w{number}-{n}")

        at_once(write)
        chats = said(hub.port)
        assert sum(map(len, chats)) == WRITERS * EACH
        for number in range(WRITERS):
            own = [one for one in chats[number % CHATS] if one.startswith(f"w{number}-")]
            assert own == [f"w{number}-{n}" for n in range(EACH)], "lost, doubled or out of order"


def test_a_kill_loses_nothing_that_was_acknowledged(place: Place) -> None:
    acknowledged: list[tuple[str, str]] = []
    lock = threading.Lock()
    with Hub(place) as hub:
        hub.ready()
        begin(hub.port)
        killed = threading.Event()

        def write(number: int) -> None:
            chat = f"chat-{number % CHATS}"
            try:
                with Client(hub.port) as client:
                    for n in range(10_000):
                        content = f"w{number}-{n}"
                        add(client, chat, content)
                        with lock:
                            acknowledged.append((chat, content))
            except (OSError, http.client.HTTPException):
                assert killed.is_set() or killed.wait(5), "the hub went away by itself"

        with ThreadPoolExecutor(16) as pool:
            writing = [pool.submit(write, number) for number in range(16)]
            time.sleep(random.uniform(0.5, 1.5))  # the moment of the kill is what is tested
            killed.set()
            hub.kill()
            for one in writing:
                one.result()
    assert acknowledged
    with Hub(place) as again:
        chats = said(again.ready().port)
    for chat, content in acknowledged:
        assert content in chats[int(chat.removeprefix("chat-"))], f"{content} was acknowledged and is gone"
    assert all(len(set(chat)) == len(chat) for chat in chats)
