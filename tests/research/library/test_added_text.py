"""Texts and uploads: stored once, duplicates said, the same source and title replaced."""

import asyncio
import base64
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.research.factories import Desk, settings, told
from tests.research.ingest_folder import Plain

from kho import parsers
from kho.research import model, names
from kho.research.errors import InvalidDocumentRequest, UnknownCollection, Unreadable
from kho.research.ingest.prepare import Reader
from kho.research.library.added_text import Augment
from kho.research.model import AugmentAnswer
from kho.research.settings import ResearchSettings

TEXT = "# Kettles\n\n" + " ".join(f"Fact{n} about boiling water in vessel{n}." for n in range(60)) + "\n"
NEARLY = TEXT.replace("Fact7 ", "Fact7777 ")


@dataclass
class Adding:
    desk: Desk
    settings: ResearchSettings = field(default_factory=settings)
    reader: Reader = field(default_factory=Plain)

    def __post_init__(self) -> None:
        self.service = Augment(
            db=self.desk.db,
            store=self.desk.store,
            reader=self.reader,
            clock=self.desk.clock,
            settings=self.settings,
        )

    async def text(self, content: str, source: str = "https://example.org/a", **more: Any) -> AugmentAnswer:
        wanted = {"content": content, "source": source, "collection": "papers", **more}
        return await self.service.augment(model.AugmentKnowledge.model_validate(wanted), self.desk.call())

    async def file(self, name: str, data: bytes, **more: Any) -> AugmentAnswer:
        wanted = {"filename": name, "content": base64.b64encode(data).decode(), "collection": "papers", **more}
        return await self.service.upload(model.UploadDocument.model_validate(wanted), self.desk.call())

    async def document(self, answer: AugmentAnswer) -> Any:
        assert answer.document is not None
        params = model.GetKbDocument.model_validate({"document": answer.document.id, "text": True})
        return (await self.desk.documents.get_document(params, self.desk.call())).document


@pytest.fixture
async def adding(desk: Desk) -> Adding:
    await desk.collection("create", "papers")
    return Adding(desk)


async def test_a_text_is_added_with_what_is_known_of_it(adding: Adding) -> None:
    answer = await adding.text(TEXT, tags="tea, water", author="Lan Nguyễn", date="2026-07")
    assert (answer.outcome, answer.duplicates) == ("added", [])
    shown = await adding.document(answer)
    assert (shown.title, shown.origin, shown.source, shown.path) == (
        "Kettles", "external", "https://example.org/a", None,
    )  # fmt: skip
    assert (shown.author, shown.published, shown.tags, shown.text) == (
        "Lan Nguyễn", "2026-07", ["tea", "water"], TEXT,
    )  # fmt: skip
    assert await adding.desk.found("vessel31", "papers") == [shown.id]


async def test_the_same_again_is_not_stored_twice(adding: Adding) -> None:
    first = await adding.text(TEXT)
    again = await adding.text(TEXT)
    assert (again.outcome, again.document) == ("unchanged", first.document)
    elsewhere = await adding.text(TEXT, "https://example.org/b")
    assert (elsewhere.outcome, elsewhere.document) == ("duplicate", first.document)
    assert [(one.title, one.likeness) for one in elsewhere.duplicates] == [("Kettles", 1.0)]
    assert "force=true" in elsewhere.message
    nearly = await adding.text(NEARLY, "https://example.org/c")
    assert (nearly.outcome, nearly.document) == ("duplicate", first.document)
    assert 0.85 < nearly.duplicates[0].likeness < 1
    assert await adding.desk.count("research_documents") == 1
    forced = await adding.text(NEARLY, "https://example.org/c", force=True)
    assert (forced.outcome, len(forced.duplicates)) == ("added", 1)
    assert await adding.desk.count("research_documents") == 2
    other = await adding.text("# Kettles\n\nSomething else entirely about pots.", "https://example.org/d")
    assert other.outcome == "added"


