"""Contract 003, experience records: every example as it is printed, and every demand, on both databases.

The order of results and the counting of queries are in test_003_rank_and_count.py.
"""

import asyncio
import re
import uuid
from datetime import datetime
from typing import Any

import pytest
from bench.experiences import verdict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.contracts.capability_harness import Desk, Json
from tests.contracts.conftest import MakeDesk
from tests.engines import AdminPostgres

from kho.experiences.settings import ExperienceSettings
from kho.kernel.ports import Database, Tx
from kho.search.text.tokens import index_tokens
from kho.storage.postgres.database import PostgresLimits
from kho.storage.sqlite.database import Sqlite

# -- as printed --------------------------------------------------------------------------------------------------------

QUERY_REQUEST: Json = {"keywords": "React useState hook not updating", "limit": 10, "offset": 0}

QUERY_RESPONSE: Json = {
    "success": True,
    "data": {
        "experiences": [
            {
                "id": "550e8400-e29b-41d4-a716-446655440000",
                "title": "React useState not updating state",
                "problem_description": "State variable not updating after setState call",
                "root_cause": "React 18's strict mode causes double rendering, and direct state updates may be batched incorrectly",
                "solution": "Use functional update form: setState(prev => prev + 1)",
                "context": "React 18+ with strict mode\n\nCode example:\nconst [count, setCount] = useState(0);\nsetCount(count + 1); // Wrong\nsetCount(prev => prev + 1); // Correct",
                "keywords": ["react", "hooks", "state"],
                "query_count": 45,
                "created_at": "2025-01-20T10:30:00Z",
                "relevance_score": 0.95,
            }
        ],
        "total": 1,
        "limit": 10,
        "offset": 0,
    },
}

SUBMIT_REQUEST: Json = {
    "title": "React useState not updating state",
    "problem_description": "State variable not updating after setState call in React 18",
    "root_cause": "React 18's strict mode causes double rendering, and direct state updates may be batched incorrectly",
    "solution": "Use functional update form: setState(prev => prev + 1) instead of setState(count + 1)",
    "context": "React 18+ with strict mode enabled\n\nCode example:\nconst [count, setCount] = useState(0);\nsetCount(count + 1); // Wrong\nsetCount(prev => prev + 1); // Correct",
    "keywords": ["react", "hooks", "state"],
}

SUBMIT_RESPONSE: Json = {
    "success": True,
    "data": {
        "id": "550e8400-e29b-41d4-a716-446655440000",
        "status": "published",
        "message": "Experience record created and published successfully",
    },
}

ERROR_RESPONSE: Json = {
    "success": False,
    "error": {
        "code": "VALIDATION_ERROR",
        "message": "Validation failed",
        "validation_errors": [{"field": "context", "message": "Context contains unsanitized code snippet"}],
    },
}

SMALLEST: Json = {"title": "t", "problem_description": "p", "solution": "s"}
SECRET = "AKIA" + "Q3EGVZR7TMWXKD5B"


@pytest.mark.requirement("003.submit.example-request", "003.submit.example-response")
async def test_the_submission_of_the_example_is_answered_as_printed(desk: Desk) -> None:
    answer = await desk.ask("submit_experience", SUBMIT_REQUEST)
    id = answer["data"]["id"]
    assert answer == {**SUBMIT_RESPONSE, "data": {**SUBMIT_RESPONSE["data"], "id": id}}


@pytest.mark.requirement("003.query.example-request")
async def test_the_query_of_the_example_finds_the_submission_of_the_example(desk: Desk) -> None:
    submitted = await desk.done("submit_experience", **SUBMIT_REQUEST)
    [found] = (await desk.done("query_experiences", **QUERY_REQUEST))["experiences"]
    assert found["id"] == submitted["id"]
    assert {name: found[name] for name in SUBMIT_REQUEST} == SUBMIT_REQUEST


