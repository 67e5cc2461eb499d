"""Reading: documents as they are and were, lists page by page, and the audit log."""

import asyncio

import pytest
from tests.documents.document_harness import Desk, Json

from kho.documents.model import MAX_DOCUMENTS
from kho.kernel import paging


def ids(listed: list[Json]) -> list[str]:
    return [one["document_id"] for one in listed]


async def test_a_document_as_it_was(desk: Desk) -> None:
    await desk.create("d", body="one", metadata={"title": "One"})
    first = await desk.get("d")
    await desk.update("d", content={"body": "two"}, metadata={"title": "Two"})
    await desk.create("p")
    await desk.move("d", "p")
    old = await desk.get("d", revision=1)
    assert (old["content"], old["metadata"], old["revision"]) == (first["content"], first["metadata"], 1)
    assert (old["parent_id"], old["updated_at"]) == ("p", first["updated_at"])
    refused = await desk.refused("get_document", document_id="d", revision=3)
    assert (refused.code, refused.guidance) == ("NOT_FOUND", "document_history lists its revisions.")


async def test_many_documents_at_once(desk: Desk) -> None:
    names = [f"d{number}" for number in range(MAX_DOCUMENTS)]
    await asyncio.gather(*(desk.create(name) for name in names))
    got = await desk.done("get_documents", document_ids=names[::-1])
    assert ids(got["documents"]) == names[::-1]
    assert got["missing"] == []
    refused = await desk.refused("get_documents", document_ids=[*names, "x"])
    assert (refused.code, refused.status) == ("INVALID_ARGUMENT", 400)
    assert "50" in refused.message
    assert (await desk.refused("get_documents", document_ids=[])).code == "INVALID_ARGUMENT"
    twice = await desk.done("get_documents", document_ids=["d0", "nothing", "d0"])
    assert (ids(twice["documents"]), twice["missing"]) == (["d0"], ["nothing"])


async def test_the_orders_of_a_list(desk: Desk) -> None:
    for id, title, year in (("a", "Zoo", "2003"), ("b", "ant", "2001"), ("c", "Bee", "2002")):
        await desk.create(id, metadata={"title": title}, created_at=f"{year}-01-01T00:00:00Z")
    await desk.create("B-untitled", created_at="1999-01-01T00:00:00Z")
    await desk.update("b", is_human_readable=False)
    for sort, order in (
        ("order", ["a", "b", "c", "B-untitled"]),
        ("title", ["b", "B-untitled", "c", "a"]),
        ("created_at", ["a", "c", "b", "B-untitled"]),
        ("updated_at", ["b", "B-untitled", "c", "a"]),
    ):
        for limit in (1, 3, 50):
            listed = await desk.pages("list_documents", "documents", sort=sort, limit=limit)
            assert ids(listed) == order, (sort, limit)
    await desk.delete("c")
    assert "c" not in ids(await desk.pages("list_documents", "documents"))
    listed = await desk.pages("list_documents", "documents", include_deleted=True)
    assert [(one["document_id"], one.get("ordering")) for one in listed] == [
        ("a", 0),
        ("b", 1),
        ("c", None),
        ("B-untitled", 2),
    ]


async def test_all_below_each_parent_before_its_children(desk: Desk) -> None:
    for id, parent in (("b", "root"), ("a", "root"), ("b2", "b"), ("b1", "b"), ("b21", "b2"), ("a1", "a")):
        await desk.create(id, parent)
    for limit in (1, 2, 50):
        listed = await desk.pages("list_documents", "documents", recursive=True, limit=limit)
        assert [(one["document_id"], one["depth"]) for one in listed] == [
            ("b", 1),
            ("b2", 2),
            ("b21", 3),
            ("b1", 2),
            ("a", 1),
            ("a1", 2),
        ]
    below = await desk.pages("list_documents", "documents", recursive=True, parent_id="b")
    assert [(one["document_id"], one["depth"]) for one in below] == [("b2", 1), ("b21", 2), ("b1", 1)]
    page = await desk.done("list_documents", recursive=True, limit=2)
    await desk.delete("b2")  # what the page ended with is gone: nothing that follows is lost
    rest = await desk.done("list_documents", recursive=True, limit=50, cursor=page["next_cursor"])
    assert {"a", "a1"} <= {*ids(rest["documents"])}


