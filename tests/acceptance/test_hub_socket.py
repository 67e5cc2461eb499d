"""A command that reads asks the hub that runs on the same store, and says the same as without it."""

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.acceptance.processes import Hub, Place, until
from tests.started import started
from tests.timeouts import PATIENCE

QUERY = ("experiences", "query", "kettle")
RECORD = ("--title", "Ấm đun 水壶 kettle", "--problem-description", "Lạnh.", "--solution", "Cắm điện.")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path / "home")
    assert place.run("experiences", "submit", *RECORD).returncode == 0
    assert place.run("docs", "create", "doc-kettle", "--body", "Fill it.").returncode == 0
    return place


def asked_a_hub(place: Place, *arguments: str, **environment: str) -> tuple[str, bool]:
    """What a command says, and whether it opened no database for it."""
    said, loaded = started(place.home, *arguments, **{**place.environment(), **environment})
    return said, "apsw" not in loaded


def sockets(place: Place) -> list[Path]:
    return [*(place.home / "run").glob("hub-*.sock")]


@pytest.mark.parametrize(
    "command", [("docs", "list"), ("docs", "get", "doc-kettle", "--json"), ("memory", "list"), ("kb", "list-documents")]
)
def test_it_says_the_same(place: Place, command: tuple[str, ...]) -> None:
    alone, asked = asked_a_hub(place, *command)
    assert not asked
    with Hub(place) as hub:
        hub.ready()
        until(lambda: sockets(place), "the hub's socket")
        assert asked_a_hub(place, *command) == (alone, True)


def test_who_may_ask_and_what(place: Place) -> None:
    with Hub(place) as hub:
        hub.ready()
        until(lambda: sockets(place), "the hub's socket")
        [socket] = sockets(place)
        assert stat.S_IMODE(socket.stat().st_mode) == 0o600
        assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
        said, asked = asked_a_hub(place, *QUERY, "--json")
        assert asked
        assert json.loads(said)["data"]["experiences"][0]["title"] == "Ấm đun 水壶 kettle"
        # Other settings may find something else, another tenant has other data, and what writes is done here.
        for other in ({"KHO_SEARCH__TIMEOUT": "7"}, {"KHO_LOCAL__TENANT": "other"}):
            assert not asked_a_hub(place, *QUERY, **other)[1]
        assert "kettle" not in asked_a_hub(place, *QUERY, KHO_LOCAL__TENANT="other")[0]
        assert not asked_a_hub(place, "docs", "create", "doc-new", "--body", "New.")[1]
        assert "doc-new" in asked_a_hub(place, "docs", "list")[0]
        hub.kill()
    # A killed hub leaves its socket, where nobody listens any more: the next command clears it away.
    assert sockets(place)
    said, asked = asked_a_hub(place, "docs", "list")
    assert "doc-kettle" in said
    assert not asked
    assert sockets(place) == []


def test_times_are_those_of_the_zone_of_who_asks(place: Place) -> None:
    with Hub(place) as hub:
        hub.ready()
        until(lambda: sockets(place), "the hub's socket")
        for zone, name in (("Asia/Ho_Chi_Minh", "+07"), ("Europe/Vienna", "CE")):
            said, asked = asked_a_hub(place, "docs", "list", TZ=zone)
            assert f" {name}" in said
            assert not asked  # the hub's own zone is another


def test_a_write_leaves_the_vectors_to_the_running_hub(place: Place) -> None:
    """It wakes the hub and waits a moment for it, so that what was written can be found by its meaning."""
    model = {"KHO_SEARCH__EMBEDDER__PROVIDER": "hash"}

    def create(*words: str) -> bytes:
        command = [sys.executable, "-m", "kho", "docs", "create", *words]
        environment = place.environment(**model)
        return subprocess.run(command, env=environment, capture_output=True, timeout=PATIENCE, check=True).stderr

    with Hub(place, **model) as hub:
        hub.ready()
        until(lambda: sockets(place), "the hub's socket")
        waited = create("doc-hot", "--body", "Hot.")
        hurried = create("doc-cold", "--body", "Cold.", "--no-wait")
    assert waited == b""
    assert hurried.endswith(b"the running hub computes them. Keyword search finds them now.\n")


def test_a_hub_that_stops_takes_its_socket_along(place: Place) -> None:
    with Hub(place) as hub:
        hub.ready()
        until(lambda: sockets(place), "the hub's socket")
        hub.terminate()
    assert sockets(place) == []


def test_what_a_hub_refuses_is_said_by_the_command(place: Place) -> None:
    alone = place.run("docs", "get", "doc-nowhere")
    with Hub(place) as hub:
        hub.ready()
        until(lambda: sockets(place), "the hub's socket")
        again = place.run("docs", "get", "doc-nowhere")
    assert (again.returncode, again.stdout, again.stderr) == (alone.returncode, alone.stdout, alone.stderr)
    assert b"doc-nowhere" in again.stderr
