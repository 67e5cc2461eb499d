"""The tree as a folder and back: nothing is lost, nothing is done twice, and one bad file harms no other."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.documents.document_harness import Desk
from tests.documents.folders import ask, files, grown, refused, run, tree, write

from kho.documents.folder_sync.layout import scan
from kho.kernel.call import Call, Principal


async def test_a_tree_comes_back_as_it_was(desk: Desk, tmp_path: Path) -> None:
    await grown(desk)
    before = await tree(desk)
    said = await run(desk, "export", tmp_path / "out")
    assert (said["documents"], said["removed"]) == (len(before), 0)
    other = desk.neighbour()
    said = await run(other, "import", tmp_path / "out")
    assert said["counts"]["created"] == len(before) == len(said["changes"])
    assert await tree(other) == before
    assert (await run(other, "import", tmp_path / "out"))["counts"]["unchanged"] == len(before)
    await run(other, "export", tmp_path / "again")
    assert files(tmp_path / "again") == files(tmp_path / "out")


async def test_importing_what_is_there_changes_nothing(desk: Desk, tmp_path: Path) -> None:
    await grown(desk)
    await run(desk, "export", tmp_path)
    before = await desk.dump()
    for more in ({}, {"prune": True}, {"dry_run": True}):
        said = await run(desk, "import", tmp_path, **more)
        assert said["changes"] == []
    assert await desk.dump() == before


async def test_the_store_becomes_what_the_folder_says(desk: Desk, tmp_path: Path) -> None:
    await grown(desk)
    before = await tree(desk)
    await run(desk, "export", tmp_path)
    await desk.update("body-1", content={"body": "other"}, metadata={"title": "other"}, is_human_readable=False)
    await desk.move("a3", "root", ordering=1)
    await desk.move("z", "b1")
    await desk.move("b5", "root", ordering=0)
    await desk.delete("json")
    await desk.create("extra", "b2")
    told = await run(desk, "import", tmp_path, dry_run=True, prune=True)
    said = await run(desk, "import", tmp_path, prune=True)
    counts = said["counts"]
    assert counts == told["counts"]
    assert said["changes"] == told["changes"]
    assert (counts["updated"], counts["deleted"], counts["created"], counts["restored"]) == (1, 1, 0, 1)
    assert counts["moved"] == 3
    assert await tree(desk) == before
    assert (await desk.audited(document_id="extra"))[-1]["reason"] == "not in the imported folder"


async def test_a_part_of_the_tree(desk: Desk, tmp_path: Path) -> None:
    await grown(desk)
    await run(desk, "export", tmp_path, parent_id="text")
    other = desk.neighbour()
    await other.create("shelf")
    await run(other, "import", tmp_path, parent_id="shelf")
    assert await other.children() == ["shelf"]
    assert await other.children("shelf") == await desk.children("text")
    await desk.create("besides")
    assert (await run(desk, "import", tmp_path, parent_id="text", prune=True))["counts"]["deleted"] == 0
    for name in ("export", "import"):
        assert (await refused(desk, name, tmp_path, parent_id="nobody")).code == "NOT_FOUND"


async def test_a_deep_tree_fits_the_file_system(desk: Desk, tmp_path: Path) -> None:
    parent = "root"
    for depth in range(100):
        await desk.create(f"d{depth}", parent, "x", metadata={"title": "Một tên rất dài " * 10})
        parent = f"d{depth}"
    await run(desk, "export", tmp_path)
    other = desk.neighbour()
    await run(other, "import", tmp_path)
    assert await tree(other) == await tree(desk)


# -- files that people wrote -------------------------------------------------------------------------------------------


async def test_plain_files_become_documents(desk: Desk, tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "intro.md": "Before.\n\n## Xin chào ##\n\nText.",
            "intro/2-second.md": "second",
            "intro/10-tenth.md": "tenth",
            "notes/todo.txt": "# no heading in a text",
            "Lộ trình.md": "---\ntags: ops, pf\nauthor: An\ndate: 2024-05-06\nid:\n---\nbody",
            "data.json": '{"a": 1}',
            "picture.png": "",
            "empty folder/picture.png": "",
            ".git/config.md": "hidden",
            "intro/README.markdown": "with a long ending",
        },
    )
    said = await run(desk, "import", tmp_path)
    assert (said["counts"]["created"], said["counts"]["ignored"]) == (8, 2)
    by_path = {one["path"]: one["document_id"] for one in said["changes"]}
    assert by_path["intro/10-tenth.md"] == "intro/10-tenth"
    assert by_path["Lộ trình.md"].startswith("Lo-trinh-")
    assert await desk.children("intro") == ["intro/2-second", "intro/10-tenth", "intro/README.markdown"]
    assert (await desk.get("intro"))["metadata"] == {"title": "Xin chào"}
    assert (await desk.get("notes/todo.txt"))["metadata"] == {"title": "todo"}
    assert (await desk.get("notes"))["content"]["body"] == "# notes\n"
    assert (await desk.get("data.json"))["content"]["mime_type"] == "application/json"
    route = await desk.get(by_path["Lộ trình.md"])
    assert route["content"]["body"] == "body"
    assert route["metadata"] == {"title": "Lộ trình", "tags": ["ops", "pf"], "author": "An", "date": "2024-05-06"}
    assert (await run(desk, "import", tmp_path))["changes"] == []


async def test_what_a_plain_file_does_not_say_stays(desk: Desk, tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "# A\n"})
    await run(desk, "import", tmp_path)
    await desk.update("a", metadata={"title": "Better", "tags": ["x"]}, is_human_readable=False)
    write(tmp_path, {"a.md": "# A\n\nmore"})
    assert (await run(desk, "import", tmp_path))["counts"]["updated"] == 1
    found = await desk.get("a")
    assert (found["metadata"], found["is_human_readable"]) == ({"title": "Better", "tags": ["x"]}, False)
    assert found["content"]["body"] == "# A\n\nmore"


async def test_ids_of_paths_below_a_document_are_its_own(desk: Desk, tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "# A", "root.md": "# R"})
    await desk.create("a", body="another one")
    await desk.create("shelf")
    await run(desk, "import", tmp_path, parent_id="shelf")
    assert await desk.children("shelf") == ["shelf/a", "shelf/root"]
    assert (await desk.get("a"))["content"]["body"] == "another one"
    said = await run(desk, "import", tmp_path)
    assert [one["done"] for one in said["changes"]] == [["updated"], ["created"]]


async def test_one_bad_file_harms_no_other(desk: Desk, tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "good.md": "good",
            "blank.md": " \n",
            "yaml.md": "---\na: [\n---\nx",
            "alias.md": "---\na: &x [1]\nb: *x\n---\nx",
            "tagged.md": "---\na: !!seq x\n---\nx",
            "deep.md": f"---\na: {'[' * 5000}\n---\nx",
            "id.md": "---\nid: no spaces please\n---\nx",
            "number.md": "---\nid: 5\n---\nx",
            "twice.md": '---\nid: "good"\n---\nx',
            "line.md": f"---\na: {'[' * 1000}{']' * 1000}\n---\nx",
            "toml.md": f"+++\n{'.'.join('a' * 600)} = 1\n+++\nx",
            "json.json": "{",
            "json.json.yaml": "- a",
            "tags.md": "---\ntags: {a: 1}\n---\nx",
            "time.md": '---\ncreated_at: "soon"\n---\nx',
            "nul.md": "a\0b",
            "yaml/child.md": "orphan",
            "blank/child.md": "orphan",
        },
    )
    (tmp_path / "latin.md").write_bytes("é".encode("latin-1"))
    (tmp_path / "link.md").symlink_to(tmp_path / "good.md")
    (tmp_path / "loop").symlink_to(tmp_path)
    await desk.create("extra")
    error = await refused(desk, "import", tmp_path, prune=True)
    assert error.code == "INVALID_ARGUMENT"
    reasons = {one["path"]: one["reason"] for one in error.details["failed"]}
    assert {path: reason.split(":")[0] for path, reason in reasons.items()} == {
        "alias.md": "The front matter repeats parts of itself ('*name'); write them out.",
        "blank.md": "The text must not be empty.",
        "blank/child.md": "The document above it could not be imported.",
        "deep.md": "The front matter is nested too deeply.",
        "id.md": "'document_id'",
        "json.json": "The .yaml file beside it does not hold names and values.",
        "latin.md": "The file is not UTF-8 (byte 0).",
        "line.md": "The front matter is nested too deeply.",
        "link.md": "It is a link; links are not followed.",
        "loop": "It is a link; links are not followed.",
        "nul.md": "Text must not contain the NUL character.",
        "number.md": "'id' must be a text.",
        "tagged.md": "The front matter holds something that is neither text, number, list nor names and values.",
        "tags.md": "'metadata'",
        "time.md": "'created_at'",
        "toml.md": "The front matter is nested too deeply.",
        "twice.md": "It has the same id as 'good.md'",
        "yaml.md": "The front matter is not YAML",
        "yaml/child.md": "The document above it could not be imported.",
    }
    assert await desk.children() == ["extra", "good"]
    assert error.details["counts"]["created"] == 1
    assert "Nothing was deleted" in error.details["notes"][0]


@pytest.mark.skipif(sys.platform == "darwin", reason="its file systems only take UTF-8")
async def test_a_name_that_is_no_text_is_reported(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff.md")).write_bytes(b"x")
    error = await refused(desk, "import", tmp_path)
    assert error.details["failed"] == [{"path": "\ufffd.md", "reason": "Its name is not UTF-8."}]


def test_folders_deeper_than_a_tree_are_reported(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["d"] * 120)
    deep.mkdir(parents=True)
    (deep / "x.md").write_text("x")
    found = scan(tmp_path, "root")
    assert (found.found, [one.reason for one in found.failed]) == (
        [],
        ["It is too deep: a tree has at most 100 levels."],
    )


# -- who and where -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["export", "import"])
async def test_only_this_machines_user(desk: Desk, tmp_path: Path, name: str) -> None:
    principal = replace(desk.call().principal, kind="key")
    for caller in (principal, Principal("x", desk.tenant, frozenset())):
        outcome = await ask(desk, name, tmp_path, Call(caller))
        assert outcome.error is not None
        assert (outcome.error.code, outcome.error.status) == ("FORBIDDEN", 403)


async def test_folders_that_are_none(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for name in ("export", "import"):
        error = await refused(desk, name, tmp_path / "file")
        assert error.details["field"] == "directory"
    assert "No such file" in (await refused(desk, "import", tmp_path / "nowhere")).message
    assert "No such file" not in (await refused(desk, "export", tmp_path / "file" / "below")).message
    await desk.create("a")
    (tmp_path / "empty").mkdir()
    assert "holds no documents" in (await refused(desk, "import", tmp_path / "empty", prune=True)).message
    assert await desk.children() == ["a"]


async def test_progress_is_told(desk: Desk, tmp_path: Path) -> None:
    await desk.create("a")
    told: list[tuple[float, float | None, str | None]] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        told.append((done, total, message))

    for name in ("export", "import"):
        await ask(desk, name, tmp_path, desk.call(progress=progress))
    assert told == [(1, 1, "Exporting"), (1, 1, "a.md")]


async def test_other_tenants_are_not_in_it(desk: Desk, tmp_path: Path) -> None:
    other = desk.neighbour()
    await other.create("a", body="theirs")
    await desk.create("b", body="ours")
    await run(desk, "export", tmp_path)
    assert {*files(tmp_path)} == {"b.md"}
    assert (await refused(desk, "export", tmp_path, parent_id="a")).code == "NOT_FOUND"
    write(tmp_path, {"a.md": '---\nid: "a"\n---\nours'})
    await run(desk, "import", tmp_path, prune=True)
    assert (await other.get("a"))["content"]["body"] == "theirs"
