"""The small parts of the kernel: pages, times, values, fields, keys, calls, errors."""

import time
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, ValidationError

from kho.kernel import api_keys, paging
from kho.kernel.api_keys import ApiKey
from kho.kernel.call import Call, Principal, until
from kho.kernel.errors import Conflict, Forbidden, InvalidParams, KhoError, Timeout
from kho.kernel.params import Id, Strings, Whole
from kho.kernel.validation import MAX_NAME, check_values
from kho.lib.clock import DAY, from_iso, iso, system_clock
from kho.lib.jsonrpc import MAX_DEPTH
from kho.lib.markdown import counted
from kho.lib.shown_time import day, local_times, minute, second

# -- pages -------------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(st.integers(), max_size=30), st.integers(1, 10))
def test_pages_put_together_are_the_list(items: list[int], size: int) -> None:
    seen: list[int] = []
    cursor = None
    while True:
        page, cursor = paging.page(items, cursor, size)
        seen += page
        assert len(page) <= size
        if cursor is None:
            break
        assert len(page) == size
    assert seen == items


@pytest.mark.parametrize("position", [0, 7, "đ/x", [1, None], {"a": 1}])
def test_a_cursor_comes_back_as_it_went(position: Any) -> None:
    cursor = paging.encode(position)
    assert cursor.replace("-", "").replace("_", "").isalnum()
    assert paging.decode(cursor) == position


@pytest.mark.parametrize("cursor", ["?", "é", "bm9wZQ", "a", "%%%%", " "])
def test_a_cursor_that_nobody_gave_out(cursor: str) -> None:
    with pytest.raises(InvalidParams):
        paging.decode(cursor)


@pytest.mark.parametrize("position", [-1, 4, "1", True, 1.0, None, [0]])
def test_a_cursor_of_another_list(position: Any) -> None:
    with pytest.raises(InvalidParams):
        paging.page([1, 2, 3], paging.encode(position), 2)


def test_the_place_of_a_page_comes_back_in_its_parts() -> None:
    assert paging.place(None, int, str) is None
    assert paging.place(paging.encode([7, "đ/x"]), int, str) == (7, "đ/x")
    assert paging.place(paging.encode([0, None]), int, str | None) == (0, None)


@pytest.mark.parametrize(
    "position", [7, "x", None, {}, [], [7], [7, "x", 1], ["x", 7], [True, "x"], [7.0, "x"], [7, None]]
)
def test_a_place_in_another_list_is_refused(position: Any) -> None:
    with pytest.raises(InvalidParams, match="does not belong to this list") as refused:
        paging.place(paging.encode(position), int, str)
    assert refused.value.details == {"field": "cursor"}


# -- times -------------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.integers(from_iso("0001-01-01"), from_iso("9999-12-31T23:59:59.999999")))
def test_a_time_is_the_same_after_text(micros: int) -> None:
    text = iso(micros)
    assert from_iso(text) == micros
    assert text.endswith("Z")


def test_times_are_printed_as_the_contracts_print_them() -> None:
    assert iso(from_iso("2025-01-20T10:30:00Z")) == "2025-01-20T10:30:00Z"
    assert iso(from_iso("2025-01-20T10:30:00.5+07:00")) == "2025-01-20T03:30:00.500000Z"
    assert from_iso("2025-01-20T10:30:00") == from_iso("2025-01-20T10:30:00Z")
    assert from_iso("1970-01-02") == DAY
    with pytest.raises(ValueError, match="Invalid isoformat"):
        from_iso("yesterday")


def test_sentences_count_and_tell_the_time() -> None:
    assert [counted(number, "file") for number in (0, 1, 2, 1_200)] == ["0 files", "1 file", "2 files", "1,200 files"]
    assert minute("2026-07-28T09:00:05.000001Z") == "2026-07-28 09:00 UTC"


def test_times_are_local_where_a_person_reads_them_and_always_name_their_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    late = "2026-07-28T19:30:05.000001Z"
    monkeypatch.setenv("TZ", "Asia/Ho_Chi_Minh")
    time.tzset()
    try:
        with local_times():
            assert (minute(late), second(late)) == ("2026-07-29 02:30 +07", "2026-07-29 02:30:05 +07")
            assert (day(late), day("")) == ("2026-07-29", "")
            assert minute("9999-12-31T23:59:59Z") == "9999-12-31T23:59:59Z"
        assert (minute(late), day(late)) == ("2026-07-28 19:30 UTC", "2026-07-28")
    finally:
        monkeypatch.undo()
        time.tzset()


def test_the_clock_is_the_systems() -> None:
    assert abs(system_clock() - time.time() * 1e6) < 60e6


# -- values ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({"a": "x\0y"}, "a"),
        ({"a": ["x", "\ud800"]}, "a[1]"),
        ({"a": {"b": [{"c": "é\0"}]}}, "a.b[0].c"),
        ({"bad\0key": 1}, ""),
        ({"bad\ud800key": 1}, ""),
        ("\0", ""),
        (["\0"], "[0]"),
        ({"k\0": {"x": "\0"}}, ""),
    ],
)
def test_text_that_one_database_would_refuse(value: Any, field: str) -> None:
    with pytest.raises(InvalidParams) as refused:
        check_values(value)
    assert refused.value.details["field"] == field


@pytest.mark.parametrize("value", [None, 1, True, "é\n\t\x01", {"đ": [1, {"🏠": "状"}]}, [], {}, "x" * 1_000_000])
def test_everything_else_passes(value: Any) -> None:
    check_values(value)


