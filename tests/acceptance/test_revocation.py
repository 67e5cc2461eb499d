"""`kho keys revoke` while `kho serve --workers 2` runs, as people have it: no setting of how often keys are looked up."""

import http.client
import json
import os
import re
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pytest
from tests.acceptance.processes import Client, Hub, Place
from tests.timeouts import PATIENCE

MOST_STREAMS = 60
"""By then each of two workers has one, unless the system gives all connections to one of them."""


@dataclass
class Reader:
    """A stream that is read until the hub ends it."""

    port: int
    key: str
    ended: threading.Event = field(default_factory=threading.Event)
    ended_at: float = 0.0

    def open(self) -> "Reader":
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        headers = {"accept": "text/event-stream", "authorization": f"Bearer {self.key}"}
        self.connection.request("GET", "/mcp", headers=headers)
        self.mine: int = self.connection.sock.getsockname()[1]
        self.response = self.connection.getresponse()
        assert self.response.status == 200, self.response.read()
        assert self.response.readline().startswith(b": listening")
        self.reading = threading.Thread(target=self._read, daemon=True)
        self.reading.start()
        return self

    def _read(self) -> None:
        with suppress(OSError, http.client.HTTPException):  # when the test is over
            self.response.read()
            self.ended_at = time.time()
            self.ended.set()
        self.connection.close()


def holder(hub: Hub, theirs: int) -> int:
    """Which process of the hub, all of which are in a session of their own, has the connection from this port."""
    port, session = hub.port, hub.process.pid
    wanted = f"0100007F:{port:04X} 0100007F:{theirs:04X}"
    lines = Path("/proc/net/tcp").read_text().splitlines()
    [inode] = [line.split()[9] for line in lines if wanted in line]
    for pid in [int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit()]:
        with suppress(OSError):  # some end meanwhile, and links do
            if os.getsid(pid) == session:
                links = [one.readlink() for one in Path(f"/proc/{pid}/fd").iterdir() if one.is_symlink()]
                if Path(f"socket:[{inode}]") in links:
                    return pid
    raise AssertionError("none of the workers has it")


def key_of(place: Place, name: str) -> str:
    made = place.run("keys", "create", name, "--tenant", "acme", "--yes")
    found = re.search(rb"kho_[0-9a-f]{8}_[\w-]{43}", made.stdout)
    assert found is not None, made
    return found[0].decode()


@pytest.mark.skipif(sys.platform != "linux", reason="which worker has a connection is read from /proc")
def test_a_revoked_key_is_heard_of_by_every_worker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = Place(tmp_path / "home")
    ended, good = key_of(place, "ended"), key_of(place, "good")
    with Hub(place, "--workers", "2").ready() as hub:
        streams: dict[str, list[Reader]] = {ended: [], good: []}
        for key, opened in streams.items():
            while len({holder(hub, one.mine) for one in opened}) < 2:
                assert len(opened) < MOST_STREAMS
                opened.append(Reader(hub.port, key).open())
        revoked = place.run("keys", "revoke", ended.split("_")[1])
        assert revoked.returncode == 0, revoked
        for one in streams[ended]:
            assert one.ended.wait(PATIENCE), "a stream outlives its key"
        assert not [one for one in streams[good] if one.ended.is_set()]
        at = revoked_at(place)
        seconds = [one.ended_at - at for one in streams[ended]]
        with capsys.disabled():
            sys.stdout.write(f"{len(seconds)} streams ended {min(seconds):.2f} to {max(seconds):.2f} s after the key\n")
        for key, status in ((ended, 401), (good, 200)):
            for _ in range(8):  # each on a connection of its own, so that both workers are asked
                with Client(hub.port) as client:
                    asked = b'{"action": "list_facts", "payload": {}}'
                    assert client.post("/actions", asked, authorization=f"Bearer {key}")[0] == status
        hub.terminate()
    for one in (*streams[ended], *streams[good]):
        one.reading.join(PATIENCE)


def revoked_at(place: Place) -> float:
    """When the one key was revoked that has been."""
    keys = json.loads(place.run("keys", "list", "--json").stdout)["keys"]
    [at] = [one["revoked_at"] for one in keys if one.get("revoked_at")]
    return datetime.fromisoformat(at).timestamp()
