"""Changing documents: what each operation leaves behind, in the document, its history, the log and the index."""

import uuid
from typing import Any

import pytest
from tests.documents.document_harness import Desk, Json

from kho.documents.model import MAX_METADATA
from kho.kernel.errors import DatabaseError
from kho.search.indexing import passages

SECTIONS = "# Kettles\n\n{0}\n\n# Pans\n\n{1}\n\n# Lids\n\n{2}\n"


async def said(desk: Desk, id: str, revision: int | None = None) -> tuple[Any, ...]:
    got = await desk.get(id, revision=revision)
    return got["content"]["mime_type"], got["content"]["body"], got["metadata"], got["is_human_readable"]


@pytest.mark.requirement("000.create.fields", "000.create.unique", "000.create.mime-types", "000.create.parent")
async def test_create(desk: Desk) -> None:
    made = await desk.done("create_document", content={"body": "# Hello"})
    assert made["document_id"] == str(uuid.UUID(made["document_id"]))
    assert (made["status"], made["revision"], made["parent_id"]) == ("created", 1, "root")
    assert await said(desk, made["document_id"]) == ("text/markdown", "# Hello", {}, True)
    for mime, body in (("text/plain", " two  blanks \n"), ("application/json", '{"a": [1, 2]}')):
        await desk.create(mime, made["document_id"], body, mime_type=mime, is_human_readable=False)
        assert await said(desk, mime) == (mime, body, {}, False)
    got = await desk.get("text/plain")
    assert (got["path"], got["ordering"], got["children"]) == ([made["document_id"]], 0, 0)
    assert (await desk.get(made["document_id"]))["children"] == 2
    await desk.neighbour(tenant=desk.tenant + "x").create("text/plain")  # unique in its tenant


@pytest.mark.requirement("000.create.created-at")
async def test_created_at_is_honoured(desk: Desk) -> None:
    await desk.create("old", created_at="2001-02-03T04:05:06+07:00")
    got = await desk.get("old")
    assert got["created_at"] == "2001-02-02T21:05:06Z"
    assert got["updated_at"] > "2026"


async def test_metadata_is_kept_as_it_is_and_titles_and_tags_are_tidied(desk: Desk) -> None:
    deep: Json = {"a": [1, 2.5, None, True, {"b": "ễ"}], "": "x", "k.e.y": -1}
    await desk.create("d", metadata={**deep, "title": " Cà  phê\n", "tags": ["a", "a", " b "]})
    assert (await desk.get("d"))["metadata"] == {**deep, "title": "Cà phê", "tags": ["a", "b"]}


PATCHES: list[tuple[Json, Any, tuple[Any, ...]]] = [
    ({"content": {"body": "new"}}, None, ("text/markdown", "new", {"title": "T", "n": 1}, True)),
    ({"content": {"mime_type": "text/plain"}}, None, ("text/plain", "old", {"title": "T", "n": 1}, True)),
    ({"metadata": {"a": 1}}, None, ("text/markdown", "old", {"a": 1}, True)),
    ({"metadata": {}}, None, ("text/markdown", "old", {}, True)),
    ({"is_human_readable": False}, None, ("text/markdown", "old", {"title": "T", "n": 1}, False)),
    ({"content": {"body": "new"}, "metadata": {"a": 1}}, ["metadata"], ("text/markdown", "old", {"a": 1}, True)),
    (
        {"content": {"body": "new", "mime_type": "text/plain"}},
        ["content.body"],
        ("text/markdown", "new", {"title": "T", "n": 1}, True),
    ),
    (
        {"content": {"body": "new", "mime_type": "text/plain"}, "is_human_readable": False},
        ["content", "is_human_readable"],
        ("text/plain", "new", {"title": "T", "n": 1}, False),
    ),
    (
        {"metadata": {"n": 2, "a": 1}},
        ["metadata.n", "metadata.title"],
        ("text/markdown", "old", {"n": 2}, True),
    ),
    ({"metadata": {"x.y": 2}}, ["metadata.x.y"], ("text/markdown", "old", {"title": "T", "n": 1, "x.y": 2}, True)),
    ({}, ["metadata.n"], ("text/markdown", "old", {"title": "T"}, True)),
    ({"metadata": {"a": 1}}, '["metadata"]', ("text/markdown", "old", {"a": 1}, True)),
]


