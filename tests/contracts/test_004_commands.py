"""Contract 004, the CLI mapping: each command and its tool call give the same answer."""

import json
import os
import re
from contextlib import chdir
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from tests.contracts.research_hub import settings_of, write_notes
from tests.doors.command_line import program_of, run_in_process
from tests.doors.doors import Finished, Json, kho

from kho.doors.cli.context import Program
from kho.kernel.hub import Hub
from kho.settings import Settings

NOTES = "{notes}"
"""Stands for the folder of notes."""

MAPPING: list[tuple[str, str, Json]] = [
    # command, tool, arguments
    ("collections create papers --type=fundamental", "manage_collections",
     {"action": "create", "collection_name": "papers", "collection_type": "fundamental"}),
    ("collections create inbox --description 'To sort'", "manage_collections",
     {"action": "create", "collection_name": "inbox", "description": "To sort"}),
    ("kb add-document kettle.md --collection=papers", "ingest_documents",
     {"path": f"{NOTES}/kettle.md", "collection": "papers"}),
    ("kb add-document deep/../ranking.md --collection papers", "ingest_documents",
     {"path": f"{NOTES}/ranking.md", "collection": "papers"}),
    (f"kb add-folder {NOTES} --collection inbox --recursive --pattern '*.md' --exclude table.md", "ingest_documents",
     {"path": NOTES, "collection": "inbox", "recursive": True, "patterns": "*.md", "exclude": "table.md"}),
    ("kb ingest-folder deep --collection inbox", "ingest_documents", {"path": f"{NOTES}/deep", "collection": "inbox"}),
    ("kb add-external-result 'Vinegar does, too.' --source https://example.org --collection papers --title Vinegar "
     "--tags a,b --author Mai --date 2026-07-28", "augment_knowledge",
     {"content": "Vinegar does, too.", "source": "https://example.org", "collection": "papers", "title": "Vinegar",
      "tags": "a,b", "author": "Mai", "date": "2026-07-28"}),
    ('query "descaling kettles" --collections="papers,inbox" --top-k=10', "query_knowledge_base",
     {"query": "descaling kettles", "collections": "papers,inbox", "top_k": 10}),
    ("query descaling kettles --explain --neighbours 1", "query_knowledge_base",
     {"query": "descaling kettles", "explain": True, "neighbours": 1}),
    ("similar ranking.md --collection papers", "similar_documents", {"document": "ranking.md", "collection": "papers"}),
    ("collections list", "manage_collections", {"action": "list"}),
    ("collections list --type=", "manage_collections", {"action": "list"}),
    ("collections create notes --type=", "manage_collections", {"action": "create", "collection_name": "notes"}),
    ("collections delete notes", "manage_collections", {"action": "delete", "collection_name": "notes"}),
    ("collections list --type=fundamental", "manage_collections",
     {"action": "list", "collection_type": "fundamental"}),
    ("collections info papers", "manage_collections", {"action": "info", "collection_name": "papers"}),
    ("collections rename inbox letters", "manage_collections",
     {"action": "rename", "collection_name": "inbox", "new_name": "letters"}),
    ("collections move-documents letters meo.md table.md --to papers", "manage_collections",
     {"action": "move-documents", "collection_name": "letters", "documents": "meo.md,table.md",
      "target_collection": "papers"}),
    (f"projects create thesis --collections papers --directory {NOTES}", "manage_projects",
     {"action": "create", "project_name": "thesis", "collections": "papers", "directory": NOTES}),
    ("projects link thesis letters", "manage_projects",
     {"action": "link", "project_name": "thesis", "collections": "letters"}),
    ("projects set-defaults thesis papers letters", "manage_projects",
     {"action": "set-defaults", "project_name": "thesis", "collections": ["papers", "letters"]}),
    ("projects unlink thesis letters", "manage_projects",
     {"action": "unlink", "project_name": "thesis", "collections": "letters"}),
    ("projects detect deep", "manage_projects", {"action": "detect", "directory": f"{NOTES}/deep"}),
    ("query kettles", "query_knowledge_base", {"query": "kettles", "directory": NOTES}),
    ("projects info thesis", "manage_projects", {"action": "info", "project_name": "thesis"}),
    ("projects archive thesis", "manage_projects", {"action": "archive", "project_name": "thesis"}),
    ("projects unarchive thesis", "manage_projects", {"action": "unarchive", "project_name": "thesis"}),
    ("projects list", "manage_projects", {"action": "list"}),
    ("kb list-documents --collection papers", "list_kb_documents", {"collection": "papers"}),
    ("kb show-document kettle.md --collection papers --text", "get_kb_document",
     {"document": "kettle.md", "collection": "papers", "text": True}),
    ("kb remove-document kettle.md --collection papers --yes", "remove_kb_document",
     {"document": "kettle.md", "collection": "papers"}),
    ("kb rebuild-index --collection papers", "rebuild_index", {"collection": "papers"}),
    ("kb status", "knowledge_base_status", {}),
    ("kb jobs", "list_jobs", {}),
    ("kb feedback", "feedback_analytics", {}),
    ("history", "query_history", {}),
    ("collections delete letters --yes", "manage_collections",
     {"action": "delete", "collection_name": "letters", "confirm": True}),
    # and what fails
    ("collections info nothing", "manage_collections", {"action": "info", "collection_name": "nothing"}),
    ("collections delete papers", "manage_collections", {"action": "delete", "collection_name": "papers"}),
    ("kb add-document ../secret.md --collection papers", "ingest_documents",
     {"path": f"{NOTES}/../secret.md", "collection": "papers"}),
    ("query x --collections nothing", "query_knowledge_base", {"query": "x", "collections": "nothing"}),
    ("query x --top-k 0", "query_knowledge_base", {"query": "x", "top_k": 0}),
    ("kb job-status nothing", "job_status", {"job_id": "nothing"}),
    ("kb cancel-job nothing", "cancel_job", {"job_id": "nothing"}),
    ("feedback nothing positive", "submit_feedback", {"document_id": "nothing", "verdict": "positive"}),
]  # fmt: skip