def test_a_path_is_put_together_only_for_what_is_wrong() -> None:
    class Key(str):
        def __format__(self, spec: str) -> str:
            raise AssertionError("nothing is wrong below this key")

    check_values({Key("a"): [0, "x", {Key("b"): [1, 2]}]})
    with pytest.raises(InvalidParams) as refused:
        check_values({"k" * 1_000_000: ["\0"]})
    assert refused.value.details["field"] == "k" * MAX_NAME


def test_nesting_is_bounded() -> None:
    value: Any = "x"
    for _ in range(MAX_DEPTH):
        value = [value]
    check_values(value)
    with pytest.raises(InvalidParams, match="nested more than"):
        check_values([value])
    for _ in range(100_000):
        value = {"a": value}
    with pytest.raises(InvalidParams):
        check_values(value)


# -- fields ------------------------------------------------------------------------------------------------------------


class Fields(BaseModel):
    model_config = ConfigDict(extra="forbid")
    whole: Annotated[int, Whole] = 0
    strings: Strings = []
    id: Id = "x"


def test_fields_take_what_clients_really_send() -> None:
    assert Fields(whole="7").whole == 7  # type: ignore[arg-type]
    assert Fields(strings='["a", "b"]').strings == ["a", "b"]  # type: ignore[arg-type]
    assert Fields(id="A-z_0.9:/-".replace("_", "")).id == "A-z0.9:/-"


@pytest.mark.parametrize(
    "wrong",
    [
        {"whole": True}, {"whole": 1.5}, {"whole": "x"}, {"strings": "a"}, {"strings": "[1"}, {"strings": [1]},
        {"id": ""}, {"id": "a b"}, {"id": "x" * 129}, {"id": "a\n"}, {"id": "đ"}, {"id": 1},
    ],
)  # fmt: skip
def test_fields_refuse(wrong: Any) -> None:
    with pytest.raises(ValidationError):
        Fields.model_validate(wrong)


def test_a_list_that_comes_as_text_is_bounded_as_any_other() -> None:
    with pytest.raises(ValidationError, match="more than 100,000 values"):
        Fields.model_validate({"strings": "[" + "0," * 100_000 + "0]"})


# -- keys --------------------------------------------------------------------------------------------------------------


def test_a_key_is_recognised_by_its_digest_only() -> None:
    id, text, digest = api_keys.mint()
    key = ApiKey(id, "bot", "acme", ("*",), digest, 0)
    assert text.startswith(f"kho_{id}_")
    assert text not in repr(key)
    assert api_keys.public_id(text) == id
    assert api_keys.matches(text, key)
    assert not api_keys.matches(text + "x", key)
    assert not api_keys.matches(text[:-1], key)
    assert api_keys.mint()[1] != text


@pytest.mark.parametrize(
    "text", ["", "kho", "kho_", "kho_abc_x", "kho_12345678", "xxx_12345678_x", "Bearer kho_12345678_x"]
)
def test_what_is_no_key(text: str) -> None:
    assert api_keys.public_id(text) is None


def test_a_key_is_valid_until_it_expires_or_is_revoked() -> None:
    assert ApiKey("i", "s", "t", (), "d", 0).valid(10)
    assert ApiKey("i", "s", "t", (), "d", 0, expires_at=11).valid(10)
    assert not ApiKey("i", "s", "t", (), "d", 0, expires_at=10).valid(10)
    assert not ApiKey("i", "s", "t", (), "d", 0, revoked_at=5).valid(10)


# -- calls and errors --------------------------------------------------------------------------------------------------


def call(*scopes: str, **more: Any) -> Call:
    return Call(Principal("somebody", "acme", frozenset(scopes)), **more)


def test_a_scope_is_had_by_name_or_by_the_star() -> None:
    call("exp:read").need("exp:read")
    call("*").need("exp:write")
    with pytest.raises(Forbidden) as refused:
        call("exp:read").need("exp:write")
    assert refused.value.details == {"scope": "exp:write"}


def test_what_remains_of_a_deadline() -> None:
    assert call().remaining(5.0) == 5.0
    assert call(deadline=time.monotonic() + 100).remaining(5.0) == 5.0
    assert 90 < call(deadline=time.monotonic() + 100).remaining(1000.0) <= 100
    with pytest.raises(Timeout):
        call(deadline=time.monotonic() - 1).remaining(5.0)


def test_pieces_of_work_share_a_deadline() -> None:
    left = until(60)
    first = left()
    assert 0 < left() <= first <= 60
    with pytest.raises(Timeout):
        until(0)()


def test_request_ids_are_fresh() -> None:
    assert call().request_id != call().request_id


def test_an_error_says_what_its_class_says_unless_told_otherwise() -> None:
    assert Conflict().message == "It changed meanwhile, or the name is taken. Read it again, then retry."
    assert Conflict("taken").as_dict() == {"code": "CONFLICT", "message": "taken"}
    assert Conflict("taken", id="x").as_dict() == {"code": "CONFLICT", "message": "taken", "details": {"id": "x"}}
    assert (KhoError.code, KhoError.rpc, KhoError.status) == ("INTERNAL", -32603, 500)


def test_every_error_has_a_code_and_a_text_of_its_own() -> None:
    kinds = [KhoError, *KhoError.__subclasses__()]
    kernel = [kind for kind in kinds if kind.__module__ == "kho.kernel.errors"]
    assert len({kind.code for kind in kernel}) == len(kernel) >= 9
    assert all(kind.__doc__ for kind in kernel)
    assert all(400 <= kind.status < 600 for kind in kernel)