async def test_the_threshold_is_a_setting(adding: Adding) -> None:
    strict = Adding(adding.desk, settings(duplicate=0.999))
    await strict.text(TEXT)
    assert (await strict.text(NEARLY, "https://example.org/c")).outcome == "added"


async def test_the_same_source_and_title_replaces(adding: Adding) -> None:
    first = await adding.text(TEXT)
    second = await adding.text(NEARLY)
    assert second.outcome == "replaced"
    assert first.document is not None
    assert second.document is not None
    assert second.document.id == first.document.id
    tagged = await adding.text(NEARLY, tags=["new"])
    assert (tagged.outcome, tagged.document and tagged.document.tags) == ("replaced", ["new"])
    assert (await adding.text(TEXT, title="Another title", force=True)).outcome == "added"
    assert await adding.desk.count("research_documents") == 2


async def test_another_collection_has_its_own(adding: Adding) -> None:
    await adding.desk.collection("create", "more")
    await adding.text(TEXT)
    assert (await adding.text(TEXT, collection="more")).outcome == "added"


async def test_two_at_once_are_stored_once(adding: Adding) -> None:
    answers = await asyncio.gather(
        *(adding.text(text, f"https://example.org/{n}") for n, text in enumerate([TEXT, NEARLY, TEXT, NEARLY]))
    )
    assert sorted(answer.outcome for answer in answers) == ["added", "duplicate", "duplicate", "duplicate"]


async def test_a_title_is_found_where_none_is_given(adding: Adding) -> None:
    line = "This first line goes on and on, " * 8
    for content, title in (
        ("Just a line.\n\nAnd more.", "Just a line."),
        (line, f"{line[:120].rpartition(' ')[0]} …"),
        ("\n\n# **Heading** here\n\nText", "Heading here"),
    ):
        answer = await adding.text(content, f"s{title}")
        assert answer.document is not None
        assert answer.document.title == title


@pytest.mark.parametrize("date", ["yesterday", "2026-13", "2026-02-30", "26-07-28", "2026-7-8", "２０２６", "0000"])
async def test_a_date_that_is_none_is_refused(adding: Adding, date: str) -> None:
    with pytest.raises(InvalidDocumentRequest, match="'date' must be") as failure:
        await adding.text(TEXT, date=date)
    assert failure.value.rpc == -32003


def test_dates_as_precise_as_they_are_known() -> None:
    assert [names.published(text) for text in ("2024-02-29", "2024-02", " 1904 ")] == ["2024-02-29", "2024-02", "1904"]


async def test_what_cannot_be_added(adding: Adding) -> None:
    with pytest.raises(UnknownCollection) as unknown:
        await adding.text(TEXT, collection="paper")
    assert "Did you mean 'papers'?" in told(unknown.value)
    with pytest.raises(InvalidDocumentRequest, match="holds no text"):
        await adding.text("\x00\x01 \x02")
    params = model.UploadDocument.model_validate({"filename": "a.md", "content": "%%%", "collection": "papers"})
    with pytest.raises(InvalidDocumentRequest, match="base64"):
        await adding.service.upload(params, adding.desk.call())
    for name in ("..", "a/..", "/"):
        with pytest.raises(InvalidDocumentRequest, match="filename"):
            await adding.file(name, b"x")
    with pytest.raises(Unreadable, match="a picture") as unreadable:
        await adding.file("a.md", b"\x89PNG\r\n\x1a\n\0\0\0\xff")
    assert (unreadable.value.rpc, unreadable.value.details["path"]) == (-32003, "a.md")
    with pytest.raises(Unreadable, match="larger than"):
        await Adding(adding.desk, settings(max_file=10)).file("a.md", b"x" * 11)
    assert await adding.desk.count("research_documents") == 0


