"""One of several workers is killed under traffic: no answer is wrong, nothing acknowledged is lost, another takes over."""

import contextlib
import http.client
import os
import signal
import sys
import threading
from pathlib import Path

import orjson
import pytest
from tests.acceptance.processes import Client, Hub, Place, until


def children(pid: int) -> list[int]:
    """Processes below this one that serve: those without children of their own, but for helpers of the interpreter."""
    found: list[int] = []
    with contextlib.suppress(OSError):  # the process has ended
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):  # the thread has
                for child in (task / "children").read_text("ascii").split():
                    found += children(int(child)) or [int(child)]
    return found


def serves(pid: int, port: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/net/tcp").read_text("ascii")
        own = {str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir()}
    except OSError:
        return False
    listening = (line.split() for line in text.splitlines()[1:])
    return any(
        part[3] == "0A" and part[1].endswith(f":{port:04X}") and f"socket:[{part[9]}]" in own for part in listening
    )


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
def test_killed_workers_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    acknowledged: set[str] = set()
    wrong: list[object] = []
    over = threading.Event()

    def ask(number: int, port: int) -> None:
        count = 0
        while not over.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException), Client(port) as client:
                while not over.is_set():
                    count += 1
                    text = f"Fact {number} {count}."
                    body = orjson.dumps({"action": "remember", "payload": {"text": text}})
                    status, answer = client.post("/actions", body)
                    if status == 200:
                        acknowledged.add(text)
                    elif status != 503:
                        wrong.append((status, answer))

    with Hub(Place(tmp_path / "home"), "--workers", "2") as hub:
        hub.ready()

        def working() -> list[int]:
            return [pid for pid in children(hub.process.pid) if serves(pid, hub.port)]

        until(lambda: len(working()) >= 2, "both workers", hub.process)
        threads = [threading.Thread(target=ask, args=(number, hub.port)) for number in range(3)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(2):
                before = len(acknowledged)
                until(lambda before=before: len(acknowledged) > before + 10, "facts to be kept", hub.process)
                victim = working()[0]
                os.kill(victim, signal.SIGKILL)
                until(lambda victim=victim: victim not in working() and len(working()) >= 2, "another one", hub.process)
        finally:
            over.set()
            for thread in threads:
                thread.join()
        assert not wrong
        kept: set[str] = set()
        with Client(hub.port) as client:
            cursor = ""
            while cursor is not None:
                payload = {"limit": 500, **({"cursor": cursor} if cursor else {})}
                status, answer = client.post("/actions", orjson.dumps({"action": "export_facts", "payload": payload}))
                assert status == 200
                page = orjson.loads(answer)["result"]
                kept |= {line["text"] for line in page["lines"]}
                cursor = page.get("next_cursor")
        assert acknowledged <= kept
