"""`kho docs …`: every operation from the command line, in processes of their own and in this one."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.doors.command_line import program_of, run_in_process
from tests.doors.doors import Finished, kho

from kho.settings import Settings

Docs = Callable[..., Finished]


@pytest.fixture
def docs(tmp_path: Path) -> Docs:
    settings = Settings(home=tmp_path / "home", database_url=None)

    def run(*arguments: str, stdin: bytes = b"") -> Finished:
        return run_in_process(program_of(settings), "docs", *arguments, stdin=stdin)

    return run


def told(done: Finished) -> Any:
    assert done.status == 0, done.err
    return json.loads(done.out)


def body(docs: Docs, id: str) -> str:
    return told(docs("get", id, "--json"))["content"]["body"]


async def test_a_document_s_life_in_processes(tmp_path: Path) -> None:
    home, file = tmp_path / "home", tmp_path / "x.md"
    file.write_bytes("# Mật khẩu\r\n\nWifi: hoa hồng.\n".encode())

    async def run(*arguments: str, stdin: bytes = b"") -> Finished:
        return await kho(home, "docs", *arguments, stdin=stdin)

    made = await run("create", "wifi", "--title", "Wifi", "--tag", "ops", "--tag", "pf", "--from-file", str(file))
    assert (made.status, made.out) == (0, "`wifi` is created: revision 1, below the top.\n")
    piped = told(await run("create", "piped", "--json", stdin=b"piped\n"))
    assert (piped["document_id"], piped["revision"]) == ("piped", 1)
    assert told(await run("get", "wifi", "--json"))["content"]["body"] == file.read_bytes().decode()
    stale = await run("update", "wifi", "--body", "x", "--revision", "7", "--json")
    assert stale.status == 1
    assert json.loads(stale.out)["error"]["details"]["actual_revision"] == 1
    edited = await run("edit", "wifi", "--old", "hoa hồng", "--new", "hoa sen", "--revision", "1")
    assert edited.out == "`wifi` is updated: revision 2, below the top.\n"
    answer = told(await run("query", "mat", "khau", "wifi", "--tag", "pf", "--json"))
    assert [one["document_id"] for one in answer["context"]] == ["wifi"]
    missing = await run("get", "nobody")
    assert (missing.status, missing.out) == (1, "")
    assert "NOT_FOUND" in missing.err
    assert "`kho docs list`" in missing.err
    assert (await run("get")).status == 1
    out = await run("export", str(tmp_path / "out"), "--json")
    assert told(out)["documents"] == 2
    assert told(await run("import", str(tmp_path / "out"), "--json"))["counts"]["unchanged"] == 2


def test_the_parts_of_a_change(docs: Docs) -> None:
    metadata = '{"source": "cursor", "tags": ["x"]}'
    assert docs("create", "a", "--body", "A", "--metadata", metadata, "--title", "A", "--no-human-readable").status == 0
    assert docs("update", "a", "--title", "B").status == 0
    found = told(docs("get", "a", "--json"))
    assert found["metadata"] == {"source": "cursor", "tags": ["x"], "title": "B"}
    assert (found["is_human_readable"], found["revision"]) == (False, 2)
    assert docs("update", "a", "--metadata", "{}", "--tag", "y,z", "--human-readable").status == 0
    found = told(docs("get", "a", "--json"))
    assert (found["metadata"], found["is_human_readable"]) == ({"tags": ["y", "z"]}, True)
    assert docs("update", "a", "--from-file", "-", stdin=b"piped").status == 0
    assert body(docs, "a") == "piped"
    nothing = docs("update", "a")
    flags = "`--mime-type`, `--body`, `--metadata`, `--title`, `--tag`, `--human-readable` or `--from-file`"
    assert nothing.err.startswith(f"error: Invalid parameters: {flags} is required (INVALID_ARGUMENT)\n")
    assert (nothing.status, nothing.out) == (1, "")
    whole = {"patch": {"metadata": {"title": "C"}}, "update_mask": ["metadata"]}
    assert docs("update", "a", "--params", "-", stdin=json.dumps(whole).encode()).status == 0
    assert told(docs("get", "a", "--json"))["metadata"] == {"title": "C"}


def test_what_is_wrong_is_said_in_what_was_typed(docs: Docs) -> None:
    docs("create", "a", "--body", "one one")
    assert docs("edit", "a", "--old", "one", "--new", "x").err.startswith("error: `--old` occurs 2 times")
    assert docs("edit", "a", "--old", "nothing", "--new", "x").err.splitlines()[1:] == [
        "  occurrences: 0",
        "  Copy the text as it stands in the document, with enough around it to occur only once.",
    ]
    assert "`--new` is required" in docs("edit", "a", "--old", "nothing").err
    assert docs("move", "a", "root", "--before", "b").err.startswith("error: `--before` must be another document")
    assert "DOCUMENT-ID is required" in docs("edit", "--old", "a", "--new", "b").err
    assert json.loads(docs("edit", "a", "--old", "x", "--new", "y", "--json").out)["error"]["details"] == {
        "field": "old_text",
        "occurrences": 0,
    }


def test_the_tree(docs: Docs) -> None:
    for id, parent in (("a", "root"), ("b", "root"), ("c", "a"), ("d", "a")):
        assert docs("create", id, "--parent", parent, "--body", id).status == 0
    assert told(docs("move", "d", "a", "--before", "c", "--json"))["ordering"] == 0
    assert told(docs("move", "b", "root", "--ordering", "0", "--json"))["ordering"] == 0
    lines = docs("list", "--recursive").out.splitlines()
    assert [re.sub(r" \(.*", "", line) for line in lines] == ["- `b`", "- `a`", "  - `d`", "  - `c`"]
    cycle = docs("move", "a", "c")
    assert (cycle.status, "cannot be moved below itself" in cycle.err) == (1, True)
    gone = docs("delete", "a", "--reason", "retired")
    assert gone.out == "`a` is deleted: revision 1, below the top. With it: 2 documents below.\n"
    assert docs("list").out.count("- ") == 1
    assert "deleted" in docs("list", "--deleted").out
    assert told(docs("restore", "a", "--json"))["affected"] == 3
    later = docs("delete", "a", "--at", "2999-01-01T00:00:00Z")
    assert "`a` is to be deleted at 2999-01-01 00:00 " in later.out
    assert "retired" in docs("audit", "a").out


def test_what_was_before(docs: Docs) -> None:
    docs("create", "a", "--body", "one", "--title", "T")
    docs("update", "a", "--body", "two")
    assert "-one\n+two" in docs("diff", "a", "1").out
    assert docs("history", "a").out.count("| local |") == 2
    assert docs("revert", "a", "1").status == 0
    assert body(docs, "a") == "one"
    assert "one" in docs("get", "a", "--revision", "1").out
    many = told(docs("get-many", "a", "nobody", "--json"))
    assert (len(many["documents"]), many["missing"]) == (1, ["nobody"])


def test_questions(docs: Docs) -> None:
    docs("create", "shelf", "--body", "The shelf.")
    docs("create", "a", "--parent", "shelf", "--tag", "pf", "--body", "The kettle boils at ninety degrees.")
    docs("create", "b", "--body", "The kettle is red.")
    shown = docs("query", "kettle", "degrees", "--under", "shelf", "--tag", "pf").out
    assert "[1]" in shown
    assert "`a`" in shown
    assert "`b`" not in shown
    assert docs("query", "xylophone").out == "Nothing was found.\n"
    foreign = docs("query", "kettle", "--tenant-id", "another")
    assert (foreign.status, "FORBIDDEN" in foreign.err) == (1, True)
    assert docs("query", "kettle", "--max-latency-ms", "0").status == 1


def test_folders(docs: Docs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.md").write_text("# A\n")
    assert docs("import", "in", "--dry-run").out.startswith("It would be: 1 created.\n")
    assert docs("import", "in").out == "Done: 1 created.\n\n- created: `a` (`a.md`)\n"
    (tmp_path / "in" / "b.md").write_text("")
    (tmp_path / "in" / "c.md").write_text("# C\n")
    both = docs("import", "in")
    assert (both.status, both.out) == (1, "")
    assert "  changes: path: c.md; document_id: c; done: created\n" in both.err
    assert "  failed: path: b.md; reason: The text must not be empty.\n" in both.err
    (tmp_path / "in" / "c.md").unlink()
    broken = docs("import", "in", "--prune", "--json")
    assert broken.status == 1
    assert [one["path"] for one in json.loads(broken.out)["error"]["details"]["failed"]] == ["b.md"]
    (tmp_path / "in" / "b.md").write_text("# B\n")
    gone = docs("import", "in").out
    assert "1 document imported from this folder before, and the file is gone:\n\n- `c` (`c.md`)" in gone
    assert "`kho docs delete` deletes one; `--prune` deletes all" in gone
    docs("delete", "c")
    docs("delete", "b")
    assert "1 document in" in docs("export", "out").out
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [".kho-export.json", "A.md"]
    (tmp_path / "out" / "A.md").write_text("mine")
    refused = docs("export", "out")
    assert (refused.status, "`--overwrite`" in refused.err) == (1, True)
    docs("create", "extra", "--body", "x")
    (tmp_path / "in" / "b.md").unlink()
    assert "1 deleted" in docs("import", "in", "--prune").out
    assert docs("export", "/dev/null/x").status == 1


def test_what_could_not_be_imported_is_not_buried(docs: Docs, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(50):
        (folder / f"{number}.md").write_text(f"# {number}\n")
    (folder / "bad.md").write_text("")
    said = docs("import", str(folder)).err.splitlines()
    assert sum(one.startswith("  changes: ") for one in said) == 41
    assert said[-3:-1] == [
        "  changes: … and 10 more (`--json` shows all)",
        "  failed: path: bad.md; reason: The text must not be empty.",
    ]
    again = json.loads(docs("import", str(folder), "--dry-run", "--json").out)
    assert again["error"]["details"]["counts"] == {"unchanged": 50}


def test_a_time_that_was_set_above_is_called_off_there(docs: Docs) -> None:
    docs("create", "top", "--body", "x")
    docs("create", "leaf", "--parent", "top", "--body", "x")
    docs("delete", "top", "--at", "2099-01-01T00:00:00Z")
    assert "`kho docs restore top`" in docs("restore", "leaf").err


def test_every_example_works(docs: Docs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = (
        "create get get-many list query edit update history diff revert move audit delete restore export import"
    ).split()
    for name in names:
        shown = re.search(r"Example:\n +kho docs (.*)", docs(name, "--help").out)
        assert shown is not None
        typed = shlex.split(shown[1])
        if name == "update":  # the text was edited meanwhile
            typed[typed.index("--revision") + 1] = "2"
        done = docs(*typed, "--json")
        assert (done.status, name) == (0, name), done.err or done.out
        json.loads(done.out)


def test_the_log_is_asked_for_by_what_it_shows(docs: Docs) -> None:
    docs("create", "a", "--body", "x")
    assert "| `create_document` |" in docs("audit", "--action", "create_document").out
    refused = docs("audit", "--action", "nonsense")
    assert (refused.status, refused.out) == (1, "")
    assert "`--action` must be one of create_document, update_document" in refused.err