@pytest.mark.requirement("003.query.example-response")
async def test_the_query_of_the_example_is_answered_as_printed(desk: Desk) -> None:
    """But for the relevance, which is another's to say, and for what an item may carry on top (D16)."""
    [printed] = QUERY_RESPONSE["data"]["experiences"]
    await desk.take_in({name: value for name, value in printed.items() if name != "relevance_score"})
    answer = await desk.ask("query_experiences", QUERY_REQUEST)
    [found] = answer["data"]["experiences"]
    assert {name: type(found[name]) for name in printed} == {name: type(value) for name, value in printed.items()}
    assert found.keys() - printed.keys() == {"updated_at", "revision", "helpful", "unhelpful"}
    shown = {**{name: found[name] for name in printed}, "relevance_score": printed["relevance_score"]}
    assert {**answer, "data": {**answer["data"], "experiences": [shown]}} == QUERY_RESPONSE


@pytest.mark.requirement("003.submit.example-error", "003.submit.context-not-sanitized", "003.submit.validation-errors")
async def test_an_unmasked_context_is_answered_like_the_example_error(desk: Desk) -> None:
    answer = await desk.ask("submit_experience", {**SUBMIT_REQUEST, "context": f"aws_access_key_id = {SECRET}"})
    assert answer.keys() == ERROR_RESPONSE.keys()
    assert answer["error"].keys() == ERROR_RESPONSE["error"].keys()
    assert answer["error"]["code"] == "CONTEXT_NOT_SANITIZED"
    [problem] = answer["error"]["validation_errors"]
    assert problem["field"] == "context"
    assert (problem["start"], problem["end"]) == (20, 40)
    assert SECRET not in str(answer)
    assert await desk.stored() == []


# -- query_experiences: the request ------------------------------------------------------------------------------------


async def some_kettles(desk: Desk, count: int) -> None:
    await desk.take_in(*({"title": f"kettle {number}"} for number in range(count)))


@pytest.mark.requirement("003.query.keywords-string")
async def test_keywords_is_a_text_or_a_list_of_texts(desk: Desk) -> None:
    id = await desk.submit("Kettle overheats", problem_description="descaling needed")
    for keywords in ("kettle descaling", ["kettle", "descaling"], ["kettle descaling"], "kettle"):
        assert [hit["id"] for hit in (await desk.query(keywords))["experiences"]] == [id]
    one, two = await desk.query("kettle descaling"), await desk.query(["kettle", "descaling"])
    assert one == two


@pytest.mark.requirement("003.query.invalid-keywords-empty", "003.query.invalid-keywords-format")
@pytest.mark.parametrize("keywords", ["", "   \n\t", "　", [], [""], ["a", " "], 7, True, {}, ["a", 1], None, [["a"]]])
async def test_keywords_that_are_empty_or_no_text(desk: Desk, keywords: Any) -> None:
    assert (await desk.refused("query_experiences", keywords=keywords))["code"] == "INVALID_KEYWORDS"


@pytest.mark.requirement("003.query.invalid-keywords-format", "003.query.envelope-error")
async def test_keywords_that_are_missing(desk: Desk) -> None:
    assert (await desk.refused("query_experiences"))["code"] == "INVALID_KEYWORDS"
    assert (await desk.refused("query_experiences", limit=99))["code"] == "INVALID_LIMIT"


@pytest.mark.requirement("003.query.limit-default", "003.query.offset-default")
async def test_ten_from_the_first_by_default(desk: Desk) -> None:
    await some_kettles(desk, 12)
    shown = await desk.query("kettle")
    assert (shown["limit"], shown["offset"], len(shown["experiences"])) == (10, 0, 10)
    assert shown["experiences"] == (await desk.query("kettle", offset=0, limit=10))["experiences"]


@pytest.mark.requirement("003.query.limit-range", "003.query.limit-echoed", "003.query.offset-echoed")
@pytest.mark.parametrize(("limit", "offset", "shown"), [(1, 0, 1), (50, 0, 50), (50, 5, 47), (7, 51, 1), (7, 52, 0)])
async def test_limit_and_offset_are_applied_and_echoed(desk: Desk, limit: int, offset: int, shown: int) -> None:
    await some_kettles(desk, 52)
    found = await desk.query("kettle", limit=limit, offset=offset)
    assert (found["limit"], found["offset"], found["total"]) == (limit, offset, 52)
    assert len(found["experiences"]) == shown


