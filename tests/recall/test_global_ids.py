"""Every tool takes global ids of its own kind beside bare ones, and says of others what they are."""

import pytest
from tests.recall.conftest import Desk

from kho.kernel.operation import Operation

TEXT = "The kestrel nests on the old water tower."
PARAMETERS = {
    "fact": {"forget": "id", "restore_fact": "id", "fact_history": "id", "update_fact": "id", "remember": "replaces"},
    "experience": {
        "get_experience": "id",
        "update_experience": "id",
        "rate_experience": "id",
        "delete_experience": "id",
        "restore_experience": "id",
    },
    "research": {
        "get_kb_document": "document",
        "similar_documents": "document",
        "submit_feedback": "document_id",
        "remove_kb_document": "document",
    },
    "document": {
        "get_document": "document_id",
        "update_document": "document_id",
        "edit_document": "document_id",
        "document_history": "document_id",
        "diff_revisions": "document_id",
        "restore_revision": "document_id",
        "move_document": "document_id",
        "list_documents": "parent_id",
        "audit_log": "document_id",
        "delete_document": "document_id",
        "restore_document": "document_id",
    },
}
"""The tools that take an id of their own kind, each once."""
NEEDED = {
    "remember": {"text": "The kestrel has left."},
    "update_fact": {"tags": ["birds"]},
    "update_experience": {"expected_revision": 1, "title": "Kestrels"},
    "rate_experience": {"helpful": True},
    "submit_feedback": {"verdict": "positive"},
    "update_document": {"patch": {"metadata": {"title": "Birds"}}},
    "edit_document": {"old_text": "kestrel", "new_text": "hawk"},
    "diff_revisions": {"from_revision": 1},
    "restore_revision": {"revision": 1},
    "move_document": {"new_parent_id": "root"},
}
"""What else they need."""


@pytest.mark.parametrize("kind", PARAMETERS)
async def test_a_tool_takes_the_global_id(desk: Desk, kind: str) -> None:
    ids = await desk.fill(TEXT)
    for tool, name in PARAMETERS[kind].items():
        answer = await desk.do(tool, **{**NEEDED.get(tool, {}), name: ids[kind]})
        assert ids[kind] not in str(answer), "replies keep bare ids"


@pytest.mark.parametrize("kind", PARAMETERS)
async def test_a_tool_says_what_an_id_of_another_kind_is(desk: Desk, kind: str) -> None:
    ids = await desk.fill(TEXT)
    readers = {"fact": "fetch", "message": "fetch", "experience": "get_experience", "research": "get_kb_document",
               "document": "get_document"}  # fmt: skip
    for tool, name in PARAMETERS[kind].items():
        for other in ids.keys() - {kind}:
            error = await desk.refused(tool, **{**NEEDED.get(tool, {}), name: ids[other]})
            said = str(error.as_dict()) + str(getattr(error, "problems", ""))
            assert f"is an id of another kind ({other}), which 'fetch'" in said, (tool, other)
            assert f"'{readers[other]}' reads" in said, (tool, other)


async def test_parts_of_other_parameters_take_them_too(desk: Desk) -> None:
    ids = await desk.fill(TEXT)
    await desk.do("create_document", document_id="doc:second", parent_id="root", content={"body": "Two."})
    assert (await desk.do("get_document", document_id="second"))["document_id"] == "second"
    await desk.do("move_document", document_id="doc:second", new_parent_id="root", position={"before": "doc:guide/one"})
    found = await desk.do("get_documents", document_ids=["doc:second", "guide/one", "doc:guide/one#0"])
    assert {one["document_id"] for one in found["documents"]} == {"second", "guide/one"}
    await desk.do("create_document", document_id="child", parent_id="doc:second", content={"body": "Kestrel child."})
    answer = await desk.do("query_knowledge", query="kestrel", filters={"under": "doc:second"})
    assert {one["document_id"] for one in answer["context"]} == {"child"}
    await desk.do("manage_collections", action="create", collection_name="other")
    moved = {"collection_name": "notes", "target_collection": "other", "documents": [ids["research"]]}
    await desk.do("manage_collections", action="move-documents", **moved)
    assert (await desk.do("fetch", id=ids["research"]))["metadata"]["collection"] == "other"


async def test_an_id_that_looks_like_another_kind_s_can_still_be_named(desk: Desk) -> None:
    """Bare ids of documents may have a colon: with the own prefix before it, it is read as it is."""
    await desk.do("create_document", document_id="doc:fact:1", content={"body": "A document."})
    assert (await desk.do("get_document", document_id="doc:fact:1"))["document_id"] == "fact:1"
    assert (await desk.do("fetch", id="doc:fact:1"))["text"] == "A document."
    await desk.do("create_document", document_id="v1:intro", content={"body": "Of no known kind."})
    assert (await desk.do("get_document", document_id="v1:intro"))["document_id"] == "v1:intro"


async def test_no_tool_with_an_id_is_forgotten(desk: Desk) -> None:
    """Every parameter that holds an id of a kind is in the table above."""
    names = {"id", "document_id", "document", "replaces"}
    # What waits for an approval is found by nobody, so it has no global id.
    elsewhere = {"fetch", "create_document", "query_knowledge", "approve_experience", "reject_experience"}
    known = {(tool, name) for tools in PARAMETERS.values() for tool, name in tools.items()}
    operations: list[Operation] = [one for c in desk.hub.registry.capabilities for one in c.operations if one.tool]
    for operation in operations:
        for name in names & operation.params.model_fields.keys():
            assert (operation.tool, name) in known or operation.tool in elsewhere, (operation.tool, name)
