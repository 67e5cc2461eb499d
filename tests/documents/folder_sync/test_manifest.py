"""What an import knows of a folder from the last time: files that are gone, and files that were only renamed."""

import asyncio
from dataclasses import replace
from pathlib import Path

from tests.documents.desk import Desk, Json
from tests.documents.folders import refused, run, write

from kho.documents.deletion import Deletions
from kho.documents.folder_sync import manifest
from kho.documents.purge import Purge, PurgeDocument
from kho.search.indexing.index import Index


def done(said: Json) -> dict[str, list[str]]:
    return {one["path"]: one["done"] for one in said["changes"]}


async def test_documents_whose_files_are_gone_are_named(desk: Desk, tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "# A", "notes/b.md": "# B", "c.md": "# C"})
    await desk.create("other", body="never came from the folder")
    assert "gone" not in await run(desk, "import", tmp_path)
    (tmp_path / "a.md").unlink()
    (tmp_path / "notes" / "b.md").unlink()
    for more in ({"dry_run": True}, {}, {}):  # as long as they are there
        said = await run(desk, "import", tmp_path, **more)
        assert said["changes"] == []
        assert said["gone"] == [
            {"path": "a.md", "document_id": "a"},
            {"path": "notes/", "document_id": "notes"},
            {"path": "notes/b.md", "document_id": "notes/b"},
        ]
    await desk.delete("a")
    assert [one["document_id"] for one in (await run(desk, "import", tmp_path))["gone"]] == ["notes", "notes/b"]
    assert "gone" not in await run(desk, "import", tmp_path, dry_run=True, prune=True)
    assert "gone" not in await run(desk, "import", tmp_path, prune=True)
    assert await desk.children() == ["c"]


async def test_a_file_that_an_export_wrote_is_missed_as_well(desk: Desk, tmp_path: Path) -> None:
    await desk.create("a", metadata={"title": "A"})
    await desk.create("b", metadata={"title": "B"})
    await run(desk, "export", tmp_path)
    (tmp_path / "A.md").unlink()
    (tmp_path / "B.md").rename(tmp_path / "other name.md")
    said = await run(desk, "import", tmp_path)
    assert (said["gone"], said["changes"]) == ([{"path": "A.md", "document_id": "a"}], [])


async def test_folders_parents_and_tenants_are_told_apart(desk: Desk, tmp_path: Path) -> None:
    other = desk.neighbour()
    await desk.create("shelf")
    write(tmp_path, {"one/a.md": "# A", "two/b.md": "# B"})
    await run(desk, "import", tmp_path / "one")
    await run(desk, "import", tmp_path / "one", parent_id="shelf")
    await run(other, "import", tmp_path / "one")
    assert "gone" not in await run(desk, "import", tmp_path / "two")
    (tmp_path / "one" / "a.md").unlink()
    # However the folder is written, it is the same.
    said = await run(desk, "import", tmp_path / "two" / ".." / "one", parent_id="shelf")
    assert said["gone"] == [{"path": "a.md", "document_id": "shelf/a"}]


async def test_a_renamed_file_is_the_same_document(desk: Desk, tmp_path: Path) -> None:
    write(tmp_path, {"kettle.md": "# Bình đun\n", "notes/tea.md": "Trà xanh.\n", "same.md": "x", "twin.md": "x"})
    await run(desk, "import", tmp_path)
    (tmp_path / "kettle.md").rename(tmp_path / "bình đun.md")
    (tmp_path / "more").mkdir()
    (tmp_path / "notes" / "tea.md").rename(tmp_path / "more" / "茶.md")
    told = await run(desk, "import", tmp_path, dry_run=True)
    said = await run(desk, "import", tmp_path)
    assert (told["changes"], told["gone"]) == (said["changes"], said["gone"])
    assert said["counts"]["renamed"] == 2
    changed = done(said)
    assert changed["bình đun.md"][0] == "renamed"
    assert changed["more/茶.md"] == ["renamed", "moved"]
    assert said["gone"] == [{"path": "notes/", "document_id": "notes"}]
    assert (await desk.get("kettle"))["revision"] == 1
    assert await desk.children("more") == ["notes/tea"]
    # It stays that document, also when the file changes and the old name is taken by another.
    write(tmp_path, {"bình đun.md": "# Bình đun\n\nMới.", "kettle.md": "# Another kettle\n"})
    changed = done(await run(desk, "import", tmp_path))
    assert (changed["bình đun.md"], changed["kettle.md"]) == (["updated"], ["created"])
    assert (await desk.get("kettle"))["content"]["body"] == "# Bình đun\n\nMới."
    assert (await run(desk, "import", tmp_path))["changes"] == []


async def test_what_could_be_several_is_no_rename(desk: Desk, tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "x", "b.md": "x", "c.md": "y", "d.md": "z"})
    await run(desk, "import", tmp_path)
    for name in "abcd":
        (tmp_path / f"{name}.md").unlink()
    await desk.delete("d")
    write(tmp_path, {"e.md": "x", "f.md": "y", "g.md": "y", "h.md": "z", "i.md": '---\nid: "i"\n---\nx'})
    said = await run(desk, "import", tmp_path)
    assert {*map(tuple, done(said).values())} == {("created",)}
    assert [one["document_id"] for one in said["gone"]] == ["a", "b", "c"]


