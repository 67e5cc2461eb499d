"""Where documents stand after an import, and what it says of that: all that it moves and deletes, and only that."""

from itertools import combinations, permutations
from pathlib import Path

import pytest
from tests.documents.document_harness import Desk, Json
from tests.documents.folders import refused, run, write

from kho.documents.folder_sync.ordering import MAX_NAMED, staying


def done(said: Json) -> dict[str, list[str]]:
    return {one["document_id"]: one["done"] for one in said["changes"]}


async def both(desk: Desk, folder: Path, **more: bool) -> Json:
    """What an import below 'exp' says, which a dry run says as well."""
    told = await run(desk, "import", folder, parent_id="exp", dry_run=True, **more)
    said = await run(desk, "import", folder, parent_id="exp", **more)
    assert told.pop("dry_run")
    notes = [note.replace("would be moved", "were moved") for note in told.pop("notes", [])]
    assert (told, notes) == ({key: value for key, value in said.items() if key != "notes"}, said.get("notes", []))
    return said


async def handbook(desk: Desk) -> None:
    """Outside of 'exp', with five documents below it."""
    await desk.create("exp")
    await desk.create("hb")
    for number in range(3):
        await desk.create(f"hb{number}", "hb")
    for number in range(2):
        await desk.create(f"hb1-{number}", "hb1")


async def test_a_renamed_file_moves_no_other(desk: Desk, tmp_path: Path) -> None:
    await desk.create("exp")
    write(tmp_path, {"a.md": "# Alpha", "b.md": "# Beta", "c.md": "# Gamma"})
    await run(desk, "import", tmp_path, parent_id="exp")
    (tmp_path / "a.md").rename(tmp_path / "z.md")
    assert done(await both(desk, tmp_path)) == {"exp/a": ["renamed", "moved"]}
    assert await desk.children("exp") == ["exp/b", "exp/c", "exp/a"]
    (tmp_path / "z.md").rename(tmp_path / "y.md")
    write(tmp_path, {"b.md": "# Beta\n\nmore"})
    assert done(await both(desk, tmp_path)) == {"exp/b": ["updated"], "exp/a": ["renamed"]}


async def test_what_comes_from_elsewhere_is_named_with_what_is_below_it(desk: Desk, tmp_path: Path) -> None:
    await handbook(desk)
    await desk.create("alone")
    write(tmp_path, {"a.md": '---\nid: "hb"\n---\nx', "b.md": '---\nid: "alone"\n---\nx'})
    said = await both(desk, tmp_path)
    assert done(said) == {"hb": ["moved", "updated"], "alone": ["moved", "updated"]}
    assert said["notes"] == [
        "Documents that stood outside of 'exp' were moved into it: 'hb' with 5 documents below it, 'alone'."
    ]
    assert await desk.children("exp") == ["hb", "alone"]
    assert "notes" not in await both(desk, tmp_path)
    # What it takes away again is all of it.
    (tmp_path / "a.md").unlink()
    said = await both(desk, tmp_path, prune=True)
    assert said["counts"]["deleted"] == 6
    assert done(said) == {id: ["deleted"] for id in ("hb", "hb0", "hb1", "hb1-0", "hb1-1", "hb2")}
    assert await desk.children("exp") == ["alone"]


async def test_a_dry_run_sees_what_would_be_deleted_of_what_comes(desk: Desk, tmp_path: Path) -> None:
    await handbook(desk)
    await desk.create("old", "exp")
    await desk.create("older", "old")
    write(
        tmp_path,
        {
            "a.md": '---\nid: "hb"\n---\nx',
            "a/1.md": '---\nid: "hb1"\n---\nx',
            "a/2.md": '---\nid: "hb0"\n---\nx',
            "b.md": '---\nid: "hb2"\n---\nx',
            "c.md": '---\nid: "older"\n---\nx',
        },
    )
    said = await both(desk, tmp_path, prune=True)
    assert {id for id, what in done(said).items() if what == ["deleted"]} == {"hb1-0", "hb1-1", "old"}
    assert {id for id, what in done(said).items() if "moved" in what} == {"hb", "hb1", "hb2", "older"}
    assert "'hb' with 5 documents below it, 'hb2'." in said["notes"][0]
    assert (await desk.children("exp"), await desk.children("hb")) == (["hb", "hb2", "older"], ["hb1", "hb0"])


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_what_comes_back_may_be_deleted_again(desk: Desk, tmp_path: Path, elsewhere: bool) -> None:
    await handbook(desk)
    if not elsewhere:
        await desk.move("hb", "exp")
    await desk.delete("hb2")
    await desk.delete("hb")
    write(tmp_path, {"a.md": '---\nid: "hb"\n---\nx'})
    said = await both(desk, tmp_path, prune=True)
    assert done(said).pop("hb") == ["restored", *(["moved"] if elsewhere else []), "updated"]
    assert said["counts"]["deleted"] == 4
    assert ("with 4 documents" in str(said.get("notes"))) is elsewhere


async def test_nothing_goes_below_itself(desk: Desk, tmp_path: Path) -> None:
    await desk.create("top")
    await desk.create("exp", "top")
    write(tmp_path, {"a.md": '---\nid: "top"\n---\nx', "b.md": '---\nid: "exp"\n---\nx', "c.md": "x"})
    for dry_run in (True, False):
        error = await refused(desk, "import", tmp_path, parent_id="exp", dry_run=dry_run)
        assert [one["path"] for one in error.details["failed"]] == ["a.md", "b.md"]
        assert {one["reason"] for one in error.details["failed"]} == {"A document cannot be moved below itself."}


async def test_a_long_note_is_cut(desk: Desk, tmp_path: Path) -> None:
    await desk.create("exp")
    for number in range(MAX_NAMED + 2):
        await desk.create(f"d{number}")
        write(tmp_path, {f"{number}.md": f'---\nid: "d{number}"\n---\nx'})
    assert (await both(desk, tmp_path))["notes"][0].endswith(f"'d{MAX_NAMED - 1}', 2 more.")


def test_as_many_as_possible_stay() -> None:
    now = "abcde"
    for wanted in permutations(now):
        for number in range(len(now)):
            for placed in combinations(now, number):
                rising = [run for size in range(1, 6) for run in combinations(wanted, size) if list(run) == sorted(run)]
                best = max((len({*run} - {*placed}), len(run)) for run in rising)
                found = staying(wanted, now, {*placed})
                assert [id for id in wanted if id in found] == sorted(found)
                assert (len(found - {*placed}), len(found)) == best
    assert staying([], [], set()) == set()
