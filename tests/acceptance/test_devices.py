"""Boards on real processes: a hub, one with two workers, the command line beside it, and a hub that is killed."""

import json
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.acceptance.processes import KHO, PATIENCE, Client, Hub, Place, until
from tests.devices.mqtt_brokers import free_port

from kho.simulator.simulator import mac

STATUS = "self.get_device_status"
VOLUME = "self.audio_speaker.set_volume"


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    url: str | None = request.getfixturevalue("postgres_schema_url") if request.param == "postgres" else None
    return Place(tmp_path / "home", url)


@contextmanager
def boards(place: Place, port: int, count: int) -> Generator[list[str], None, None]:
    """`kho devices simulate`; ready when the hub knows what each can do."""
    url = f"ws://127.0.0.1:{port}/xiaozhi/v1/"
    with (place.home.parent / "boards.log").open("wb") as log:
        process = subprocess.Popen(
            [*KHO, "devices", "simulate", "--count", str(count), "--url", url, "--json"],
            stdout=log,
            stderr=log,
            env=place.environment(),
        )
    try:
        until(lambda: connected(port) == count, "the boards to connect", process)
        yield [mac(number) for number in range(1, count + 1)]
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)


def rpc(port: int, method: str, **params: Any) -> Any:
    """The answer to one call on a connection of its own, so that any worker may get it."""
    with Client(port) as client:
        body = {"jsonrpc": "2.0", "id": 1, "method": f"devices-server/{method}", "params": params}
        return orjson.loads(client.post("/jsonrpc", orjson.dumps(body))[1])


def connected(port: int) -> int:
    listed = rpc(port, "devices_list")["result"]["devices"]
    return sum(one["status"] == "connected" and bool(one.get("tools")) for one in listed)


def volume_of(port: int, device: str) -> int:
    answer = rpc(port, "device_call", device=device, tool=STATUS)
    return json.loads(answer["result"]["text"])["audio_speaker"]["volume"]


def answers(port: int, device: str) -> bool:
    answer = rpc(port, "device_call", device=device, tool=STATUS)
    assert "result" in answer or answer["error"]["data"]["code"] == "DEVICE_OFFLINE", answer
    return "result" in answer


def by_command(place: Place, device: str, volume: int) -> Any:
    arguments = json.dumps({"volume": volume})
    done = place.run("devices", "call", device, VOLUME, "--arguments", arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_command_line_calls_a_board_of_a_running_hub(place: Place) -> None:
    with Hub(place) as hub, boards(place, hub.ready().port, 1) as [board]:
        assert by_command(place, board, 42)["text"] == "true"
        assert volume_of(hub.port, board) == 42
        wrong = place.run("devices", "call", board, VOLUME, "--arguments", '{"volume": 420}')
        assert (wrong.returncode, b"from 0 to 100" in wrong.stderr) == (1, True)
        said = json.loads(place.run("devices", "log", board, "--json").stdout)["calls"]
        assert [(one["door"], one["outcome"]) for one in said] == [
            ("cli", "INVALID_ARGUMENT"),
            ("jsonrpc", "ok"),
            ("cli", "ok"),
        ]


def test_every_worker_and_the_command_line_reach_every_board(place: Place) -> None:
    with Hub(place, "--workers", "2") as hub, boards(place, hub.ready().port, 6) as ids:
        for volume in range(5):
            for board in ids:
                answer = rpc(hub.port, "device_call", device=board, tool=VOLUME, arguments={"volume": volume})
                assert answer["result"]["text"] == "true", answer
            assert [volume_of(hub.port, board) for board in ids] == [volume] * len(ids)
        for board in ids[:2]:
            assert by_command(place, board, 77)["text"] == "true"
            assert volume_of(hub.port, board) == 77
        at_once = rpc(hub.port, "device_call", device=ids, tool=VOLUME, arguments={"volume": 9})["result"]
        assert [one["status"] for one in at_once["results"]] == ["ok"] * len(ids)
        assert [volume_of(hub.port, board) for board in ids] == [9] * len(ids)


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_the_hub_starts_again_and_the_boards_come_back(place: Place, how: str) -> None:
    port = str(free_port())
    with Hub(place, "--port", port) as first, boards(place, first.ready().port, 3) as ids:
        rpc(first.port, "device_call", device=ids[0], tool=VOLUME, arguments={"volume": 8})
        if how == "killed":
            first.kill()
        else:
            first.terminate()
            offline = json.loads(place.run("devices", "call", ids[0], STATUS, "--json").stdout)
            assert offline["error"]["code"] == "DEVICE_OFFLINE"
        with Hub(place, "--port", port) as again:
            again.ready()
            for board, volume in zip(ids, (8, 70, 70), strict=True):
                # Where a process was killed, its boards count as connected until its lease is over: a call knows.
                until(lambda board=board: answers(again.port, board), f"{board} to come back", again.process)
                assert volume_of(again.port, board) == volume, "a board keeps its state"
            assert connected(again.port) == len(ids)