@pytest.mark.requirement("003.query.invalid-limit")
@pytest.mark.parametrize("limit", [0, -1, 51, 10**30, 1.5, "ten", True, None, [], {}])
async def test_limits_that_are_out_of_range_or_no_number(desk: Desk, limit: Any) -> None:
    assert (await desk.refused("query_experiences", keywords="kettle", limit=limit))["code"] == "INVALID_LIMIT"


@pytest.mark.parametrize(
    "wrong", [{"offset": -1}, {"offset": "x"}, {"offset": None}, {"sort": "best"}, {"colour": "red"}, {"ids": "x"}]
)
async def test_other_wrong_arguments(desk: Desk, wrong: Json) -> None:
    error = await desk.refused("query_experiences", keywords="kettle", **wrong)
    assert error["code"] == "VALIDATION_ERROR"
    assert [problem["field"] for problem in error["validation_errors"]] == list(wrong)


@pytest.mark.requirement("003.query.by-words")
async def test_records_are_found_by_the_words_of_every_field(desk: Desk) -> None:
    fields: Json = {
        "title": "alpha",
        "problem_description": "bravo",
        "root_cause": "charlie",
        "solution": "delta",
        "context": "echo",
        "keywords": ["foxtrot"],
    }
    id = await desk.submit(**fields)
    await desk.submit("golf")
    for word in ("alpha", "bravo", "charlie", "delta", "echo", "foxtrot"):
        assert [hit["id"] for hit in (await desk.query(word))["experiences"]] == [id], word


WRITING = st.text(
    st.one_of(
        st.sampled_from("aAzZ019 _-./()=>'\"\n\t"),
        st.sampled_from("ăâđêôơưĂÂĐÊÔƠƯáàảãạếềểễệ"),
        st.sampled_from("数据库连接超时状态不更新的了"),
        st.characters(codec="utf-8", exclude_characters="\0", exclude_categories=("Cc", "Cs")),
    ),
    min_size=1,
    max_size=40,
).filter(lambda text: text.strip())


@pytest.mark.requirement("003.query.by-words", "003.submit.visible-at-once")
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    derandomize=True,
)
@given(title=WRITING, problem=WRITING, context=WRITING, others=st.lists(WRITING, max_size=3))
async def test_a_record_is_found_by_each_of_its_words(
    make_desk: MakeDesk, title: str, problem: str, context: str, others: list[str]
) -> None:
    desk = make_desk()
    for other in others:
        await desk.submit(other)
    id = await desk.submit(title, problem_description=problem, context=context)
    for word in {word for text in (title, problem, context) for word in text.split() if index_tokens(word)}:
        found = await desk.query(word, limit=50)
        assert id in [hit["id"] for hit in found["experiences"]], word


@pytest.mark.requirement("003.query.total")
@pytest.mark.parametrize("nonsense", ["zxqvblorf", "zxqv blorf the of is", "!!! ??? …", "鑫淼焱", "🏠", "_"])
async def test_nonsense_finds_nothing(desk: Desk, nonsense: str) -> None:
    await desk.submit("The state of the kettle", problem_description="Is it on? 状态不更新的是")
    assert await desk.query(nonsense) == {"experiences": [], "total": 0, "limit": 10, "offset": 0}


@pytest.mark.requirement("003.query.by-meaning")
@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("Đồng bộ dữ liệu bị lỗi", "dong bo du lieu"),
        ("dong bo du lieu bi loi", "Đồng bộ dữ liệu"),
        ("Kết nối cơ sở dữ liệu quá thời gian", "KẾT NỐI CƠ SỞ"),
        (  # the same text, decomposed as macOS writes it
            "Ke\u0302\u0301t no\u0302\u0301i",
            "kết nối",
        ),
        ("数据库连接超时", "超时"),
        ("数据库连接超时", "连接"),
        ("数据库连接超时", "数据库 超时"),
        ("React状态不更新", "状态"),
        ("React状态不更新", "react"),
        ("ＲＥＡＣＴ　ｓｔａｔｅ", "react STATE"),
        ("CAFÉ déjà vu", "cafe deja"),
        ("Straße gesperrt", "STRASSE"),
    ],
)
async def test_the_same_words_in_another_writing_are_found(desk: Desk, written: str, asked: str) -> None:
    """Marks, case, width, composition and missing spaces make no difference. Other words for the same thing, and other
    languages, are in test_003_by_meaning.py."""
    id = await desk.submit(written)
    await desk.submit("Something else altogether")
    assert [hit["id"] for hit in (await desk.query(asked))["experiences"]] == [id]