@pytest.mark.requirement("000.update.mask", "000.update.whole")
@pytest.mark.parametrize(
    ("patch", "mask", "expected"),
    PATCHES,
)
async def test_update(desk: Desk, patch: Json, mask: Any, expected: tuple[Any, ...]) -> None:
    await desk.create("d", body="old", metadata={"title": "T", "n": 1})
    done = await desk.done("update_document", document_id="d", patch=patch, update_mask=mask, last_known_revision=1)
    assert (done["status"], done["revision"]) == ("updated", 2)
    assert await said(desk, "d") == expected
    assert await said(desk, "d", 1) == ("text/markdown", "old", {"title": "T", "n": 1}, True)


@pytest.mark.requirement("000.update.conflict")
@pytest.mark.parametrize("operation", ["update_document", "edit_document", "restore_revision"])
async def test_a_stale_revision_is_refused_and_says_how_things_stand(desk: Desk, operation: str) -> None:
    await desk.create("d", body="one", metadata={"title": "T"})
    await desk.update("d", metadata={"title": "T2"})
    before = await desk.dump()
    sent = {
        "update_document": {"patch": {"content": {"body": "x"}}},
        "edit_document": {"old_text": "one", "new_text": "x"},
        "restore_revision": {"revision": 1},
    }[operation]
    for known in (1, 3):
        refused = await desk.refused(operation, document_id="d", last_known_revision=known, **sent)
        assert (refused.code, refused.status) == ("CONFLICT", 409)
        told = refused.details
        assert (told["expected_revision"], told["actual_revision"], told["metadata"]) == (known, 2, {"title": "T2"})
        assert "get_document" in refused.guidance
    assert await desk.dump() == before
    assert (await desk.done(operation, document_id="d", last_known_revision=2, **sent))["revision"] == 3


async def test_edit(desk: Desk) -> None:
    await desk.create("d", body="Cà phê sữa. Trà đá.", metadata={"a": 1})
    sent = {"document_id": "d", "old_text": "sữa", "new_text": "đen"}
    assert (await desk.done("edit_document", **sent, last_known_revision=1))["revision"] == 2
    assert await said(desk, "d") == ("text/markdown", "Cà phê đen. Trà đá.", {"a": 1}, True)
    await desk.done("edit_document", document_id="d", old_text=" Trà đá.", new_text="")
    assert (await said(desk, "d"))[1] == "Cà phê đen."
    assert await desk.found("sữa") == await desk.found("trà đá") == set()
    assert await desk.found("đen") == {"d"}


async def test_restore_revision(desk: Desk) -> None:
    await desk.create("d", body='{"a": 1}', mime_type="application/json", metadata={"title": "one"})
    await desk.update("d", content={"mime_type": "text/plain", "body": "two"}, is_human_readable=False, metadata={})
    done = await desk.done("restore_revision", document_id="d", revision=1)
    assert done["revision"] == 3
    assert await said(desk, "d") == await said(desk, "d", 1)
    [newest, *_] = (await desk.done("document_history", document_id="d"))["revisions"]
    assert (newest["change"], newest["body_changed"]) == ("restore_revision", True)
    [entry] = await desk.audited(action="restore_revision")
    assert (entry["before_revision"], entry["after_revision"]) == (2, 3)
    assert entry["details"] == {"restored_revision": 1}
    assert await desk.found("two") == set()


NOTHING_NEW: list[tuple[str, Json]] = [
    ("edit_document", {"old_text": "one", "new_text": "one"}),
    ("restore_revision", {"revision": 3}),
    ("restore_revision", {"revision": 1}),
    ("update_document", {"patch": {"content": {"body": "one"}}}),
    ("update_document", {"patch": {"is_human_readable": True}}),
    ("update_document", {"patch": {"metadata": {"n": 1, "title": " T "}}, "update_mask": ["metadata"]}),
]