async def test_pages_of_a_list_that_changes(desk: Desk) -> None:
    """What nobody touches comes exactly once: not twice when the others move about, and not never."""
    names = [f"n{number:04}" for number in range(1_000)]
    await desk.plant([(name, "root") for name in names])
    touched: set[str] = set()
    shown: list[str] = []
    cursor = None
    for turn in range(100):
        page = await desk.done("list_documents", limit=100, cursor=cursor)
        shown += ids(page["documents"])
        cursor = page.get("next_cursor")
        if cursor is None:
            break
        last = page["documents"][-1]["document_id"]
        # One before the end of the page, one behind it, one away, one new.
        before, behind, away = (names[(turn * 7 + offset) % 1_000] for offset in (1, 500, 700))
        touched |= {before, behind, away}
        following = names[names.index(last) + 1]
        if last in touched or following in touched:
            continue
        for id in (before, behind):
            await desk.move(id, "root", before=last)
        await desk.ask("delete_document", {"document_id": away})
        await desk.create(f"new{turn}")
        for id in (before, behind):
            await desk.move(id, "root", before=following)
    unchanged = [name for name in names if name not in touched]
    assert [id for id in shown if id in {*unchanged}] == unchanged


async def test_a_page_goes_on_where_the_last_one_ended_though_all_were_spread_out(desk: Desk) -> None:
    names = [f"n{number:02}" for number in range(30)]
    await desk.plant([(name, "root") for name in names])
    page = await desk.done("list_documents", limit=10)
    for name in names[:5]:
        await desk.move(name, "root")
    for _ in range(18):  # until there is no room left between these two
        for name in names[28:]:
            await desk.move(name, "root", before="n21")
    rest = await desk.done("list_documents", cursor=page["next_cursor"])
    assert ids(rest["documents"]) == [*names[10:21], *names[28:], *names[21:28], *names[:5]]


async def test_history(desk: Desk) -> None:
    await desk.create("d", body="one", metadata={"title": "T"})
    await desk.update("d", metadata={"title": "T2"})
    await desk.done("edit_document", document_id="d", old_text="one", new_text="two")
    await desk.move("d", "root")
    for limit in (1, 2, 50):
        history = await desk.pages("document_history", "revisions", document_id="d", limit=limit)
        assert [(one["revision"], one["change"], one["body_changed"]) for one in history] == [
            (3, "edit_document", True),
            (2, "update_document", False),
            (1, "create_document", True),
        ]
    assert history[0]["made_by"] == "somebody"  # pyright: ignore[reportPossiblyUnbound]


async def test_a_history_says_whether_the_text_changed(desk: Desk) -> None:
    await desk.create("d", body="one")
    await desk.update("d", content={"body": "two"})
    await desk.done("restore_revision", document_id="d", revision=1)
    await desk.update("d", content={"body": "one"}, metadata={"title": "T"})
    await desk.done("edit_document", document_id="d", old_text="one", new_text="three")
    await desk.update("d", content={"body": "one"})
    await desk.done("restore_revision", document_id="d", revision=1)  # the same text, filed twice
    for limit in (1, 3, 50):
        history = await desk.pages("document_history", "revisions", document_id="d", limit=limit)
        assert [(one["revision"], one["body_changed"]) for one in history] == [
            (7, False),
            (6, True),
            (5, True),
            (4, False),
            (3, True),
            (2, True),
            (1, True),
        ]


async def test_a_diff_says_how_the_texts_end(desk: Desk) -> None:
    await desk.create("d", body="a\nb")
    await desk.update("d", content={"body": "a\nb\n"})
    await desk.update("d", content={"body": "a\r\nb\n"})
    found = await desk.done("diff_revisions", document_id="d", from_revision=1, to_revision=2)
    assert found["body"].endswith(" a\n-b\n\\ No newline at end of file\n+b")
    found = await desk.done("diff_revisions", document_id="d", from_revision=2, to_revision=3)
    assert found["body"].endswith("-a\n+a\r\n b")