def alike(value: Json, folder: Path) -> str:
    """Without what differs from run to run: ids, times, scores' last digits and where the folder is."""
    for inside, part in ((value.get("collection"), "newest"), (value, "documents")):
        found = cast(Json, inside)[part] if isinstance(inside, dict) and part in inside else None
        if isinstance(found, list):  # those of the same moment come in the order of their ids
            cast(list[Json], found).sort(key=lambda one: str(one["title"]))
    shown = json.dumps(value, sort_keys=True, ensure_ascii=False).replace(str(folder), "")
    shown = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "<id>", shown)
    shown = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "<time>", shown)
    return re.sub(r'"took_ms": [\d.]+', '"took_ms": 0', shown)


def typed(command: str, notes: Path) -> list[str]:
    parts = re.findall(r"""(?:[^\s"']|"[^"]*"|'[^']*')+""", command)
    return [re.sub(r"""["']""", "", part).replace(NOTES, str(notes)) for part in parts]


def given(arguments: Json, notes: Path) -> Json:
    return {name: value.replace(NOTES, str(notes)) if isinstance(value, str) else value
            for name, value in arguments.items()}  # fmt: skip


@pytest.mark.requirement(
    "004.cli.query", "004.cli.collections", "004.cli.kb", "004.cli.projects", "004.cli.augment", "004.test.mapping",
)  # fmt: skip
def test_each_command_answers_as_its_tool_does(tmp_path: Path) -> None:
    """On two stores that begin alike: one is told by commands, the other by calls."""
    here, there = tmp_path / "by-command", tmp_path / "by-tool"
    commands = program_of(settings_of(here), name="research-agent")
    calls = program_of(settings_of(there))
    for command, tool, arguments in MAPPING:
        with chdir(here / "notes"):
            typed_out = run_in_process(commands, *typed(command, here / "notes"), "--json")
        status, answer = calls.run(partial(called, calls, tool, given(arguments, there / "notes")), "research")
        assert alike(json.loads(typed_out.out), here) == alike(answer, there), command
        assert typed_out.status == status, command


async def called(program: Program, tool: str, arguments: Json, hub: Hub) -> tuple[int, Any]:
    operation = hub.registry.methods[f"research-server/{tool}"]
    outcome = await hub.registry.call(operation, arguments, program.call())
    return (0, outcome.value) if outcome.error is None else (1, operation.failure(outcome.error))


@pytest.mark.parametrize("way", ["argument", "file", "stdin", "dash"])
def test_a_text_comes_from_an_argument_a_file_or_stdin(tmp_path: Path, way: str) -> None:
    settings = settings_of(tmp_path)
    run(settings, "collections", "create", "papers")
    file = tmp_path / "text.md"
    file.write_text("# Vinegar\n\nIt does, too.\n", "utf-8")
    words = {"argument": [file.read_text("utf-8")], "file": ["--from-file", str(file)], "stdin": [],
             "dash": ["--from-file", "-"]}[way]  # fmt: skip
    stdin = file.read_bytes() if way in ("stdin", "dash") else b""
    added = run(settings, "kb", "add-external-result", *words, "--source", "x", "--collection", "papers", stdin=stdin)
    assert "Added 'Vinegar'" in added.out, added


