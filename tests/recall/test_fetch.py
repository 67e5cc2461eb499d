"""`fetch`: the whole of an item, a passage, the next part; and one answer for everything that is not there."""

import pytest
from tests.recall.conftest import ADDRESS, SCOPES, Desk

TEXT = "The kestrel nests on the old water tower."


async def test_what_search_and_recent_show_can_be_fetched(desk: Desk) -> None:
    await desk.fill(TEXT)
    for one in [*await desk.found("kestrel"), *(await desk.do("recent"))["results"]]:
        item = await desk.do("fetch", id=one["id"])
        assert item.keys() == {"id", "title", "text", "url", "metadata"}
        assert (item["id"], item["title"], item["url"]) == (one["id"], one["title"], one["url"])
        assert TEXT in item["text"]
        assert item["metadata"]["kind"] == one["kind"]
        assert item["metadata"]["when"] == one["when"]
        assert "next_offset" not in item["metadata"]


async def test_where_it_comes_from_is_in_the_metadata(desk: Desk) -> None:
    ids = await desk.fill(TEXT)
    known = {kind: (await desk.do("fetch", id=id))["metadata"] for kind, id in ids.items()}
    assert (known["fact"]["said_by"], known["fact"]["about"]) == ("lan", "Lan")
    assert known["message"]["conversation_id"] == "chat/1"
    assert known["experience"]["created_by"] == "lan"
    assert (known["research"]["source"], known["research"]["collection"]) == ("a book", "notes")
    assert (known["document"]["parent_id"], known["document"]["revision"]) == ("root", 1)


async def test_a_message_comes_with_its_neighbours(desk: Desk) -> None:
    for number in range(1, 10):
        await desk.do("memory_add_message", conversation_id="chat", role="user", content=f"Message number {number}.")
    text = (await desk.do("fetch", id="msg:chat/5"))["text"]
    assert [f"number {n}." in text for n in range(1, 10)] == [False, *[True] * 7, False]


async def test_a_long_text_comes_in_parts(desk: Desk) -> None:
    body = "".join(f"Line {number} of the long guide.\n\n" for number in range(4_000))
    await desk.do("create_document", document_id="long", content={"body": body})
    parts: list[str] = []
    offset: int | None = 0
    while offset is not None:
        item = await desk.do("fetch", id="doc:long", offset=offset)
        assert len(item["text"]) <= 40_000
        assert item["metadata"]["characters"] == len(body)
        parts.append(item["text"])
        offset = item["metadata"].get("next_offset")
    assert len(parts) == len(body) // 40_000 + 1
    assert "".join(parts) == body
    assert (await desk.do("fetch", id="doc:long", offset=len(body) + 5))["text"] == ""
    assert "'offset' must be 0 or more" in (await desk.refused("fetch", id="doc:long", offset=-1)).message


async def test_a_number_names_a_passage(desk: Desk) -> None:
    body = "".join(f"# Part {number}\n\n" + f"Sentence about subject {number}. " * 60 + "\n\n" for number in range(6))
    await desk.do("create_document", document_id="guide", content={"body": body})
    await desk.do("manage_collections", action="create", collection_name="notes")
    added = await desk.do("augment_knowledge", content=body, source="a book", collection="notes")
    for whole in ("doc:guide", f"kb:{added['document']['id']}"):
        passage = await desk.do("fetch", id=f"{whole}#2")
        assert passage["id"] == f"{whole}#2"
        assert passage["metadata"]["passage"] == 2
        assert passage["text"] in body or "subject" in passage["text"]
        assert len(passage["text"]) < len(body)
        assert (await desk.refused("fetch", id=f"{whole}#999")).code == "NOT_FOUND"


@pytest.mark.parametrize(
    "id",
    ["fact:nope", "doc:nope", "kb:nope", "exp:nope", "msg:nope/1", "msg:chat/99", "msg:chat", "nope", "zz:1", ":", "doc:",
     "fact", "guide/one", "doc:guide/one#99", "DOC:guide/one", "doc:../x", "msg:chat/1/1#x"],
)  # fmt: skip
async def test_there_is_one_answer_for_what_is_not_there(desk: Desk, id: str) -> None:
    await desk.fill(TEXT)
    error = await desk.refused("fetch", id=id)
    assert error.as_dict() == {
        "code": "NOT_FOUND",
        "message": "Nothing that you may read has that id.",
        "guidance": "An id begins with its kind, as in fact:… or doc:…; search and recent show it whole. "
        "It may have been deleted.",
    }


async def test_an_id_from_a_link_is_taken(desk: Desk) -> None:
    ids = await desk.fill(TEXT)
    for id in (ids["fact"].replace(":", "%3A"), "doc%3Aguide%2Fone"):
        assert (await desk.do("fetch", id=id))["text"].startswith(TEXT[:11])


async def test_what_was_deleted_is_not_there_either(desk: Desk) -> None:
    ids = await desk.fill(TEXT)
    await desk.do("forget", id=ids["fact"])
    await desk.do("memory_delete", conversation_id="chat/1")
    await desk.do("delete_experience", id=ids["experience"])
    await desk.do("remove_kb_document", document=ids["research"])
    await desk.do("delete_document", document_id=ids["document"])
    for id in ids.values():
        assert (await desk.refused("fetch", id=id)).code == "NOT_FOUND", id
    assert await desk.found("kestrel") == []
    assert (await desk.do("recent"))["results"] == []


@pytest.mark.parametrize("kind", SCOPES)
async def test_links_are_made_of_the_setting(desk: Desk, kind: str) -> None:
    ids = await desk.fill(TEXT)
    url = (await desk.do("fetch", id=ids[kind]))["url"]
    assert url.startswith(f"{ADDRESS}/open/")
    assert url.count("/") == 4  # the id is one segment
