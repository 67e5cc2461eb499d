"""Contract 002's ways to run and to set the server, each with a real process."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest
import yaml
from tests.acceptance.processes import Client, Hub, Place, until
from tests.contracts.test_002_memory_and_tools import Rpc
from tests.timeouts import PATIENCE

ROOT = Path(__file__).parents[2]


@contextmanager
def started(place: Place, *command: str) -> Generator[None]:
    process = subprocess.Popen(
        command,
        cwd=place.home.parent,
        env=place.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(PATIENCE)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@pytest.mark.requirement("002.run.ways")
@pytest.mark.parametrize(
    "command",
    [
        (str(ROOT / "run_mcp_server.py"),),
        ("-m", "kho", "serve"),
        ("-m", "kho", "serve", "--reload"),
        ("-m", "uvicorn", "kho.app:asgi"),
        ("-m", "uvicorn", "kho.app:asgi", "--workers", "2"),
    ],
    ids=["script", "serve", "reload", "uvicorn", "workers"],
)
def test_every_way_to_run_it(tmp_path: Path, command: tuple[str, ...]) -> None:
    port = free_port()

    def healthy() -> bool:
        try:
            with Client(port) as client:
                return client.get("/health")["status"] == "healthy"
        except OSError:
            return False

    with started(Place(tmp_path / "home"), sys.executable, *command, "--port", str(port)):
        until(healthy, "an answer")


@pytest.mark.requirement("002.run.port")
def test_the_port_is_8001_unless_another_is_named(tmp_path: Path) -> None:
    told = Place(tmp_path / "home").run("serve", "--help").stdout.decode()
    assert re.search(r"--port .*8001", " ".join(told.split()))


@pytest.mark.requirement("002.summary.settings")
def test_the_settings_of_the_contract(tmp_path: Path) -> None:
    """COMPRESS_AFTER_SUMMARY is accepted and deletes nothing."""
    names = {"KEEP_RECENT_MESSAGES": "2", "SUMMARIZE_THRESHOLD": "4", "COMPRESS_AFTER_SUMMARY": "true"}
    settings = {f"KHO_MEMORY__{name}": value for name, value in names.items()}
    with Hub(Place(tmp_path / "home"), **settings) as hub, Client(hub.ready().port) as client:
        rpc = Rpc(client)
        chat = rpc("memory-server/memory/get_or_create")["conversation_id"]
        rpc.said(chat, "Tôi tên là Lê Văn Tám, số hồ sơ 88123.", *(f"Câu hỏi thứ {n} về răng hàm." for n in range(5)))

        def of(method: str) -> dict[str, list[object]]:
            return rpc(f"memory-server/memory/{method}", conversation_id=chat)

        until(lambda: of("get_summary")["summary"], "a summary")
        assert len(of("get_context")["messages"]) == 2
        assert (len(of("get_old_messages")["messages"]), of("get_old_messages")["total_count"]) == (4, 4)
        assert len(of("get_all_messages")["messages"]) == 6


CURLS = {
    "health": "curl http://localhost:8001/health",
    "servers": "curl http://localhost:8001/servers",
    "memory": """curl -X POST http://localhost:8001/jsonrpc \\
  -H "Content-Type: application/json" \\
  -d '{
    "jsonrpc": "2.0",
    "method": "memory-server/memory/get_or_create",
    "params": {},
    "id": 1
  }'""",
    "tools": """curl -X POST http://localhost:8001/jsonrpc \\
  -H "Content-Type: application/json" \\
  -d '{
    "jsonrpc": "2.0",
    "method": "tool-server/tools/list",
    "params": {},
    "id": 1
  }'""",
}


def test_the_commands_of_the_contract_work_as_printed(tmp_path: Path) -> None:
    with Hub(Place(tmp_path / "home")) as hub:
        port = hub.ready().port
        said = {
            name: orjson.loads(
                subprocess.run(
                    command.replace(":8001", f":{port}"), shell=True, capture_output=True, timeout=PATIENCE, check=True
                ).stdout
            )
            for name, command in CURLS.items()
        }
    assert said["health"]["status"] == "healthy"
    assert [one["name"] for one in said["servers"]["servers"]][:2] == ["memory-server", "tool-server"]
    assert said["memory"]["result"].keys() == {"conversation_id"}
    assert said["tools"]["result"]["tools"][0]["name"] == "duckduckgo_search"


def test_the_container_files_are_valid() -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    service = compose["services"]["mcp-server"]
    assert service["build"] == "."
    assert [port.rpartition(":")[2] for port in service["ports"]] == ["8001"]
    assert {volume.partition(":")[0] for volume in service["volumes"]} <= set(compose["volumes"])
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    words = [line.split() for line in lines if line and not line.startswith("#")]
    copied = [source for verb, *rest in words if verb == "COPY" for source in rest[:-1]]
    assert copied
    assert all((ROOT / source).exists() for source in copied)
    [command] = [line.removeprefix("CMD ") for line in lines if line.startswith("CMD ")]
    assert orjson.loads(command)[:2] == ["kho", "serve"]