def test_everything_goes_out_and_in_again(tmp_path: Path) -> None:
    here, there = settings_of(tmp_path / "here"), settings_of(tmp_path / "there")
    run(here, "collections", "create", "papers")
    run(here, "kb", "add-folder", str(here.research.roots[0]), "--collection", "papers", "--recursive")
    lines = tmp_path / "all.jsonl"
    assert run(here, "kb", "export", str(lines)).err == "1 collection, 4 documents exported.\n"
    assert run(there, "kb", "import", str(lines)).out == (
        "4 imported, 0 replaced, 0 skipped, 1 collection, 0 projects and verdicts.\n"
    )
    assert run(there, "kb", "import", str(lines)).out.startswith("0 imported, 0 replaced, 4 skipped")
    assert run(there, "kb", "export", "--collections", "papers").out == lines.read_text("utf-8")
    assert run(there, "kb", "import", str(lines), "--merge", "replace").out.startswith("0 imported, 4 replaced")
    assert "Citric acid" in run(there, "query", "descaling").out


@pytest.mark.requirement("004.cli.folder")
def test_add_document_takes_a_file_or_a_folder(tmp_path: Path) -> None:
    """The contract's path is "file or folder", for one command."""
    settings = settings_of(tmp_path)
    run(settings, "collections", "create", "my papers")
    notes = Path(settings.research.roots[0])
    with chdir(notes):
        added = run(settings, "kb", "add-document", "deep", "--collection=my papers")
        assert (added.status, added.out.partition(",")[0]) == (0, "2 documents added"), added
        all_of_it = run(settings, "kb", "add-document", str(notes), "--collection=my papers", "--recursive")
        assert all_of_it.status == 0
        assert ", 2 unchanged in 'my papers'." in all_of_it.out
        file = run(settings, "kb", "add-folder", "kettle.md", "--collection", "my papers")
        assert f"'{notes}/kettle.md' is a file, not a folder. (WRONG_KIND)" in file.err
        assert f"`kho kb add-document {notes}/kettle.md --collection 'my papers'`" in file.err