async def test_a_file_whose_id_went_missing_is_still_known(desk: Desk, tmp_path: Path) -> None:
    write(tmp_path, {"a.md": '---\nid: "x"\n---\nOne.'})
    await run(desk, "import", tmp_path)
    write(tmp_path, {"a.md": "Two."})
    assert done(await run(desk, "import", tmp_path)) == {"a.md": ["updated"]}
    assert (await desk.get("x"))["content"]["body"] == "Two."


async def test_a_document_whose_file_became_another_is_named(desk: Desk, tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "One.", "b.md": "Two."})
    await run(desk, "import", tmp_path)
    write(tmp_path, {"a.md": '---\nid: "z"\n---\nOne.', "b.md": '---\nid: "no id"\n---\nTwo.'})
    error = await refused(desk, "import", tmp_path)
    assert error.details["gone"] == [{"path": "a.md", "document_id": "a"}]  # and b's file may yet be mended
    assert await desk.children() == ["a", "b", "z"]
    write(tmp_path, {"b.md": "Two."})
    assert (await run(desk, "import", tmp_path, prune=True))["counts"]["deleted"] == 1
    assert {*await desk.children()} == {"b", "z"}


async def test_a_file_whose_name_was_given_to_another_document_is_known_again(desk: Desk, tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "One."})
    await run(desk, "import", tmp_path)
    write(tmp_path, {"a.md": '---\nid: "z"\n---\nAnother.', "moved.md": "One."})
    said = await run(desk, "import", tmp_path)
    assert done(said) == {"a.md": ["created"], "moved.md": ["renamed"]}
    assert "gone" not in said


async def known(desk: Desk) -> set[str]:
    """The names of the folders of which something is known."""
    tables = await desk.dump(["document_files", "document_folders"])
    files, folders = ({Path(row[1]).name for row in rows} for rows in tables.values())
    assert files == folders
    return folders


async def test_folders_that_are_not_used_any_more_are_forgotten(desk: Desk, tmp_path: Path) -> None:
    desk = replace(desk, max_folders=3)
    other = desk.neighbour()
    await other.create("theirs")
    await run(other, "export", tmp_path / "theirs")
    await desk.create("a", metadata={"title": "A"})
    for name in "abc":
        await run(desk, "export", tmp_path / name)
    await run(desk, "import", tmp_path / "a")  # changes nothing, and is a use
    await run(desk, "import", tmp_path / "b", dry_run=True)
    await run(desk, "export", tmp_path / "d")
    assert await known(desk) == {"a", "c", "d"}
    (tmp_path / "d").rename(tmp_path / "e")  # what is no longer there is forgotten first
    await run(desk, "export", tmp_path / "b")
    assert await known(desk) == {"a", "b", "c"}
    assert await known(other) == {"theirs"}


async def test_a_folder_may_be_used_twice_at_once(desk: Desk) -> None:
    here = manifest.KnownFolder(desk.tenant, "/folder", "root")
    all_files = [{f"{number}.md": f"{number}-{of}" for number in range(200)} for of in range(8)]
    await asyncio.gather(*(manifest.keep(desk.db, here, files, 20) for files in all_files))
    assert await desk.db.read(here.files) in all_files


async def test_what_cannot_be_read_is_not_gone(desk: Desk, tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "a", "a/below.md": "below", "b.md": "b"})
    await run(desk, "import", tmp_path)
    write(tmp_path, {"a.md": "---\nx: [\n---\n", "c.md": "c"})
    (tmp_path / "b.md").unlink()
    error = await refused(desk, "import", tmp_path)
    assert [one["path"] for one in error.details["failed"]] == ["a.md", "a/below.md"]
    assert error.details["gone"] == [{"path": "b.md", "document_id": "b"}]
    write(tmp_path, {"a.md": "a"})
    assert [one["document_id"] for one in (await run(desk, "import", tmp_path))["gone"]] == ["b"]


async def test_a_purge_forgets_the_names_of_files(desk: Desk, tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "a", "b.md": "b"})
    await run(desk, "import", tmp_path)
    await desk.delete("a")
    index = Index(desk.words, None, "", desk.clock)
    deletions = Deletions(db=desk.db, index=index, background=desk.background, clock=desk.clock)
    await Purge(db=desk.db, deletions=deletions, clock=desk.clock).purge(PurgeDocument(document_id="a"), desk.call())
    assert [row[3:] for row in (await desk.dump(["document_files"]))["document_files"]] == [("b.md", "b")]


async def test_a_bad_file_does_not_hide_what_was_done(desk: Desk, tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "# A", "b.md": "# B"})
    await run(desk, "import", tmp_path)
    write(tmp_path, {"a.md": "# A\n\nmore", "bad.md": "", "c.md": "# C"})
    error = await refused(desk, "import", tmp_path)
    assert error.details["counts"] == {"created": 1, "updated": 1, "unchanged": 1}
    assert error.details["changes"] == [
        {"path": "a.md", "document_id": "a", "done": ["updated"]},
        {"path": "c.md", "document_id": "c", "done": ["created"]},
    ]
    assert [one["path"] for one in error.details["failed"]] == ["bad.md"]
