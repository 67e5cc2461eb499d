"""T19: another account of the machine reaches a hub on stdio, or what it stores."""

import json
import sys
from pathlib import Path

import pytest
from tests.acceptance.processes import KHO, Place
from tests.timeouts import PATIENCE

HELLO = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}  # fmt: skip
REMEMBER = {
    "jsonrpc": "2.0", "id": 2, "method": "tools/call",
    "params": {"name": "remember", "arguments": {"text": "The kettle is blue."}},
}  # fmt: skip


def listening(pid: int) -> list[str]:
    """The TCP sockets of a process that accept connections."""
    own = {str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir() if fd.is_symlink()}
    found: list[str] = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text("ascii").splitlines()[1:]:
            part = line.split()
            if part[3] == "0A" and f"socket:[{part[9]}]" in own:
                found.append(part[1])
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="what a process listens on comes from /proc")
def test_t19_stdio_speaks_the_protocol_alone_and_listens_nowhere(tmp_path: Path) -> None:
    import subprocess

    place = Place(tmp_path / "home")
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [*KHO, "stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=place.environment()
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        lines: list[bytes] = []
        for message in (HELLO, {"jsonrpc": "2.0", "method": "notifications/initialized"}, REMEMBER):
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
            if "id" in message:
                lines.append(process.stdout.readline())
        assert listening(process.pid) == []
        rest, _ = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    for line in [*lines, *rest.splitlines()]:
        assert json.loads(line)["jsonrpc"] == "2.0"
    assert place.home.stat().st_mode & 0o777 == 0o700
    files = [path for path in place.home.rglob("*") if path.is_file()]
    assert files
    assert {path.stat().st_mode & 0o077 for path in files} == {0}
