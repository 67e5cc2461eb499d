"""`kho serve --mqtt-broker`, `kho devices simulate` and `kho devices call` as three processes."""

import signal
import socket
import subprocess
from pathlib import Path

import orjson
import pytest
from tests.acceptance.processes import KHO, PATIENCE, Hub, Place, until

MAC = "02:4b:00:00:00:01"
VOLUME = "self.audio_speaker.set_volume"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def call(place: Place, volume: int) -> bool:
    arguments = orjson.dumps({"volume": volume}).decode()
    return place.run("devices", "call", MAC, VOLUME, "--arguments", arguments).returncode == 0


@pytest.mark.parametrize("workers", ["1", "2"])
def test_boards_are_served_and_are_back_when_the_hub_is(tmp_path: Path, workers: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    place, port, broker = Place(home), str(free_port()), f"127.0.0.1:{free_port()}"
    options = ("--port", port, "--mqtt-broker", broker, "--workers", workers)
    url = f"ws://127.0.0.1:{port}/xiaozhi/v1/"
    said = tmp_path / "boards.jsonl"
    with said.open("wb") as out:
        boards = subprocess.Popen(
            [*KHO, "devices", "simulate", "--url", url, "--json"],
            stdout=out,
            stderr=subprocess.PIPE,
            env=place.environment(),
        )
    try:
        for volume in (21, 22):
            with Hub(place, *options) as hub:
                hub.ready()
                until(lambda volume=volume: call(place, volume), "the board to be there", hub.process, boards)
                hub.terminate()
                assert "Traceback" not in hub.log
    finally:
        boards.send_signal(signal.SIGINT)
        _, errors = boards.communicate(timeout=PATIENCE)
    assert (boards.returncode, errors) == (0, b"Stopped.\n")
    lines = [orjson.loads(line) for line in said.read_bytes().splitlines()]
    assert [one["transport"] for one in lines if one["what"] == "connected"] == ["mqtt", "mqtt"]
    assert [one["arguments"]["volume"] for one in lines if one["what"] == "called"] == [21, 22]


def test_a_port_that_is_taken_and_nonsense_are_a_sentence(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = place.run("serve", "--port", "0", "--mqtt-broker", f"127.0.0.1:{port}")
        assert (done.returncode, done.stderr.decode()) == (
            1,
            f"error: port {port} is taken. Choose another with --mqtt-broker.\n",
        )
    done = place.run("serve", "--port", "0", "--mqtt-broker", "somewhere")
    assert (done.returncode, done.stderr.decode()) == (1, "error: --mqtt-broker must be HOST:PORT.\n")
