"""`kho watch`: done once, and again whenever something in the folder changes; it ends when it is told to."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.doors.doors import KHO, environment, kho
from tests.timeouts import PATIENCE


@pytest.fixture
async def watching(home: Path, tmp_path: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("# A\n\nOne.\n", "utf-8")
    env = {"KHO_RESEARCH__ROOTS": json.dumps([str(notes)])}
    assert (await kho(home, "collections", "create", "papers", env=env)).status == 0
    process = await asyncio.create_subprocess_exec(
        KHO, "watch", "notes", "--collection", "papers", "--interval", "0.1", "--json",
        cwd=tmp_path, env=environment(home, env), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    yield process
    if process.returncode is None:
        process.kill()
        await process.wait()


async def round_of(process: asyncio.subprocess.Process) -> dict[str, Any]:
    """The next answer that it prints."""
    assert process.stdout is not None
    lines: list[bytes] = []
    async with asyncio.timeout(PATIENCE):
        while not lines or lines[-1] != b"}\n":
            line = await process.stdout.readline()
            assert line, b"".join(lines)
            lines.append(line)
    return json.loads(b"".join(lines))["job"]


async def test_a_collection_is_kept_in_step_with_a_folder(
    watching: asyncio.subprocess.Process, home: Path, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    first = await round_of(watching)
    assert (first["added"], first["state"]) == (1, "done")
    (notes / "b.md").write_text("# B\n\nTwo.\n", "utf-8")
    assert (await round_of(watching))["added"] == 1
    (notes / "a.md").write_text("# A\n\nAnother one.\n", "utf-8")
    assert (await round_of(watching))["changed"] == 1
    (notes / "b.md").unlink()
    assert (await round_of(watching))["removed"] == 1
    watching.send_signal(signal.SIGINT)
    _, told = await asyncio.wait_for(watching.communicate(), PATIENCE)
    assert (watching.returncode, told.decode().splitlines()[-1]) == (0, "Stopped watching.")
    listed = json.loads((await kho(home, "kb", "list-documents", "--json")).out)["documents"]
    assert [one["title"] for one in listed] == ["A"]


async def test_a_file_that_never_rests_does_not_keep_others_out(
    watching: asyncio.subprocess.Process, tmp_path: Path
) -> None:
    """Nor do pipes, links in a circle, and names that are too long for their place."""
    notes = tmp_path / "notes"
    await round_of(watching)
    os.mkfifo(notes / "pipe.md")
    (notes / "circle").symlink_to(notes, target_is_directory=True)
    (notes / "nowhere.md").symlink_to(notes / "nowhere.md")

    async def scribble() -> None:
        with (notes / "growing.log").open("a", encoding="utf-8") as file:
            while True:
                file.write("more\n")
                file.flush()
                await asyncio.sleep(0.01)

    scribbling = asyncio.ensure_future(scribble())
    try:
        (notes / "b.md").write_text("# B\n\nTwo.\n", "utf-8")
        while (await round_of(watching))["added"] < 1:
            pass
    finally:
        scribbling.cancel()
    assert watching.returncode is None


async def test_what_cannot_be_watched_ends_at_once(home: Path, tmp_path: Path) -> None:
    done = await kho(home, "watch", str(tmp_path / "nothing"), "--collection", "papers")
    assert (done.status, done.out) == (1, "")
    assert "error: " in done.err
