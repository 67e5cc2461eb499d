"""A caller holds as many connections as the process may open files: whoever is connected goes on, and the hub recovers."""

import contextlib
import socket
import sys
from pathlib import Path

import pytest
from tests.acceptance.processes import Client, Hub, Place, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="open files are counted in /proc")

FILES = 160
LIMITED = [
    sys.executable,
    "-c",
    f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, {FILES}))\n"
    "import sys; sys.argv[0] = 'kho'\nfrom kho import entrypoint; entrypoint.main()",
]
REMEMBER = b'{"action": "remember", "payload": {"text": "The kettle is blue."}}'


def test_a_hub_that_can_open_no_more_files_serves_who_is_connected_and_recovers(tmp_path: Path) -> None:
    with Hub(Place(tmp_path / "home"), program=LIMITED) as hub, contextlib.ExitStack() as held:
        hub.ready()
        files = Path(f"/proc/{hub.process.pid}/fd")
        with Client(hub.port) as connected:
            assert connected.post("/actions", REMEMBER)[0] == 200
            for _ in range(3 * FILES):
                held.enter_context(socket.create_connection(("127.0.0.1", hub.port)))
            until(lambda: len(list(files.iterdir())) >= FILES - 2, "no file can be opened", hub.process)
            for _ in range(5):
                status, answer = connected.post("/actions", REMEMBER)
                assert status == 200, answer
        held.close()

        def serves() -> bool:
            with contextlib.suppress(OSError), Client(hub.port) as newcomer:
                return newcomer.post("/actions", REMEMBER)[0] == 200
            return False

        until(serves, "the hub to serve newcomers", hub.process)
        assert "Traceback" not in hub.log