async def test_differences(desk: Desk) -> None:
    await desk.create("d", body="a\nb\nc", metadata={"title": "T", "n": 1}, is_human_readable=True)
    patch = {"content": {"mime_type": "text/plain", "body": "a\nB\nc"}, "metadata": {"n": 2, "m": None}}
    await desk.done("update_document", document_id="d", patch={**patch, "is_human_readable": False})
    found = await desk.done("diff_revisions", document_id="d", from_revision=1)
    assert found["body"] == "--- revision 1\n+++ revision 2\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c"
    assert found["metadata"]["n"] == {"from": 1, "to": 2}
    assert found["metadata"]["title"]["from"] == "T"
    assert found["mime_type"] == {"from": "text/markdown", "to": "text/plain"}
    assert found["is_human_readable"] == {"from": True, "to": False}
    same = await desk.done("diff_revisions", document_id="d", from_revision=2, to_revision=2)
    assert (same["body"], same["metadata"]) == ("", {})
    back = await desk.done("diff_revisions", document_id="d", from_revision=2, to_revision=1)
    assert "-B\n+b" in back["body"]


async def test_the_log(desk: Desk) -> None:
    await desk.create("a")
    await desk.ask("create_document", {"document_id": "b", "content": {"body": "x"}}, by="mai")
    await desk.update("a", content={"body": "y"})
    await desk.delete("b", reason="why not")
    actions = [(one["action"], one["document_id"], one["actor"]) for one in await desk.audited()]
    assert actions == [
        ("create_document", "a", "somebody"),
        ("create_document", "b", "mai"),
        ("update_document", "a", "somebody"),
        ("delete_document", "b", "somebody"),
    ]
    entries = await desk.pages("audit_log", "entries", limit=1)
    assert [(one["action"], one["document_id"], one["actor"]) for one in entries][::-1] == actions
    assert [one["action"] for one in await desk.audited(document_id="a")] == ["create_document", "update_document"]
    assert [one["document_id"] for one in await desk.audited(actor="mai")] == ["b"]
    at = entries[1]["at"]
    assert [one["action"] for one in await desk.audited(since=at)] == ["update_document", "delete_document"]
    assert len(await desk.audited(until=at)) == 2
    assert entries[0]["reason"] == "why not"
    assert {one["request_id"] for one in entries}.__len__() == 4


@pytest.mark.parametrize("operation", ["list_documents", "document_history", "audit_log"])
@pytest.mark.parametrize(
    "cursor",
    [
        "x",
        "ä",
        paging.encode(None),
        paging.encode([]),
        paging.encode(["title", 3, "d", 1]),
        paging.encode(["order", "x", "d", 1]),
        paging.encode([2**64 - 1]),
        paging.encode([-(2**63)]),
        paging.encode(["order", 2**64 - 1, "d", 1]),
        paging.encode(["order", 1, "a\0b", 1]),
        paging.encode(["tree", 2**64 - 1, "a\0"]),
    ],
)
async def test_a_cursor_from_elsewhere(desk: Desk, operation: str, cursor: str) -> None:
    """It is refused, or it finds nothing; it breaks nothing."""
    await desk.create("d")
    more = {"document_id": "d"} if operation == "document_history" else {}
    for arguments in (more, {"recursive": True}) if operation == "list_documents" else (more,):
        outcome = await desk.ask(operation, {**arguments, "cursor": cursor})
        if outcome.error is not None:
            assert outcome.error.code == "INVALID_ARGUMENT", outcome.error.as_dict()


# -- resources ---------------------------------------------------------------------------------------------------------


async def test_documents_are_resources(desk: Desk) -> None:
    shelf = desk.capability.resources
    assert shelf is not None
    for number in range(103):
        await desk.create(f"d{number:03}", body=f"text {number}", metadata={"title": f"T{number}"})
    await desk.create("json", body="[1]", mime_type="application/json")
    await desk.delete("d050")
    call = desk.call()
    first, cursor = await shelf.page(call, None)
    assert cursor is not None
    rest, end = await shelf.page(call, cursor)
    assert end is None
    uris = [one.uri for one in [*first, *rest]]
    assert uris == [*(f"kho://documents/d{number:03}" for number in range(103) if number != 50), "kho://documents/json"]
    assert (first[0].name, rest[-1].mime_type) == ("T0", "application/json")
    content = await shelf.read(call, "kho://documents/d007")
    assert content is not None
    assert content.text == "text 7"
    for uri in ("kho://documents/d050", "kho://documents/nothing", "kho://other/d007"):
        assert await shelf.read(call, uri) is None
    [template] = shelf.templates
    assert template.uri == "kho://documents/{id}"
    assert await shelf.complete(call, template.uri, "id", "d10") == ["d100", "d101", "d102"]
    assert await shelf.complete(desk.neighbour().call(), template.uri, "id", "d") == []