async def test_two_chinese_characters_that_are_apart_are_not_a_word(desk: Desk) -> None:
    await desk.submit("超市的时间")
    assert await desk.titles("超时") == []


# -- query_experiences: the answer -------------------------------------------------------------------------------------


@pytest.mark.requirement("003.query.envelope", "003.query.total")
async def test_a_success_has_exactly_the_documented_keys(desk: Desk) -> None:
    await some_kettles(desk, 3)
    answer = await desk.ask("query_experiences", {"keywords": "kettle", "limit": 2})
    assert answer == {"success": True, "data": answer["data"]}
    assert answer["data"].keys() == {"experiences", "total", "limit", "offset"}
    assert (answer["data"]["total"], len(answer["data"]["experiences"])) == (3, 2)


@pytest.mark.requirement(
    "003.record.id", "003.record.title", "003.record.problem-description", "003.record.root-cause",
    "003.record.solution", "003.record.context", "003.record.keywords", "003.record.query-count",
    "003.record.created-at", "003.record.relevance-score",
)  # fmt: skip
async def test_a_record_is_what_was_submitted(desk: Desk) -> None:
    written: Json = {
        "title": "Lỗi  hai   dấu cách 状态",
        "problem_description": "  đầu dòng\n\n\ttab ",
        "root_cause": "a < b && c > d \\ \"'`",
        "solution": "x\r\ny",
        "context": "```python\nif x:\n    y()\n```\n",
        "keywords": ["c++", "c#", "小程序"],
    }
    desk.clock.now += 123_456
    id = await desk.submit(**written)
    [found] = (await desk.query("lỗi"))["experiences"]
    assert {name: found[name] for name in written} == written
    assert found["id"] == id == str(uuid.UUID(id))
    assert found["query_count"] == 0
    assert type(found["query_count"]) is int
    assert found["created_at"] == "2026-01-01T00:00:00.123456Z"
    assert datetime.fromisoformat(found["created_at"]).utcoffset() is not None
    assert type(found["relevance_score"]) is float
    assert 0 <= found["relevance_score"] <= 1


@pytest.mark.requirement("003.record.root-cause", "003.record.context", "003.record.keywords")
async def test_optional_parts_that_were_not_given_are_left_out(desk: Desk) -> None:
    await desk.submit("kettle")
    [found] = (await desk.query("kettle"))["experiences"]
    assert "root_cause" not in found
    assert "context" not in found
    assert found["keywords"] == []


@pytest.mark.requirement("003.record.created-at")
async def test_whole_seconds_are_shown_as_the_contract_prints_them(desk: Desk) -> None:
    await desk.submit("kettle")
    [found] = (await desk.query("kettle"))["experiences"]
    assert found["created_at"] == "2026-01-01T00:00:00Z"


@pytest.mark.requirement("003.query.timeout", "003.errors.details-optional")
async def test_a_query_that_takes_too_long(make_desk: MakeDesk) -> None:
    desk = make_desk(settings=ExperienceSettings(query_timeout=1e-6))
    await desk.submit("kettle")
    error = await desk.refused("query_experiences", keywords="kettle")
    assert error == {"code": "TIMEOUT", "message": error["message"]}


@pytest.mark.requirement("003.errors.database-error-query", "003.errors.database-error-submit")
async def test_a_database_that_is_closed(own_desk: Desk) -> None:
    await own_desk.db.aclose()
    assert (await own_desk.refused("query_experiences", keywords="kettle"))["code"] == "DATABASE_ERROR"
    assert (await own_desk.refused("submit_experience", **SMALLEST))["code"] == "DATABASE_ERROR"


