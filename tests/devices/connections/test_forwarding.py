"""A board whose connection another process holds: reached, refused, or gone, each with its clear outcome."""

import asyncio
import contextlib
import json
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.processes import PATIENCE, Place
from tests.devices.conftest import Ground
from tests.devices.factories import HubWorker

from kho.devices import store
from kho.devices.connections.forwarding import UnixForwarding
from kho.devices.connections.forwarding_postgres import PostgresForwarding
from kho.devices.errors import BoardGone, CallTimedOut, DeviceFailed, DeviceOffline, DeviceTimeout
from kho.devices.store import Owner
from kho.lib.clock import SECOND, system_clock
from kho.lib.unix_lines import LONGEST_PATH
from kho.simulator.board import Board
from kho.simulator.board_tools import Context, FirmwareTool, ToolRefused

pytestmark = pytest.mark.anyio
A = "cc:01"
VOLUME = "self.audio_speaker.set_volume"
ROOT = Path(__file__).parents[3]


def volume(value: int, **more: Any) -> dict[str, Any]:
    return {"device": A, "tool": VOLUME, "arguments": {"volume": value}, **more}


def refuse(context: Context, arguments: dict[str, Any]) -> str:
    raise ToolRefused("The lamp is broken")


async def test_a_call_reaches_the_owner_and_its_answer_comes_back(workers: Callable[..., HubWorker]) -> None:
    here = workers()
    there = workers(tenant=here.tenant)
    board = Board(A, extra=[FirmwareTool("self.lamp.on", "Turns it on.", (), refuse)])
    wire = await there.join(board)
    answers = await asyncio.gather(*(here.ask("device_call", volume(value)) for value in range(1, 9)))
    assert [answer["text"] for answer in answers] == ["true"] * 8
    assert wire.calls() == 8
    with pytest.raises(DeviceFailed, match="The lamp is broken") as refused:
        await here.ask("device_call", {"device": A, "tool": "self.lamp.on"})
    assert isinstance(refused.value.details["board_code"], int), "the board's own code, from the other process"
    photo = await here.ask(
        "device_call", {"device": A, "tool": "self.camera.take_photo", "arguments": {"question": "?"}}
    )
    assert photo["content"][0]["type"] == "image"
    wire.free.clear()
    with pytest.raises(DeviceTimeout):
        await here.ask("device_call", volume(50, timeout=1))
    wire.free.set()


async def test_a_board_is_revoked_wherever_it_is(workers: Callable[..., HubWorker]) -> None:
    here = workers()
    there = workers(tenant=here.tenant)
    wire = await there.join(Board(A))
    await here.ask("device_revoke", {"device": A})
    assert wire.closed is not None
    assert wire.closed[0] == 1008


async def test_an_owner_that_stops_in_mid_call_leaves_it_unknown(workers: Callable[..., HubWorker]) -> None:
    here = workers()
    there = workers(tenant=here.tenant)
    wire = await there.join(Board(A))
    wire.free.clear()
    waiting = asyncio.create_task(here.ask("device_call", volume(7)))
    async with asyncio.timeout(PATIENCE):
        await wire.asked.wait()
        await there.close()
        with pytest.raises(DeviceOffline, match=r"not known|ended"):
            await waiting
    assert wire.calls() == 1


async def test_an_owner_that_is_gone_was_never_asked(workers: Callable[..., HubWorker]) -> None:
    here = workers()
    there = workers(tenant=here.tenant)
    await there.join(Board(A))
    await here.db.write(lambda tx: store.leave(tx, owner_of(tx, here.tenant), here.clock()))
    with pytest.raises(DeviceOffline):
        await here.ask("device_call", volume(7))
    queued = await here.ask("device_call", volume(7, queue_for="5m"))
    assert queued["status"] == "queued"


def owner_of(tx: Any, tenant: str) -> str:
    device = store.get(tx, tenant, A)
    assert device is not None
    return device.owner


# -- over a unix socket ------------------------------------------------------------------------------------------------


