"""What finds a message beside its own words: the question before it, who said it, and the day."""

from typing import Any

import pytest
from tests.memory.conftest import Desk

from kho.kernel.errors import InvalidParams
from kho.memory import attribution, indexing, model
from kho.memory.store import SPACE, Message
from kho.search.indexing import passages
from kho.search.indexing.index import prepare

GROUP = "group"
MARCH, MAY = "2025-03-02T09:14:00Z", "2025-05-08T20:00:00Z"


def message(content: str = "Fine.") -> Message:
    return Message(place=1, id="m", role="user", content=content, metadata=None, created_at=0)


@pytest.mark.parametrize(
    ("asked", "answered", "query"),
    [
        ("When does the dentist open?", "On Thursday.", "dentist opening day"),
        ("Phòng khám mở cửa khi nào vậy?", "Thứ năm.", "phòng khám mở cửa"),
        ("牙医诊所什么时候开门？", "星期四。", "牙医诊所开门"),
        ("Em uống thuốc chưa", "Rồi chị.", "uống thuốc"),
        ("你吃药了吗", "吃了。", "吃药"),
    ],
)
async def test_an_answer_is_found_through_its_question(desk: Desk, asked: str, answered: str, query: str) -> None:
    await desk.say(GROUP, ("user", "Hello."), ("user", asked), ("assistant", answered), ("user", "Thanks."))
    found = await desk.found(query)
    assert {asked, answered} <= {*found}
    assert "Thanks." not in found


async def test_who_searches_wants_the_answer(desk: Desk) -> None:
    await desk.say(GROUP, ("user", "Is the blue kettle descaled?"), ("assistant", "The blue kettle is descaled."))
    assert (await desk.found("blue kettle descaled"))[0] == "The blue kettle is descaled."


async def test_what_is_shown_is_the_message_alone(desk: Desk) -> None:
    await desk.say(GROUP, ("user", "Who feeds the ferret?"))
    await desk.say(GROUP, ("assistant", "Quân does."), speaker="Mai", at=MARCH)
    found = await desk.service.search(model.SearchMemory(query="feeds the ferret"), desk.call)
    shown = {hit.content: hit.highlights for hit in found.results}
    assert shown["Quân does."] == ["Quân does."]
    assert await desk.all(GROUP) == [("user", "Who feeds the ferret?"), ("assistant", "Quân does.")]


async def test_a_speaker_or_a_day_that_the_query_names_counts(desk: Desk) -> None:
    for speaker, at in (("Mai", MARCH), ("Tom", MAY), ("小林", MARCH)):
        await desk.say(GROUP, ("user", f"The garden gate is green, says {len(speaker)}."), speaker=speaker, at=at)
    assert (await desk.found("what did Tom say about the garden gate"))[0].endswith("says 3.")
    assert len(await desk.found("garden gate, 8 May 2025")) == 3
    assert (await desk.found("garden gate on 8 May 2025"))[0] == (await desk.found("garden gate", speaker="tom"))[0]
    assert (await desk.found("小林 garden gate"))[0].endswith("says 2.")


async def test_search_can_be_narrowed_to_a_speaker_and_a_time(desk: Desk) -> None:
    await desk.say(GROUP, ("user", "The gate is red."), speaker="Mai", at=MARCH)
    await desk.say(GROUP, ("user", "The gate is blue."), speaker="Tom", at=MAY)
    await desk.say(GROUP, ("assistant", "The gate is green."), metadata={"author": {"name": "Lan"}, "timestamp": MAY})
    await desk.say(GROUP, ("assistant", "The gate is grey."))
    assert await desk.found("gate", speaker="MAI") == ["The gate is red."]
    assert await desk.found("gate", speaker="lan") == ["The gate is green."]
    assert await desk.found("gate", speaker="assistant") == ["The gate is grey."]
    assert await desk.found("gate", speaker="nobody") == []
    assert {*await desk.found("gate", until="2025-04-01T00:00:00Z", since="2025-01-01T00:00:00Z")} == {
        "The gate is red."
    }
    assert {*await desk.found("gate", since=MAY, until="2025-06-01T00:00:00Z")} == {
        "The gate is blue.",
        "The gate is green.",
    }
    with pytest.raises(InvalidParams, match="'since' is after the end of the period"):
        await desk.found("gate", since=MAY, until=MARCH)