async def test_an_upload_is_read_as_the_file_it_was(adding: Adding) -> None:
    answer = await adding.file("C:\\papers\\café.html", b"<html><title>Coffee</title><p>Arabica beans.</p></html>")
    shown = await adding.document(answer)
    assert (answer.outcome, shown.origin, shown.source, shown.format) == ("added", "upload", "café.html", "html")
    assert await adding.desk.found("arabica", "papers") == [shown.id]
    code = await adding.file("tool.py", b"def brew():\n    return 'tea'\n", title="The brewer", tags=["code"])
    assert code.document is not None
    assert (code.document.title, code.document.tags) == ("The brewer", ["code"])
    assert (await adding.file("tool.py", b"def brew():\n    return 'tea'\n", title="The brewer")).outcome == "replaced"
    changed = await adding.file("tool.py", b"def grind():\n    return 'coffee'\n", title="The brewer")
    assert (changed.outcome, changed.document and changed.document.id) == ("replaced", code.document.id)
    twin = await adding.file("copy.py", b"def grind():\n    return 'coffee'\n")
    assert (twin.outcome, twin.duplicates[0].document_id) == ("duplicate", code.document.id)


async def test_signs_that_no_database_takes(adding: Adding) -> None:
    answer = await adding.text("NUL \0 within, about teapots.", "a\0b", title="c\0d", author="e\0f")
    assert answer.outcome == "added"
    assert len(await adding.desk.found("teapots", "papers")) == 1


async def test_long_texts_and_uploads_are_read_in_a_process_of_their_own(adding: Adding) -> None:
    text = "---\ntitle: Boilers\ntags: [tea]\n---\n" + "A sentence about samovars and vessels.\n\n" * 8_000
    plain = await adding.document(await adding.text(text, "here"))
    async with parsers.Worker(cut=True) as worker:
        isolated = Adding(adding.desk, reader=worker)
        shown = await isolated.document(await isolated.text(text, "there", force=True))
        assert worker.pid is not None
        assert (shown.title, shown.tags, shown.text, shown.chunks) == (
            "Boilers", ["tea"], plain.text, plain.chunks,
        )  # fmt: skip
    async with parsers.Worker(cut=True) as worker:
        isolated = Adding(adding.desk, reader=worker)
        assert (await isolated.file("a.json", b'{"kettle": [' + b"1," * 200_000 + b"1]}")).outcome == "added"
        assert worker.pid is not None
        with pytest.raises(Unreadable, match="characters, more than") as refused:
            await isolated.file("x.json", b"[" * 1_000_000)
        assert refused.value.details["path"] == "x.json"


async def test_a_text_that_cannot_be_read_within_the_limits_is_refused(adding: Adding) -> None:
    async with parsers.Worker(parsers.ParserLimits(memory=32 * 2**20), cut=True) as worker:
        isolated = Adding(adding.desk, reader=worker)
        with pytest.raises(InvalidDocumentRequest, match="'content' cannot be read: reading it takes more than 32 MB"):
            await isolated.text("# a\n" * 500_000)
    assert await adding.desk.count("research_documents") == 0


async def test_the_collection_is_made_with_the_text_when_that_is_asked_for(adding: Adding) -> None:
    with pytest.raises(UnknownCollection):
        await adding.text(TEXT, collection="new")
    answer = await adding.text(TEXT, collection="new", create=True)
    assert str(answer.message).startswith("Created the collection 'new'. Added 'Kettles'")
    again = await adding.file("b.md", b"# Another\n\nOf other things.\n", collection="New", create=True)
    assert again.document is not None
    assert (again.outcome, again.document.collection) == ("added", "new")
    with pytest.raises(Unreadable):
        await adding.file("x.pdf", b"nonsense", collection="empty", create=True)
    listed = (await adding.desk.collection("list")).collections or []
    assert {one.name: one.documents for one in listed} == {"papers": 0, "new": 2}
    together = [adding.text(f"{TEXT} {n}", f"https://example.org/{n}", collection="both", create=True) for n in "ab"]
    await asyncio.gather(*together)
    [both] = [one for one in (await adding.desk.collection("list")).collections or [] if one.name == "both"]
    assert both.documents in (1, 2)  # the second may be told that it is nearly the same