@pytest.mark.requirement("003.errors.database-error-query", "003.errors.database-error-submit")
async def test_a_database_that_lost_its_table(own_desk: Desk) -> None:
    await own_desk.submit("kettle")
    await own_desk.db.write(lambda tx: tx.script("ALTER TABLE experiences RENAME TO lost"))
    for error in (
        await own_desk.refused("query_experiences", keywords="kettle"),
        await own_desk.refused("submit_experience", **SMALLEST),
    ):
        assert error["code"] == "DATABASE_ERROR"
        assert not re.search(r"lost|table|experiences|SELECT|INSERT", error["message"])
    await own_desk.db.write(lambda tx: tx.script("ALTER TABLE lost RENAME TO experiences"))
    assert await own_desk.titles("kettle") == ["kettle"]


# -- submit_experience: the rules --------------------------------------------------------------------------------------


@pytest.mark.requirement(
    "003.submit.envelope", "003.submit.id", "003.submit.status-published", "003.submit.visible-at-once",
    "003.submit.root-cause-optional", "003.submit.context-optional", "003.submit.keywords-optional",
)  # fmt: skip
async def test_the_smallest_submission_is_published_and_found_at_once(desk: Desk) -> None:
    answer = await desk.ask("submit_experience", {**SMALLEST, "title": "kettle"})
    assert answer == {"success": True, "data": answer["data"]}
    assert answer["data"].keys() == {"id", "status", "message"}
    assert answer["data"]["status"] == "published"
    assert [hit["id"] for hit in (await desk.query("kettle"))["experiences"]] == [answer["data"]["id"]]


@pytest.mark.requirement("003.submit.visible-at-once")
async def test_a_query_on_another_connection_finds_it_too(own_desk: Desk, request: pytest.FixtureRequest) -> None:
    other: Database
    if own_desk.db.engine == "sqlite":
        other = Sqlite.open(request.getfixturevalue("sqlite_path"))
    else:
        other = AdminPostgres.open(request.getfixturevalue("postgres_schema_url"), PostgresLimits(pool_size=1))
    elsewhere = Desk(other, own_desk.words, tenant=own_desk.tenant)
    try:
        for number in range(10):
            await own_desk.submit(f"kettle{number}")
            assert (await elsewhere.titles(f"kettle{number}"))[0] == f"kettle{number}"
    finally:
        await elsewhere.settle()
        await other.aclose()


@pytest.mark.requirement("003.submit.title-length", "003.submit.invalid-title")
@pytest.mark.parametrize("letter", ["x", "đ", "状", "🏠"])
async def test_a_title_has_one_to_five_hundred_characters(desk: Desk, letter: str) -> None:
    for length in (1, 500):
        assert (await desk.ask("submit_experience", {**SMALLEST, "title": letter * length}))["success"]
    error = await desk.refused("submit_experience", **{**SMALLEST, "title": letter * 501})
    assert error["code"] == "INVALID_TITLE"
    assert [problem["field"] for problem in error["validation_errors"]] == ["title"]


@pytest.mark.requirement("003.submit.invalid-title", "003.submit.envelope-error")
@pytest.mark.parametrize("title", ["", " ", "\n"])
async def test_an_empty_title(desk: Desk, title: str) -> None:
    assert (await desk.refused("submit_experience", **{**SMALLEST, "title": title}))["code"] == "INVALID_TITLE"
    assert await desk.stored() == []


@pytest.mark.requirement(
    "003.submit.missing-required-fields", "003.submit.title-required", "003.submit.problem-description-required",
    "003.submit.solution-required",
)  # fmt: skip
@pytest.mark.parametrize("field", list(SMALLEST))
async def test_a_required_field_that_is_missing(desk: Desk, field: str) -> None:
    without = {name: value for name, value in SMALLEST.items() if name != field}
    for fields in (without, {**without, field: None}):
        error = await desk.refused("submit_experience", **fields)
        assert error["code"] == "MISSING_REQUIRED_FIELDS"
        assert [problem["field"] for problem in error["validation_errors"]] == [field]
        assert field in error["message"]
    assert await desk.stored() == []


