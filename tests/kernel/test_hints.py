"""Guidance names operations as they are called at the caller's own door."""

import pytest
from pydantic import BaseModel, ValidationError
from tests.kernel.test_registry import EVERYTHING, Params, Result, operation, registry

from kho.kernel.call import Call, Principal
from kho.kernel.errors import NotFound
from kho.kernel.hints import Arg, Hint, Op, Sentence, presenting, say


async def lost(params: Params, call: Call) -> Result:
    every, one, none = Op("things_list"), Op("things_list", size=3, name='a "b"'), Op("nowhere")
    raise NotFound(guidance=Hint(every, " names them, not things_list nor things/list; ", one, "; else ", none, "."))


@pytest.mark.parametrize(
    ("door", "listed"), [("mcp", "things_list"), ("jsonrpc", "things/list"), ("actions", "list_them")]
)
async def test_guidance_names_operations_as_the_door_does_and_leaves_prose_alone(door: str, listed: str) -> None:
    get = operation("things.get", run=lost)
    named = operation("things.list", tool="things_list", rpc="things/list", action="list_them")
    outcome = await registry(get, named).call(get, {}, Call(EVERYTHING, door))
    assert outcome.error is not None
    assert outcome.error.as_dict()["guidance"] == (
        f'{listed} names them, not things_list nor things/list; {listed}(size=3, name="a \\"b\\""); else nowhere.'
    )


async def test_an_operation_that_a_door_does_not_serve_keeps_the_name_of_its_tool() -> None:
    get = operation("things.get", run=lost)
    outcome = await registry(get, operation("things_list", rpc=None)).call(get, {}, Call(EVERYTHING, "jsonrpc"))
    assert outcome.error is not None
    assert outcome.error.guidance.startswith("things_list names them")


def test_hints_are_put_together_without_losing_what_they_name() -> None:
    both = Hint.of(["One.", Hint("Then ", Op("two"), "."), Hint("Give ", Arg("force", True), " or ", Arg("top", "3m"))])
    assert both == "One. Then two. Give `force=true` or `top=3m`"
    assert [str(part) for part in both.parts if not isinstance(part, str)] == ["two", "`force=true`", "`top=3m`"]
    assert Hint("Again: ", both).spelt(lambda reference: f"<{reference.name}>") == (
        "Again: One. Then <two>. Give <force> or <top>"
    )


class Answer(BaseModel):
    message: Sentence
    note: Sentence | None = None


def test_a_result_keeps_a_hint_and_is_a_text_in_json() -> None:
    answer = Answer(message=Hint("See ", Op("two")), note="plain")
    assert isinstance(answer.message, Hint)
    assert answer.model_dump(mode="json") == {"message": "See two", "note": "plain"}
    assert Answer.model_json_schema()["properties"]["message"] == {"title": "Message", "type": "string"}
    with pytest.raises(ValidationError):
        Answer.model_validate({"message": 3})


def test_a_presenter_escapes_what_others_wrote_and_writes_references_as_the_door_does() -> None:
    hint = Hint("There is  '[a](b)'\n already: ", Op("two", name="[a](b)"), " shows it.")
    assert say(hint) == r"There is '\[a\](b)' already: two(name=\"\[a\](b)\") shows it.".replace('\\"', '"')
    with presenting(lambda reference: f"`kho {reference.name} [a]`"):
        assert say(hint) == r"There is '\[a\](b)' already: `kho two [a]` shows it."
    assert say("more: ", Arg("cursor", "x")) == "more: `cursor=x`"


async def test_who_lacks_a_scope_is_told_what_has_it() -> None:
    for kind, lacking in (("local", "has only on the command line"), ("key", "the credential does not have")):
        stranger = Principal("stranger", "acme", frozenset({"*"}), kind)
        found = operation("things.purge", scope="admin")
        error = (await registry(found).call(found, {}, Call(stranger))).error
        assert error is not None
        assert lacking in error.message
        assert "kho keys create NAME --scope admin" in error.guidance