def test_the_beginning_of_a_document_s_id_is_enough(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    notes = Path(settings.research.roots[0])
    added = run(
        settings, "kb", "add-document", str(notes / "kettle.md"), "--collection", "papers", "--create", "--json"
    )
    job = json.loads(added.out)["job"]["job_id"]
    [found] = json.loads(run(settings, "kb", "list-documents", "--json").out)["documents"]
    id = found["id"]
    assert f"`{id}`" in run(settings, "kb", "show-document", id[:8]).out
    assert job in run(settings, "kb", "job-status", job[:8]).out


def test_what_to_do_next_is_a_command(tmp_path: Path) -> None:
    """The text names tools; here it is what one would type, and the JSON stays as it is for programs."""
    settings = settings_of(tmp_path)
    assert "Create one with `kho collections create NAME`." in run(settings, "collections", "list").out
    empty = run(settings, "query", "kettles").out
    assert "`kho collections create papers`, then add documents with `kho kb add-document PATH --coll" in empty
    assert "`kho kb add-external-result`" in empty
    assert "manage_collections(" in run(settings, "query", "kettles", "--json").out
    made = run(settings, "collections", "create", "papers", "--type", "fundamental").out
    assert "`kho kb add-document PATH --collection papers`" in made
    unknown = run(settings, "collections", "info", "paper")
    assert "`kho collections create paper`" in unknown.err
    run(settings, "kb", "add-folder", str(settings.research.roots[0]), "--collection", "papers", "--recursive")
    found = run(settings, "query", "e5-small", "--top-k", "1").out
    assert "the text around a result: `--neighbours 1`" in found
    assert "why a result has its rank: `--explain`" in found
    told = run(settings, "collections", "delete", "papers")
    assert told.err.count("--yes") == 1
    assert "`kho collections delete papers --yes`" in told.err
    for command in ("collections list", "query kettles", "query zebra", "kb status", "projects list", "kb feedback"):
        shown = run(settings, *command.split()).out
        assert not re.search(r"manage_|ingest_documents|augment_knowledge|submit_feedback|ingest_status", shown), shown


def test_what_documents_say_is_not_respelt(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    run(settings, "collections", "create", "papers")
    said = 'Call manage_collections(action="list") with `limit=5`.'
    run(settings, "kb", "add-external-result", said, "--source", "x", "--collection", "papers")
    assert said in run(settings, "query", "manage_collections").out


def test_a_path_names_a_document(tmp_path: Path) -> None:
    """Seen from where it is typed if there is such a file; else by how the document's path ends."""
    settings = settings_of(tmp_path)
    notes = Path(settings.research.roots[0])
    for place in ("p1", "p2"):
        (notes / place).mkdir()
        (notes / place / "1.md").write_text(f"# One of {place}\n\nKettles of {place}.\n", "utf-8")
    run(settings, "collections", "create", "papers")
    run(settings, "collections", "create", "other")
    run(settings, "kb", "add-folder", str(notes), "--collection", "papers", "--recursive")
    with chdir(notes):
        assert "'One of p1'" in run(settings, "similar", "p1/1.md").out
        assert "## One of p2" in run(settings, "kb", "show-document", "./p2/1.md").out
    with chdir(notes / "p2"):
        assert "## One of p2" in run(settings, "kb", "show-document", "1.md").out
        assert "## One of p1" in run(settings, "kb", "show-document", "../p1/1.md").out
        assert "## Mèo" in run(settings, "kb", "show-document", "deep/meo.md").out
        moved = run(settings, "collections", "move-documents", "papers", "1.md", "../kettle.md", "--to", "other")
        assert "Moved 2 documents" in moved.out
    with chdir(tmp_path):
        assert "AMBIGUOUS" in run(settings, "kb", "show-document", "1.md").err
        assert "Removed 'One of p1'" in run(settings, "kb", "remove-document", "notes/p1/1.md", "--yes").out


def run(settings: Settings, *arguments: str, stdin: bytes = b"") -> Finished:
    return run_in_process(program_of(settings), *arguments, stdin=stdin)


@pytest.mark.requirement("004.config.debug", "004.config.logging")
async def test_debugging_shows_what_happened_and_no_text(tmp_path: Path) -> None:
    notes, home = write_notes(tmp_path / "notes"), tmp_path / "home"
    env = {"KHO_RESEARCH__ROOTS": f'["{notes}"]'}
    debug = {**env, "KHO_OBSERVE__LOG_LEVEL": "DEBUG"}
    await kho(home, "collections", "create", "papers", env=env)
    added = await kho(home, "kb", "add-folder", str(notes), "--collection", "papers", env=debug)
    assert added.status == 0
    told = [json.loads(line) for line in added.err.splitlines()]
    files = {Path(one["path"]).name: one["became"] for one in told if one["message"] == "file"}
    assert files == {"kettle.md": "1 chunks of markdown", "ranking.md": "1 chunks of markdown"}
    assert {one["level"] for one in told if one["message"] == "file"} == {"debug"}
    asked = await kho(home, "query", "descaling", "kettles", "--json", env=debug)
    [line] = [one for one in map(json.loads, asked.err.splitlines()) if one["message"] == "query"]
    assert (line["found"], line["collections"], line["status"]) == (1, 1, "optimal")
    assert json.loads(asked.out)["results"]
    assert "descaling" not in asked.err
    assert "Citric" not in asked.err + added.err
    for level in ("INFO", "WARNING"):
        quiet = await kho(home, "query", "kettles", env={**env, "KHO_OBSERVE__LOG_LEVEL": level})
        assert (quiet.status, quiet.err) == (0, "")


@pytest.mark.requirement("004.config.environment", "004.security.no-shell")
async def test_the_environment_sets_it_up(tmp_path: Path) -> None:
    """In processes of their own: what is typed is never a shell's to read."""
    notes, home = write_notes(tmp_path / "notes"), tmp_path / "home"
    env = {"KHO_RESEARCH__ROOTS": f'["{notes}"]'}
    name = "papers; touch owned $(touch owned) `touch owned`"
    assert (await kho(home, "collections", "create", name, env=env)).status == 0
    taken = await kho(home, "kb", "add-document", str(notes / "kettle.md"), f"--collection={name}", env=env)
    assert (taken.status, taken.err) == (0, "")
    refused = await kho(home, "kb", "add-document", "/etc/hostname", f"--collection={name}", env=env)
    assert (refused.status, refused.out) == (1, "")
    assert "KHO_RESEARCH__ROOTS" in refused.err
    assert not [name for _, _, names in os.walk(tmp_path) for name in names if "owned" in name]


@pytest.mark.requirement("004.cli.query")
def test_a_project_is_known_by_its_folder(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    notes = Path(settings.research.roots[0])
    for name in ("papers", "other"):
        run(settings, "collections", "create", name)
    run(settings, "kb", "add-document", str(notes / "kettle.md"), "--collection", "papers")
    run(settings, "kb", "add-document", str(notes / "ranking.md"), "--collection", "other")
    run(settings, "projects", "create", "thesis", "--collections", "papers", "--directory", str(notes), "--default")
    with chdir(notes / "deep"):
        assert "searched papers" in run(settings, "query", "kettles").out
    with chdir(tmp_path):
        assert "ranking.md" in run(settings, "query", "BM25").out