@pytest.mark.requirement("003.submit.missing-required-fields", "003.submit.validation-errors")
async def test_every_missing_field_is_named(desk: Desk) -> None:
    error = await desk.refused("submit_experience")
    assert [problem.keys() for problem in error["validation_errors"]] == [{"field", "message"}] * 3
    assert {problem["field"] for problem in error["validation_errors"]} == set(SMALLEST)


@pytest.mark.requirement("003.submit.problem-description-not-empty", "003.submit.solution-not-empty")
@pytest.mark.parametrize("field", ["problem_description", "solution"])
@pytest.mark.parametrize("empty", ["", "  \n", "　"])
async def test_a_required_field_that_is_empty(desk: Desk, field: str, empty: str) -> None:
    error = await desk.refused("submit_experience", **{**SMALLEST, field: empty})
    assert error["code"] == "MISSING_REQUIRED_FIELDS"
    assert [problem["field"] for problem in error["validation_errors"]] == [field]


@pytest.mark.requirement("003.submit.root-cause-not-empty", "003.submit.validation-error")
async def test_a_root_cause_that_is_given_but_empty(desk: Desk) -> None:
    error = await desk.refused("submit_experience", **{**SMALLEST, "root_cause": ""})
    assert error["code"] == "VALIDATION_ERROR"
    assert [problem["field"] for problem in error["validation_errors"]] == ["root_cause"]


@pytest.mark.requirement("003.submit.context-optional")
@pytest.mark.parametrize("empty", ["", "  \n"])
async def test_an_empty_context_is_one_that_is_left_out(desk: Desk, empty: str) -> None:
    id = await desk.submit("kettle", context=empty)
    assert "context" not in await desk.get(id)


@pytest.mark.requirement("003.submit.validation-error", "003.submit.validation-errors", "003.submit.keywords-array")
@pytest.mark.parametrize(
    ("wrong", "fields"),
    [
        ({"title": 5}, ["title"]),
        ({"solution": ["s"], "problem_description": {}}, ["problem_description", "solution"]),
        ({"keywords": "react"}, ["keywords"]),
        ({"keywords": {"0": "react"}}, ["keywords"]),
        ({"keywords": [1]}, ["keywords.0"]),
        ({"keywords": ["ok", None]}, ["keywords.1"]),
        ({"keywords": [f"k{number}" for number in range(101)]}, ["keywords"]),
        ({"context": 1, "root_cause": False}, ["root_cause", "context"]),
        ({"solution": "s" * 100_001}, ["solution"]),
        ({"status": "draft"}, ["status"]),
    ],
)
async def test_values_that_break_another_rule(desk: Desk, wrong: Json, fields: list[str]) -> None:
    error = await desk.refused("submit_experience", **{**SMALLEST, **wrong})
    assert error["code"] == "VALIDATION_ERROR"
    assert [problem["field"] for problem in error["validation_errors"]] == fields
    assert all(problem["message"] for problem in error["validation_errors"])
    assert await desk.stored() == []


@pytest.mark.requirement("003.submit.validation-error")
@pytest.mark.parametrize("wrong", ["a\0b", "\ud800"])
async def test_text_that_no_database_can_hold(desk: Desk, wrong: str) -> None:
    for fields in ({"solution": wrong}, {"keywords": [wrong]}, {wrong: "x"}):
        assert (await desk.refused("submit_experience", **{**SMALLEST, **fields}))["code"] == "VALIDATION_ERROR"


@pytest.mark.parametrize("arguments", [[], "text", 5, None])
async def test_arguments_that_are_no_object(desk: Desk, arguments: Any) -> None:
    for operation in ("submit_experience", "query_experiences"):
        answer = await desk.ask(operation, arguments)
        assert (answer["success"], answer["error"]["code"]) == (False, "VALIDATION_ERROR")