async def test_labels_keep_what_a_message_is_found_by(desk: Desk) -> None:
    """Setting a label indexes the conversation again."""
    await desk.say(GROUP, ("user", "When does the dentist open?"), ("assistant", "On Thursday."), speaker="Mai")
    await desk.service.get_or_create(
        model.GetOrCreate.model_validate({"conversation_id": GROUP, "user_id": "lan"}), desk.call
    )
    assert "On Thursday." in await desk.found("dentist", speaker="mai", user_id="lan")


async def test_imported_and_indexed_anew_it_is_the_same(desk: Desk) -> None:
    """An import, and the pages that a new form is indexed from, give what adding a message gave."""
    await desk.say(
        GROUP, ("user", "When does the dentist open?"), ("assistant", "On Thursday."), speaker="Mai", at=MARCH
    )
    other = Desk(desk.db, desk.words)
    exported = await desk.transfer.export(model.ExportMemory(), desk.call)
    await other.transfer.import_(model.ImportMemory(lines=exported.lines), other.call)

    async def indexed(tenant: str) -> list[tuple[str, str, str, tuple[str, ...], int]]:
        rows = await desk.db.read(
            lambda tx: passages.of_keys(tx, SPACE, tenant, GROUP, [one["id"] for one in exported.lines if "id" in one])
        )
        seqs = [ref.seq for filed in rows.values() for ref, _, _ in filed]
        found = await desk.db.read(lambda tx: passages.get(tx, passages.SearchFilter(SPACE, tenant), seqs))
        return sorted((one.key, one.heading, one.text, one.ref.tags, one.ref.created_at) for one in found.values())

    mine = await indexed(desk.tenant)
    assert len(mine) == 2
    assert await indexed(other.tenant) == mine
    documents, _ = await desk.db.read(lambda tx: indexing.all_documents(tx, "", 1_000))
    anew = [part.stored for one in documents if one.tenant == desk.tenant for part in prepare(one).parts]
    assert sorted((one.key, one.heading, one.text, one.ref.tags, one.ref.created_at) for one in anew) == mine


@pytest.mark.parametrize(
    ("fields", "speaker", "said_at"),
    [
        ({}, None, "1970-01-01"),
        ({"speaker": "Mai", "at": 86_400_000_000}, "Mai", "1970-01-02"),
        ({"metadata": {"name": " Tom ", "date": "2025-05-08"}}, "Tom", "2025-05-08"),
        ({"metadata": {"from": {"name": "Lan"}, "ts": 1_746_662_400}}, "Lan", "2025-05-08"),
        ({"metadata": {"sender": "x" * 101, "timestamp": 1_746_662_400_000}}, None, "2025-05-08"),
        ({"metadata": {"author": 7, "time": "noon", "ts": True}}, None, "1970-01-01"),
        ({"speaker": "Mai", "metadata": {"name": "Tom"}}, "Mai", "1970-01-01"),
    ],
)
def test_who_said_it_and_when(fields: dict[str, Any], speaker: str | None, said_at: str) -> None:
    plain: dict[str, Any] = {"place": 1, "id": "m", "role": "user", "content": "Hi.", "metadata": None, "created_at": 0}
    one = Message(**plain | fields)
    assert attribution.speaker(one) == speaker
    year, month, day = map(int, said_at.split("-"))
    assert attribution.day(attribution.said_at(one), "zh") == f"{year}年{month}月{day}日"
    assert attribution.day(attribution.said_at(one), "vi") == f"ngày {day} tháng {month} năm {year}"


def test_a_long_message_stands_for_itself() -> None:
    [short] = indexing.document("t", "c", message(), before="How are you?").passages
    assert (short.heading, short.label) == ("How are you?", "user, 1 January 1970")
    [plain] = indexing.document("t", "c", message(), before="I am fine.").passages
    assert plain.heading == ""
    [cut] = indexing.document("t", "c", message(), before="x" * 1_000 + " really?").passages
    assert len(cut.heading) == indexing.QUESTION
    [long_ago] = indexing.document("t", "c", message(), before="Really? " + "I think so. " * 100).passages
    assert long_ago.heading == ""
    long = indexing.document("t", "c", message("A long answer. " * 300), before="How are you?").passages
    assert {one.heading for one in long} == {""}
