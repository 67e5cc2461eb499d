"""Files and folders become documents: only what changed is read, nothing is doubled, one bad file stops nobody."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.research.factories import Desk, settings, told
from tests.research.ingest_folder import IngestFolder, Plain, age

from kho import parsers
from kho.kernel.call import Principal
from kho.lib.clock import SECOND
from kho.research.errors import FileNotFound, InvalidDocumentRequest, PathRefused, UnknownCollection, Unreadable

SECTIONS = "# Tea\n\nAbout kettles.\n\n## Green\n\nSencha and matcha.\n\n## Black\n\nAssam.\n"


@pytest.fixture
async def shelf(desk: Desk, tmp_path: Path) -> AsyncIterator[IngestFolder]:
    shelf = IngestFolder(desk, tmp_path / "notes")
    shelf.folder.mkdir()
    await desk.collection("create", "papers")
    yield shelf
    await shelf.background.drain()


async def test_a_folder_is_taken_in_and_only_what_changed_is_read_again(shelf: IngestFolder) -> None:
    shelf.many(5)
    shelf.write("tea.md", SECTIONS)
    answer = await shelf.answer()
    job = answer.job
    assert (answer.status, job.state, job.done, job.total, job.added, job.collection) == (
        "success", "done", 6, 6, 6, "papers",
    )  # fmt: skip
    assert answer.chunks == sum(doc.chunks for doc in (await shelf.docs()).values())
    assert answer.vectors_pending == 0
    before = await shelf.docs()
    assert await shelf.desk.found("matcha", "papers") == [before["tea.md"].id]
    # The same size and time: it is not even opened, so nobody notices that it says something else.
    shelf.write("tea.md", SECTIONS.replace("matcha", "hojica"))
    again = await shelf.answer()
    assert (again.job.unchanged, again.job.added, again.job.changed, again.chunks) == (6, 0, 0, 0)
    assert await shelf.docs() == before
    forced = await shelf.ingest(force=True)
    assert (forced.changed, forced.unchanged) == (6, 0)
    assert await shelf.desk.found("hojica", "papers") == [before["tea.md"].id]


async def test_a_changed_file_keeps_its_id_and_the_passages_that_are_the_same(shelf: IngestFolder) -> None:
    long = SECTIONS + "\n".join(f"\n## Part {n}\n\n" + f"Sentence about thing{n}. " * 60 for n in range(4))
    shelf.write("tea.md", long)
    await shelf.ingest()
    before = (await shelf.docs())["tea.md"]
    seqs = await shelf.seqs(before)
    shelf.write("tea.md", long.replace("thing3", "sth3"), mtime=1_700_000_100)
    job = await shelf.ingest()
    after = (await shelf.docs())["tea.md"]
    assert (job.changed, job.added) == (1, 0)
    assert (after.id, after.created_at) == (before.id, before.created_at)
    assert after.hash != before.hash
    kept = await shelf.seqs(after)
    same = {digest for digest, seq in kept.items() if seqs.get(digest) == seq}
    assert len(same) >= 3
    assert await shelf.desk.found("sth3", "papers") == [before.id]


async def test_another_time_with_the_same_bytes_is_looked_at_once(shelf: IngestFolder) -> None:
    path = shelf.write("tea.md", SECTIONS)
    await shelf.ingest()
    before = (await shelf.docs())["tea.md"]
    age(path, 1_700_009_999)
    assert (await shelf.ingest()).unchanged == 1
    after = (await shelf.docs())["tea.md"]
    assert after == replace(before, modified_at=1_700_009_999 * SECOND)


async def test_a_file_that_is_only_just_written_is_looked_at_again(shelf: IngestFolder) -> None:
    """It may be written once more without its time changing."""
    path = shelf.write("tea.md", SECTIONS)
    shelf.clock.now = 1_700_000_001 * SECOND
    await shelf.ingest()
    assert (await shelf.docs())["tea.md"].modified_at is None
    shelf.write("tea.md", SECTIONS.replace("matcha", "hojica"))
    shelf.clock.now += 10 * SECOND
    assert (await shelf.ingest()).changed == 1
    assert (await shelf.docs())["tea.md"].modified_at == path.stat().st_mtime_ns // 1000


async def test_what_is_gone_is_removed_when_that_is_asked_for_and_nothing_else(shelf: IngestFolder) -> None:
    for name in ("a.md", "a.txt", "sub/b.md", "sub/deep/c.md", ".hidden/d.md", "drafts/e.md"):
        shelf.write(name, f"# {name}\n\nWords of {name}.\n")
    await shelf.ingest()
    await shelf.ingest(patterns="*.md,.hidden/*.md")
    for path in shelf.folder.rglob("*.*"):
        if path.is_file():
            path.unlink()
    names = {"a.md", "a.txt", "sub/b.md", "sub/deep/c.md", ".hidden/d.md", "drafts/e.md"}
    assert (await shelf.ingest()).removed == 0
    assert set(await shelf.docs()) == names
    assert (await shelf.ingest(prune=True, patterns="*.txt")).removed == 1
    assert (await shelf.ingest(prune=True, recursive=False)).removed == 1
    assert set(await shelf.docs()) == names - {"a.txt", "a.md"}
    assert (await shelf.ingest("sub/deep", prune=True)).removed == 1
    assert (await shelf.ingest(prune=True, exclude="drafts")).removed == 1
    assert set(await shelf.docs()) == {".hidden/d.md", "drafts/e.md"}
    assert (await shelf.ingest(prune=True)).removed == 1
    assert (await shelf.ingest(prune=True, patterns=".hidden/*.md")).removed == 1
    assert await shelf.docs() == {}
    assert await shelf.desk.count("passages") == 0


async def test_a_missing_folder_removes_nothing(shelf: IngestFolder) -> None:
    shelf.write("sub/a.md", SECTIONS)
    await shelf.ingest()
    (shelf.folder / "sub/a.md").unlink()
    (shelf.folder / "sub").rmdir()
    with pytest.raises(FileNotFound) as failure:
        await shelf.ingest("sub", prune=True)
    assert failure.value.rpc == -32003
    assert set(await shelf.docs()) == {"sub/a.md"}


async def test_a_bad_file_stops_nobody_and_is_reported(shelf: IngestFolder) -> None:
    shelf.many(3)
    shelf.write("broken.md", b"\x89PNG\r\n\x1a\n\0\0\0\xff")
    shelf.write("empty.md", b"")
    (shelf.folder / "out.md").symlink_to("/etc/hostname")
    answer = await shelf.answer()
    job = answer.job
    assert (answer.status, job.added, job.failed, job.done, job.total) == ("success", 3, 3, 6, 6)
    reasons = {Path(one.path).name: (one.reason, one.code) for one in job.failures}
    assert reasons["broken.md"] == ("It is binary: a picture.", "UNREADABLE")
    assert reasons["empty.md"] == ("It is empty.", "UNREADABLE")
    assert reasons["out.md"][1] == "PATH_REFUSED"
    # It may get better.
    shelf.write("empty.md", "Now it says something.")
    assert (await shelf.ingest()).added == 1


async def test_who_names_one_bad_file_gets_its_error(shelf: IngestFolder) -> None:
    shelf.write("broken.md", b"\x89PNG\r\n\x1a\n\0\0\0\xff")
    with pytest.raises(Unreadable, match="a picture") as failure:
        await shelf.ingest("broken.md")
    assert failure.value.rpc == -32003
    assert "broken.md" in told(failure.value)
    small = IngestFolder(shelf.desk, shelf.folder, settings=settings(max_file=10))
    shelf.write("long.md", SECTIONS)
    with pytest.raises(Unreadable, match="larger than 10 bytes"):
        await small.ingest("long.md")
    assert await shelf.docs() == {}


async def test_a_stumble_over_one_file_is_that_files_failure(
    shelf: IngestFolder, caplog: pytest.LogCaptureFixture
) -> None:
    class Stumbling(Plain):
        async def read(self, data: bytes, name: str, *, suspect: bool = False) -> parsers.ParsedFile:
            if name == "note001.md":
                raise RecursionError("too deep")
            return await super().read(data, name)

    stumbling = IngestFolder(shelf.desk, shelf.folder, reader=Stumbling())
    shelf.many(4)
    job = await stumbling.ingest()
    assert (job.state, job.added, job.failed, job.failures[0].code) == ("done", 3, 1, "INTERNAL")
    assert "too deep" in caplog.text
    assert "too deep" not in job.failures[0].reason


async def test_failures_are_listed_up_to_a_number_and_counted_beyond(shelf: IngestFolder) -> None:
    for n in range(120):
        shelf.write(f"{n}.md", b"")
    answer = await shelf.answer()
    assert (answer.status, answer.job.failed, len(answer.job.failures)) == ("error", 120, 100)


async def test_wrong_collections_and_paths_are_the_contracts_errors(shelf: IngestFolder) -> None:
    shelf.write("a.md", SECTIONS)
    with pytest.raises(UnknownCollection) as failure:
        await shelf.ingest(collection="paper")
    assert failure.value.rpc == -32002
    assert "Did you mean 'papers'?" in told(failure.value)
    for path, error in (("/etc/hostname", PathRefused), ("../../etc", PathRefused), ("nowhere.md", FileNotFound)):
        with pytest.raises(error) as refused:
            await shelf.ingest(path)
        assert refused.value.rpc == -32003
    remote = shelf.desk.call()
    remote.principal = Principal("somebody", shelf.desk.tenant, frozenset({"*"}), "key")
    with pytest.raises(PathRefused, match="No folder may be read here"):
        await shelf.ingest(call=remote)

    async def stated() -> list[str]:
        return [(shelf.folder / "sub").as_uri()]

    with pytest.raises(PathRefused, match="out of the folders"):
        await shelf.ingest(call=shelf.desk.call(roots=stated))
    assert await shelf.desk.count("research_jobs") == 0


async def test_the_same_file_in_two_collections_is_two_documents(shelf: IngestFolder) -> None:
    await shelf.desk.collection("create", "more")
    shelf.write("a.md", SECTIONS)
    await shelf.ingest("a.md")
    assert (await shelf.ingest("a.md", "more")).added == 1
    first, second = (await shelf.docs())["a.md"], (await shelf.docs("more"))["a.md"]
    assert first.id != second.id
    assert (await shelf.ingest("a.md", "more")).unchanged == 1
    assert set(await shelf.desk.found("matcha")) == {first.id, second.id}


async def test_too_many_patterns_are_refused_when_the_call_is_made(shelf: IngestFolder) -> None:
    shelf.write("a.md", SECTIONS)
    many = ["{a,b}" * 40]
    with pytest.raises(InvalidDocumentRequest, match="'patterns' stands for more than 100 patterns") as refused:
        await shelf.ingest(patterns=many)
    assert refused.value.rpc == -32003
    with pytest.raises(InvalidDocumentRequest, match="'exclude' stands for more than 100 patterns"):
        await shelf.ingest(exclude=many)
    assert await shelf.desk.count("research_jobs") == 0


async def test_large_files_are_read_and_cut_in_a_process_of_their_own(shelf: IngestFolder) -> None:
    """What is stored is the same as of a hub that reads them itself."""
    for name in ("a.txt", "b.py", "c.md"):
        shelf.write(name, "# Heading\n\n" + f"words about vessels in {name}.\n\n" * 10_000)
    await shelf.ingest()
    expected = {name: replace(doc, job_id=None) for name, doc in (await shelf.docs()).items()}
    async with parsers.Worker(cut=True) as worker:
        isolated = IngestFolder(shelf.desk, shelf.folder, shelf.clock, worker)
        job = await isolated.ingest(force=True)
        assert worker.pid is not None
    assert (job.state, job.changed, job.failed) == ("done", 3, 0)
    assert {name: replace(doc, job_id=None) for name, doc in (await shelf.docs()).items()} == expected


async def test_which_files_of_a_folder_are_meant(shelf: IngestFolder) -> None:
    for name in ("a.md", "b.txt", "c.png", "sub/d.md", "e.weird"):
        shelf.write(name, f"Words of {name}.")
    assert (await shelf.ingest(recursive=False)).added == 2
    assert (await shelf.ingest(patterns="*.{weird,md}")).added == 2
    assert set(await shelf.docs()) == {"a.md", "b.txt", "sub/d.md", "e.weird"}
    (shelf.folder / "nothing").mkdir()
    nothing = await shelf.answer("nothing")
    assert "No file was found" in nothing.message
    # A link and its file are one document; a file that is still there is not pruned because no pattern names it.
    (shelf.folder / "link.md").symlink_to(shelf.folder / "a.md")
    assert (await shelf.ingest(prune=True)).removed == 0
    assert set(await shelf.docs()) == {"a.md", "b.txt", "sub/d.md", "e.weird"}


async def test_the_collection_is_made_when_that_is_asked_for(shelf: IngestFolder) -> None:
    shelf.write("a.md", "# A note\n\nOf zeppelins.\n")
    with pytest.raises(UnknownCollection):
        await shelf.ingest(collection="new")
    for _ in range(2):
        answer = await shelf.ingest(collection="new", create=True)
        assert answer.collection == "new"
    listed = (await shelf.desk.collection("list")).collections or []
    assert {one.name: one.documents for one in listed if one.name == "new"} == {"new": 1}
