"""What an import knows of a folder from the last time: files that are gone, and files that were only renamed."""

import asyncio
from pathlib import Path

import orjson
import pytest
from tests.documents.document_harness import Desk, Json
from tests.documents.folders import files, refused, run, write

from kho.documents.deletion import Deletions
from kho.documents.folder_sync import manifest
from kho.documents.folder_sync.manifest import Manifest
from kho.documents.purge import Purge, PurgeDocument
from kho.lib.sql import delete, insert_many
from kho.search.indexing.index import Index


def done(said: Json) -> dict[str, list[str]]:
    return {one["path"]: one["done"] for one in said["changes"]}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file())


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


async def test_the_memory_of_a_folder_goes_where_the_folder_goes(desk: Desk, tmp_path: Path) -> None:
    write(tmp_path, {"here/kettle.md": "# Bình đun\n", "here/b.md": "b"})
    await run(desk, "import", tmp_path / "here")
    (tmp_path / "here" / "kettle.md").rename(tmp_path / "here" / "bình đun.md")
    (tmp_path / "here").rename(tmp_path / "there")
    assert done(await run(desk, "import", tmp_path / "there")) == {"bình đun.md": ["renamed"]}
    (tmp_path / "there" / "b.md").unlink()
    assert (await run(desk, "import", tmp_path / "there"))["gone"] == [{"path": "b.md", "document_id": "b"}]
    assert await desk.dump(["document_files"]) == {"document_files": []}


async def test_what_earlier_versions_kept_in_the_store_is_known(desk: Desk, tmp_path: Path) -> None:
    await desk.create("kettle", body="# Bình đun\n")
    await desk.create("lost", body="x")
    rows = [
        {"tenant": desk.tenant, "folder": str(tmp_path), "parent": "root", "path": path, "id": id}
        for path, id in {"bình đun.md": "kettle", "lost.md": "lost"}.items()
    ]
    await desk.db.write(lambda tx: insert_many(tx, "document_files", rows))
    write(tmp_path, {"bình đun.md": "# Bình đun\n\nMới."})
    said = await run(desk, "import", tmp_path)
    assert (done(said), said["gone"]) == ({"bình đun.md": ["updated"]}, [{"path": "lost.md", "document_id": "lost"}])
    await desk.db.write(lambda tx: delete(tx, "document_files", tenant=desk.tenant))
    assert [one["path"] for one in (await run(desk, "import", tmp_path))["gone"]] == ["lost.md"]


async def test_the_list_of_an_earlier_export_is_known(desk: Desk, tmp_path: Path) -> None:
    await desk.create("a", metadata={"title": "A"})
    await desk.create("b", metadata={"title": "B"})
    await run(desk, "export", tmp_path)
    file = tmp_path / manifest.NAME
    file.write_bytes(orjson.dumps(orjson.loads(file.read_bytes())["written"]))  # as it was written then
    await desk.delete("b")
    await desk.update("a", metadata={"title": "A", "more": 1})
    said = await run(desk, "export", tmp_path)
    assert (said["written"], said["removed"], [*files(tmp_path)]) == (1, 1, ["A.md"])


@pytest.mark.parametrize("text", ["", "[]", "null", '{"written": 5}', '{"documents": {"x": [1]}}', '{"a": {"b": 1}}'])
async def test_a_manifest_that_cannot_be_read_is_none(desk: Desk, tmp_path: Path, text: str) -> None:
    write(tmp_path, {manifest.NAME: text, "a.md": "a"})
    assert done(await run(desk, "import", tmp_path)) == {"a.md": ["created"]}
    await run(desk, "export", tmp_path)
    assert [*orjson.loads((tmp_path / manifest.NAME).read_bytes())["written"]] == ["a.md"]


async def test_a_folder_that_cannot_be_written_is_imported_all_the_same(desk: Desk, tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "a"})
    (tmp_path / manifest.NAME).mkdir()  # whoever runs the tests may write everywhere else
    assert done(await run(desk, "import", tmp_path)) == {"a.md": ["created"]}
    assert (await run(desk, "import", tmp_path))["changes"] == []
    assert names(tmp_path) == ["a.md"]


async def test_a_folder_may_be_used_twice_at_once(desk: Desk, tmp_path: Path) -> None:
    kept = [Manifest(written={f"{number}.md": str(of) for number in range(200)}) for of in range(8)]
    await asyncio.gather(*(asyncio.to_thread(one.save, tmp_path) for one in kept))
    assert Manifest.of(tmp_path) in kept
    assert names(tmp_path) == [manifest.NAME]


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
    rows = [{"tenant": desk.tenant, "folder": "/f", "parent": "root", "path": f"{id}.md", "id": id} for id in "ab"]
    await desk.db.write(lambda tx: insert_many(tx, "document_files", rows))
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
