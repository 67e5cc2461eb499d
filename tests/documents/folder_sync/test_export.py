"""Exporting to a folder that holds something already: an earlier export, or the work of people."""

import os
from pathlib import Path

import pytest
from tests.documents.document_harness import Desk
from tests.documents.folders import files, grown, refused, run, write


async def test_an_export_follows_the_tree(desk: Desk, tmp_path: Path) -> None:
    await grown(desk)
    await run(desk, "export", tmp_path)
    again = await run(desk, "export", tmp_path)
    assert (again["written"], again["removed"]) == (0, 0)
    (tmp_path / "picture.png").write_bytes(b"mine")
    await desk.delete("z")
    await desk.update("b1", metadata={"title": "New name"})
    said = await run(desk, "export", tmp_path)
    left = files(tmp_path)
    assert "New-name.md" not in left  # a file keeps its name
    assert left.pop("picture.png") == b"mine"
    assert len(left) == said["documents"] == 6
    assert not any(place for place, _, _ in os.walk(tmp_path) if place != str(tmp_path))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("A.md", "changed by hand"),
        ("J.json.yaml", 'id: "j"\ntitle: "Other"\n'),
        ("J.json", "[3]"),
        ("New.md", "put there by hand"),
        ("Gone.md", "changed by hand"),
    ],
)
async def test_what_people_changed_is_not_overwritten(desk: Desk, tmp_path: Path, name: str, text: str) -> None:
    await desk.create("a", metadata={"title": "A"})
    await desk.create("j", body="[1]", mime_type="application/json", metadata={"title": "J"})
    await desk.create("gone", metadata={"title": "Gone"})
    await run(desk, "export", tmp_path)
    await desk.create("new", metadata={"title": "New"})
    await desk.delete("gone")
    write(tmp_path, {name: text})
    before = files(tmp_path)
    error = await refused(desk, "export", tmp_path)
    assert (error.code, len(error.details["files"])) == ("CONFLICT", 1)
    assert files(tmp_path) == before
    await run(desk, "export", tmp_path, overwrite=True)
    assert {*files(tmp_path)} == {"A.md", "J.json", "J.json.yaml", "New.md"}


async def test_what_was_changed_and_imported_is_written_over(desk: Desk, tmp_path: Path) -> None:
    await desk.create("j", body="[1]", mime_type="application/json", metadata={"title": "J"})
    await run(desk, "export", tmp_path)
    write(tmp_path, {"J.json": "[2]", "J.json.yaml": 'id: "j"\ntitle: "J"\ntags: ["t"]\n', "plain.md": "# Plain\n"})
    assert (await run(desk, "import", tmp_path))["counts"]["updated"] == 1
    said = await run(desk, "export", tmp_path)
    assert said["written"] == 2  # the JSON itself is as it was
    assert {*files(tmp_path)} == {"J.json", "J.json.yaml", "plain.md"}
    assert (await run(desk, "import", tmp_path))["changes"] == []


async def test_files_may_be_given_other_names_and_documents_other_places(desk: Desk, tmp_path: Path) -> None:
    write(tmp_path, {"notes/today.md": "# Hôm nay\n"})
    await run(desk, "import", tmp_path)
    await desk.create("a", metadata={"title": "A"})
    await desk.create("b", "a", mime_type="application/json", body="[]", metadata={"title": "B"})
    await run(desk, "export", tmp_path)
    (tmp_path / "A.md").rename(tmp_path / "first.md")
    (tmp_path / "A").rename(tmp_path / "first")
    assert (await run(desk, "import", tmp_path))["changes"] == []
    await desk.move("notes/today", "a")
    await desk.move("b", "root")
    await run(desk, "export", tmp_path)
    assert {*files(tmp_path)} == {"notes.md", "first.md", "first/today.md", "B.json", "B.json.yaml"}
    assert (await run(desk, "import", tmp_path))["changes"] == []


async def test_nothing_outside_the_folder_is_touched(desk: Desk, tmp_path: Path) -> None:
    folder, outside = tmp_path / "in", tmp_path / "out"
    outside.mkdir()
    write(outside, {"x.md": "mine"})
    await desk.create("a", metadata={"title": "A"})
    await desk.create("b", "a", metadata={"title": "B"})
    await run(desk, "export", folder)
    (folder / ".kho-export.json").write_text(f'{{"../out/x.md": "", "{outside}/x.md": "", "A/B.md": ""}}')
    await run(desk, "export", folder, overwrite=True)
    assert files(outside) == {"x.md": b"mine"}
    (folder / "A" / "B.md").unlink()
    (folder / "A").rmdir()
    (folder / "A").symlink_to(outside)
    assert (await refused(desk, "export", folder)).details["files"] == ["A/B.md"]
    assert files(outside) == {"x.md": b"mine"}


@pytest.mark.parametrize("imported", [True, False])
async def test_a_file_without_an_id_that_was_renamed_stays_the_documents(
    desk: Desk, tmp_path: Path, imported: bool
) -> None:
    await desk.create("exp")
    write(tmp_path, {"a.md": "# Alpha", "b.md": "# Beta", "c.txt": "Gamma"})
    await run(desk, "import", tmp_path, parent_id="exp")
    (tmp_path / "a.md").rename(tmp_path / "z.md")
    (tmp_path / "c.txt").rename(tmp_path / "y.txt")
    if imported:
        assert (await run(desk, "import", tmp_path, parent_id="exp"))["counts"]["renamed"] == 2
    await run(desk, "export", tmp_path, parent_id="exp")
    assert {*files(tmp_path)} == {"b.md", "y.txt", "z.md"}
    assert b'id: "exp/a"' in files(tmp_path)["z.md"]
    assert (await run(desk, "import", tmp_path, parent_id="exp"))["changes"] == []
    assert {*await desk.children("exp")} == {"exp/a", "exp/b", "exp/c.txt"}


async def test_a_known_file_that_another_document_claims_is_the_others(desk: Desk, tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "# Alpha"})
    await run(desk, "import", tmp_path)
    await desk.create("other", body="Other.", metadata={"title": "Other"})
    write(tmp_path, {"a.md": '---\nid: "other"\ntitle: "Other"\n---\nOther.'})
    await run(desk, "export", tmp_path)
    left = files(tmp_path)
    assert {*left} == {"a.md", "Alpha.md"}
    assert (b'id: "other"' in left["a.md"], b'id: "a"' in left["Alpha.md"]) == (True, True)


async def test_a_file_that_names_its_document_comes_before_one_that_is_known(desk: Desk, tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "# Alpha"})
    await run(desk, "import", tmp_path)
    write(tmp_path, {"copy.md": '---\nid: "a"\ntitle: "Alpha"\n---\n# Alpha'})
    await run(desk, "export", tmp_path)
    assert {*files(tmp_path)} == {"copy.md"}
    assert (await run(desk, "import", tmp_path))["changes"] == []