@pytest.mark.parametrize(("operation", "sent"), NOTHING_NEW)
async def test_a_change_that_changes_nothing_makes_no_revision(desk: Desk, operation: str, sent: Json) -> None:
    await desk.create("d", body="one", metadata={"title": "T", "n": 1})
    await desk.update("d", content={"body": "two"})
    await desk.update("d", content={"body": "one"})
    admin = desk.neighbour(tenant=desk.tenant, scopes=frozenset({"*", "admin"}))
    await admin.done("add_webhook", url="https://example.org/hook")
    before = await desk.dump()
    for known in (None, 3):
        done = await desk.done(operation, document_id="d", last_known_revision=known, **sent)
        assert (done["status"], done["revision"]) == ("unchanged", 3)
    refused = await desk.refused(operation, document_id="d", last_known_revision=2, **sent)
    assert refused.code == "CONFLICT"
    assert await desk.dump() == before


async def test_what_json_tells_apart_is_a_change(desk: Desk) -> None:
    await desk.create("d", metadata={"n": 1, "of": {"a": 0}})
    assert (await desk.update("d", metadata={"n": True, "of": {"a": 0}}))["status"] == "updated"
    assert (await desk.update("d", metadata={"n": True, "of": {"a": 0.0}}))["status"] == "updated"
    found = await desk.done("diff_revisions", document_id="d", from_revision=1)
    assert [*found["metadata"]] == ["n", "of"]


async def test_metadata_does_not_grow_without_end(desk: Desk) -> None:
    half = "x" * (MAX_METADATA // 2)
    await desk.create("d", metadata={"a": half})
    before = await desk.dump()
    sent = {"document_id": "d", "patch": {"metadata": {"b": half}}, "update_mask": ["metadata.b"]}
    refused = await desk.refused("update_document", **sent)
    assert (refused.code, refused.details["field"]) == ("INVALID_ARGUMENT", "patch.metadata")
    assert await desk.dump() == before


# -- what can be found -------------------------------------------------------------------------------------------------


@pytest.mark.requirement("000.delete.hidden")
async def test_it_is_found_by_what_it_says_now(desk: Desk) -> None:
    await desk.create("d", body="The zebra sleeps.", metadata={"title": "Giraffe"})
    assert await desk.found("zebra") == await desk.found("giraffe") == {"d"}
    await desk.update("d", content={"body": "The walrus sleeps."}, metadata={"title": "Hippo"})
    assert await desk.found("zebra") == await desk.found("giraffe") == set()
    assert await desk.found("walrus") == await desk.found("hippo") == {"d"}
    await desk.delete("d")
    assert await desk.found("walrus") == await desk.found("hippo") == set()
    await desk.restore("d")
    assert await desk.found("walrus") == await desk.found("hippo") == {"d"}


@pytest.mark.requirement("000.update.no-embedding", "000.move.no-embedding")
async def test_only_another_text_costs_a_new_vector(desk_with_vectors: Desk) -> None:
    desk = desk_with_vectors
    texts = ["Citric acid takes limescale off.", "Steel is seasoned with oil.", "Glass lids crack when cooled."]
    await desk.create("d", body=SECTIONS.format(*texts), metadata={"title": "Kitchen", "tags": ["a"]})
    await desk.create("other")
    assert await desk.settle() == 4

    async def waiting() -> int:
        return await desk.db.read(passages.pending)

    await desk.update("d", metadata={"title": "Another kitchen", "tags": ["b", "c"]})
    await desk.update("d", is_human_readable=False)
    await desk.move("d", "other")
    assert await waiting() == 0
    assert await desk.found("seasoned steel", tags=["b"], parent_id="other", is_human_readable=False) == {"d"}
    await desk.done("edit_document", document_id="d", old_text="Steel is", new_text="Cast iron is")
    assert await waiting() == 1
    assert await desk.settle() == 1
    await desk.done("restore_revision", document_id="d", revision=1)
    await desk.move("d", "root")
    assert await waiting() == 1
    await desk.delete("d")
    assert await waiting() == 0


# -- the log -----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("000.delete.audit")
async def test_nobody_rewrites_the_log(desk: Desk) -> None:
    await desk.create("d")
    for statement in ("UPDATE audit SET actor = 'nobody'", "DELETE FROM audit"):
        with pytest.raises(DatabaseError):
            await desk.db.write(lambda tx, statement=statement: tx.run(statement))
    assert [one["actor"] for one in await desk.audited()] == ["somebody"]