async def echo(message: dict[str, Any]) -> dict[str, Any]:
    return {"result": message}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_the_socket_is_this_users_alone(tmp_path: Path) -> None:
    one = UnixForwarding(tmp_path / "run", "0123456789abcdef")
    address = Path(await one.open(echo))
    assert address.parent == tmp_path / "run"
    assert (mode(address), mode(address.parent)) == (0o600, 0o700)
    assert await UnixForwarding(tmp_path, "x").ask(Owner("p", str(address), 0), {"a": "ô"}, 5.0) == {"a": "ô"}
    await one.close()
    assert list(address.parent.iterdir()) == []
    with pytest.raises(DeviceOffline):
        await one.ask(Owner("p", str(address), 0), {}, 5.0)


async def test_a_home_with_a_long_path_has_its_socket_elsewhere(tmp_path: Path) -> None:
    one = UnixForwarding(tmp_path / ("deep" * 40), "0123456789abcdef")
    address = Path(await one.open(echo))
    assert len(str(address)) <= LONGEST_PATH
    assert mode(address.parent) == 0o700
    assert await one.ask(Owner("p", str(address), 0), {"a": 1}, 5.0) == {"a": 1}
    await one.close()
    assert not address.parent.exists()


async def test_a_folder_that_was_cleared_away_makes_room_for_another(tmp_path: Path) -> None:
    one = UnixForwarding(tmp_path / ("deep" * 40), "0123456789abcdef")
    before = Path(await one.open(echo))
    assert Path(await one.open(echo)) == before
    shutil.rmtree(before.parent)
    address = Path(await one.open(echo))
    assert mode(address.parent) == 0o700
    assert await one.ask(Owner("p", str(address), 0), {"a": 1}, 5.0) == {"a": 1}
    shutil.rmtree(address.parent)
    await one.close()


async def test_only_who_left_a_socket_at_which_nobody_listens_is_gone_for_certain(tmp_path: Path) -> None:
    here, there = UnixForwarding(tmp_path, "a" * 32), UnixForwarding(tmp_path, "b" * 32)
    address = await there.open(echo)
    owner = Owner("b" * 32, address, 0)
    assert not await here.is_gone(owner)
    assert await here.ask(owner, {"x": 1}, PATIENCE) == {"x": 1}
    await there.close()
    assert not await here.is_gone(owner), "it may come back"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(address)
    assert await here.is_gone(owner)


async def test_nonsense_on_the_socket_harms_nobody(tmp_path: Path) -> None:
    one = UnixForwarding(tmp_path, "0123456789abcdef")
    address = await one.open(echo)
    for nonsense in (b"", b"{", b"nonsense\n", b"\xff\xfe\n"):
        reader, writer = await asyncio.open_unix_connection(address)
        writer.write(nonsense)
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
    assert await one.ask(Owner("p", address, 0), {"a": 1}, 5.0) == {"a": 1}
    await one.close()


async def test_an_answer_that_does_not_come_is_a_timeout_and_one_cut_off_is_unknown(tmp_path: Path) -> None:
    never = asyncio.Event()

    async def silent(message: dict[str, Any]) -> dict[str, Any]:
        await never.wait()
        return {}

    one = UnixForwarding(tmp_path, "0123456789abcdef")
    owner = Owner("p", await one.open(silent), 0)
    with pytest.raises(CallTimedOut):
        await one.ask(owner, {}, 0.05)
    waiting = asyncio.create_task(one.ask(owner, {}, PATIENCE))
    while len(one._server._serving) < 2:  # pyright: ignore[reportPrivateUsage]  # noqa: ASYNC110
        await asyncio.sleep(0)
    await one.close()
    with pytest.raises(BoardGone):
        await waiting


# -- over PostgreSQL ---------------------------------------------------------------------------------------------------


@pytest.fixture
def postgres(ground: Ground) -> Ground:
    if ground.url is None:
        pytest.skip("processes meet over a socket")
    return ground