@pytest.mark.requirement("003.submit.keywords-length")
@pytest.mark.parametrize(("keyword", "fits"), [("x", 1), ("状" * 100, 1), ("x" * 101, 0), ("", 0), ("  ", 0)])
async def test_a_keyword_has_one_to_a_hundred_characters(desk: Desk, keyword: str, fits: int) -> None:
    answer = await desk.ask("submit_experience", {**SMALLEST, "keywords": ["fine", keyword]})
    assert answer["success"] == bool(fits)
    if not fits:
        assert answer["error"]["code"] == "VALIDATION_ERROR"


@pytest.mark.requirement(
    "003.submit.keywords-lower-case", "003.submit.keywords-trimmed", "003.submit.keywords-optional",
    "003.submit.keywords-array",
)  # fmt: skip
async def test_keywords_are_kept_in_lower_case_and_trimmed(desk: Desk) -> None:
    given = ["  React ", "TypeScript", "ĐỒNG BỘ", "\tnode js\n", "react", "小程序", " " + "X" * 100 + " "]
    id = await desk.submit(keywords=given)
    assert (await desk.get(id))["keywords"] == ["react", "typescript", "đồng bộ", "node js", "小程序", "x" * 100]


@pytest.mark.requirement("003.submit.context-sanitized", "003.submit.context-not-sanitized")
async def test_code_is_accepted_once_its_secrets_are_masked(desk: Desk) -> None:
    code = "client = Client(\n    password='{}',\n    url='postgres://app:{}@db.example.com/app'\n)"
    raw = code.format("hT9#kLm2$vQx", "hT9kLm2vQx81")
    error = await desk.refused("submit_experience", **{**SMALLEST, "context": raw})
    assert error["code"] == "CONTEXT_NOT_SANITIZED"
    assert {problem["field"] for problem in error["validation_errors"]} == {"context"}
    assert "hT9" not in str(error)
    assert await desk.stored() == []
    id = await desk.submit(context=code.format("<password>", "<password>"))
    assert (await desk.get(id))["context"] == code.format("<password>", "<password>")


@pytest.mark.requirement("003.submit.context-sanitized")
async def test_the_masked_text_is_offered_and_then_accepted(desk: Desk) -> None:
    unmasked = {**SMALLEST, "context": f"key {SECRET} in the log"}
    error = await desk.refused("submit_experience", **unmasked, sanitize=True)
    assert error["code"] == "CONTEXT_NOT_SANITIZED"
    assert error["details"].keys() == {"sanitized"}
    masked: Json = error["details"]["sanitized"]
    assert masked.keys() == {"context"}
    assert SECRET not in str(error)
    assert masked["context"].startswith("key ")
    assert masked["context"].endswith(" in the log")
    assert await desk.stored() == []
    id = (await desk.done("submit_experience", **{**unmasked, **masked}))["id"]
    assert (await desk.get(id))["context"] == masked["context"]


@pytest.mark.parametrize("field", ["title", "problem_description", "root_cause", "solution", "keywords"])
async def test_secrets_are_refused_in_every_field(desk: Desk, field: str) -> None:
    value: Any = [SECRET] if field == "keywords" else f"the key {SECRET}"
    error = await desk.refused("submit_experience", **{**SMALLEST, field: value})
    assert error["code"] == "CONTEXT_NOT_SANITIZED"
    assert [problem["field"].partition("[")[0] for problem in error["validation_errors"]] == [field]


async def test_personal_data_is_refused_where_others_read_and_mentioned_where_not(desk: Desk) -> None:
    written = {**SMALLEST, "context": "ask mai.nguyen@fpt-software.vn"}
    shared = await desk.ask("submit_experience", written, kind="key")
    assert shared["error"]["code"] == "CONTEXT_NOT_SANITIZED"
    local = await desk.done("submit_experience", **written)
    assert local.keys() == {"id", "status", "message"}
    assert local["message"].startswith("Experience record created and published successfully")
    assert "personal data" in local["message"]


# -- errors, access, times ---------------------------------------------------------------------------------------------