async def test_what_nobody_took_is_withdrawn(postgres: Ground) -> None:
    assert postgres.url is not None
    asker = PostgresForwarding(postgres.db, system_clock, postgres.url, "asker")
    owner = Owner("owner", "", system_clock() + 60 * SECOND)
    await postgres.db.write(lambda tx: store.arrive(tx, owner.process, "", owner.until))
    with pytest.raises(DeviceOffline, match="does not answer"):
        await asker.ask(owner, {"do": "x"}, 0.2)
    done: list[dict[str, Any]] = []

    async def note(message: dict[str, Any]) -> dict[str, Any]:
        done.append(message)
        return {"result": {}}

    late = PostgresForwarding(postgres.db, system_clock, postgres.url, "owner")
    await late.open(note)
    assert await asker.ask(owner, {"do": "y"}, PATIENCE) == {}
    assert done == [{"do": "y"}]
    await late.close()
    await postgres.db.write(lambda tx: store.leave(tx, owner.process, system_clock()))
    with pytest.raises(DeviceOffline, match="ended"):
        await asker.ask(replace(owner), {"do": "z"}, PATIENCE)
    await asker.close()
    assert await postgres.db.read(lambda tx: tx.all("SELECT id FROM device_requests WHERE asker = 'asker'")) == []


# -- real processes ----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def holding(place: Place, *options: str) -> Generator[subprocess.Popen[bytes], None, None]:
    url = [place.database_url] if place.database_url else []
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.devices.connections.holder_process", str(place.home), A, *url, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=place.environment(PYTHONPATH=str(ROOT)),
        cwd=ROOT,
    )
    assert process.stdin is not None and process.stdout is not None  # noqa: PT018
    try:
        assert process.stdout.readline() == b"ready\n"
        yield process
    finally:
        process.stdin.close()
        process.wait(PATIENCE)
        process.stdout.close()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    url = request.getfixturevalue("postgres_schema_url") if request.param == "postgres" else None
    home = tmp_path / "home"
    home.mkdir()
    return Place(home, url)


def test_the_command_line_calls_a_board_of_another_process(place: Place) -> None:
    call = ("devices", "call", A, VOLUME, "--arguments", '{"volume": 42}', "--json")
    with holding(place):
        done = place.run(*call)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["text"] == "true"
        assert place.run("devices", "call", A, VOLUME, "volume=42").returncode == 0
        seen = place.run("devices", "call", A, "self.get_device_status")
        assert b'"volume":42' in seen.stdout.replace(b" ", b"")
        wrong = place.run("devices", "call", A, VOLUME, "--arguments", '{"volume": 420}')
        assert wrong.returncode == 1
        assert b"from 0 to 100" in wrong.stderr
    gone = place.run(*call)
    assert gone.returncode == 1
    error = json.loads(gone.stdout)["error"]
    assert error["code"] == "DEVICE_OFFLINE"
    assert error["guidance"].startswith("No hub is running on this machine. Start one with 'kho serve' first. Wake")
    log = json.loads(place.run("devices", "log", A, "--json").stdout)["calls"]
    assert [one["outcome"] for one in log] == ["DEVICE_OFFLINE", "INVALID_ARGUMENT", "ok", "ok", "ok"]
    assert {one["door"] for one in log} == {"cli"}


def test_an_owner_that_is_killed_in_mid_call(place: Place) -> None:
    with holding(place, "--mute") as owner:
        assert owner.stdout is not None
        calling = subprocess.Popen(
            [sys.executable, "-m", "kho", "devices", "call", A, VOLUME, "--arguments", '{"volume": 4}', "--json"],
            stdout=subprocess.PIPE,
            env=place.environment(),
        )
        assert owner.stdout.readline() == b"called\n"
        owner.kill()
        told, _ = calling.communicate(timeout=PATIENCE)
    error = json.loads(told)["error"]
    assert error["code"] == "DEVICE_OFFLINE"
    assert "not known" in error["message"]


def test_boards_of_a_process_that_was_killed_are_offline_at_once(place: Place) -> None:
    with holding(place) as owner:
        assert _status(place) == "connected"
        owner.kill()
        owner.wait(PATIENCE)
        # Processes that meet in PostgreSQL may be on several machines: there only the lease tells.
        assert _status(place) == ("offline" if place.database_url is None else "connected")
    assert list(place.home.rglob("*.sock")) == []


def _status(place: Place) -> str:
    [board] = json.loads(place.run("devices", "list", "--json").stdout)["devices"]
    return board["status"]