@pytest.mark.requirement("003.errors.envelope", "003.errors.details-optional", "003.query.envelope-error")
async def test_failures_have_one_form_and_details_only_where_there_are_any(desk: Desk) -> None:
    bare = await desk.refused("query_experiences", keywords=None)
    assert bare.keys() == {"code", "message"}
    id = await desk.submit()
    detailed = await desk.refused("update_experience", id=id, expected_revision=9, title="x")
    assert detailed.keys() == {"code", "message", "details"}
    for operation in (
        "get_experience",
        "update_experience",
        "delete_experience",
        "restore_experience",
        "rate_experience",
    ):
        assert (await desk.refused(operation))["code"] in {"VALIDATION_ERROR", "MISSING_REQUIRED_FIELDS"}


@pytest.mark.requirement("003.access.no-quota")
async def test_there_is_no_quota(desk: Desk) -> None:
    submissions = [desk.ask("submit_experience", {**SMALLEST, "title": f"kettle {number}"}) for number in range(25)]
    queries = [desk.ask("query_experiences", {"keywords": "kettle"}) for _ in range(50)]
    assert all(answer["success"] for answer in await asyncio.gather(*submissions, *queries))


@pytest.mark.requirement("003.time.query", "003.time.submit")
def test_the_bench_judges_response_times_by_the_contract() -> None:
    """The figures themselves are measured by bench/experiences.py at 100,000 records and 32 clients; a test on a
    busy machine would measure the machine. What is shown here is that the bench judges as the contract says."""
    quick = [0.1] * 1000
    assert verdict(quick, quick)
    assert verdict([1.9] * 1000, [0.9] * 1000)
    assert verdict([0.1] * 920 + [9.0] * 80, quick)
    assert not verdict([0.1] * 880 + [9.0] * 120, quick)
    assert verdict(quick, [0.1] * 960 + [9.0] * 40)
    assert not verdict(quick, [0.1] * 940 + [9.0] * 60)
    assert not verdict([2.1] * 1000, quick)
    assert not verdict(quick, [1.1] * 1000)


@pytest.mark.requirement("003.time.query", "003.time.submit")
def test_nine_of_ten_and_nineteen_of_twenty_are_enough() -> None:
    assert verdict([0.1] * 9 + [9.0], [0.1] * 19 + [9.0])
    assert not verdict([0.1] * 8 + [9.0] * 2, [0.1] * 20)
    assert not verdict([0.1] * 10, [0.1] * 18 + [9.0] * 2)


async def test_tenants_are_apart(make_desk: MakeDesk) -> None:
    ours, theirs = make_desk(), make_desk()
    id = await ours.submit("kettle")
    assert await theirs.titles("kettle") == []
    assert (await theirs.done("query_experiences", ids=[id]))["experiences"] == []
    for operation, arguments in (
        ("get_experience", {}),
        ("update_experience", {"expected_revision": 1, "title": "mine"}),
        ("rate_experience", {"helpful": True}),
        ("delete_experience", {}),
        ("restore_experience", {}),
    ):
        foreign = await theirs.refused(operation, id=id, **arguments)
        unknown = await theirs.refused(operation, id=str(uuid.uuid4()), **arguments)
        assert foreign == unknown
        assert foreign["code"] == "NOT_FOUND"
    assert await theirs.stored() == []
    assert (await ours.get(id))["title"] == "kettle"
    assert "similar" not in (await theirs.done("submit_experience", **{**SMALLEST, "title": "kettle"}))["message"]


async def test_every_statement_names_the_tenant(desk: Desk) -> None:
    """Rows of all tables of the slice carry it."""
    id = await desk.submit("kettle")
    await desk.done("update_experience", id=id, expected_revision=1, title="pot")
    await desk.done("rate_experience", id=id, helpful=True)

    def work(tx: Tx) -> list[Any]:
        tables = ("experiences", "experience_revisions", "experience_feedback", "passages")
        return [tx.one(f"SELECT COUNT(*) FROM {table} WHERE tenant = $1", desk.tenant) for table in tables]

    assert await desk.db.read(work) == [(1,)] * 4
