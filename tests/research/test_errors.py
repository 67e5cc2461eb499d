"""The contract's errors: a number per category, a string code of its own for each, and what to do about it."""

from collections.abc import Iterator

import pytest
from pydantic import ValidationError

from kho.kernel.errors import KhoError
from kho.kernel.operation import Operation, Problem
from kho.kernel.params import Result
from kho.research import errors, model

CATEGORIES = {
    errors.SystemError_: -32000,
    errors.ConfigurationError: -32001,
    errors.CollectionError: -32002,
    errors.DocumentError: -32003,
    errors.QueryError: -32004,
}


def below(kind: type[KhoError]) -> Iterator[type[KhoError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from below(child)


@pytest.mark.parametrize(("category", "number"), CATEGORIES.items())
def test_every_error_has_its_categorys_number_and_a_guidance(category: type[KhoError], number: int) -> None:
    for kind in below(category):
        error = kind()
        assert error.contract_code == number
        assert 400 <= error.status < 600
        assert error.contract_form().keys() == {"code", "contract_code", "message", "details", "guidance"}
        assert all(error.contract_data().values())


def test_codes_are_distinct() -> None:
    codes = [kind.code for category in CATEGORIES for kind in below(category)]
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize(
    ("refuse", "number"),
    [
        (errors.invalid_query, -32004),
        (errors.invalid_collections, -32002),
        (errors.invalid_projects, -32001),
        (errors.invalid_documents, -32003),
    ],
)
def test_wrong_parameters_are_named_in_the_tools_category(refuse: errors.Refuse, number: int) -> None:
    error = refuse([Problem("query", "missing", "is required"), Problem("top_k", "int", "Input should be less")])
    assert (error.contract_code, error.status, error.message) == (number, 400, "'query' is required.")
    assert "top_k: Input should be less" in error.contract_data()["details"]
    assert refuse([Problem("", "value_error", "Text must not contain NUL.")]).message == (
        "The arguments: Text must not contain NUL."
    )


def test_a_parameter_that_an_action_needs_is_named() -> None:
    error = errors.missing(errors.InvalidCollectionRequest, "new_name", "rename")
    assert error.message == "'new_name' is required for the action 'rename'."
    assert error.details["parameter"] == "new_name"


PARAMS = [kind for kind in vars(model).values() if isinstance(kind, type) and issubclass(kind, model.Asked)]


@pytest.mark.parametrize("params", PARAMS, ids=lambda kind: kind.__name__)
def test_every_parameter_is_described_and_null_is_as_if_absent(params: type[model.Asked]) -> None:
    async def run(params: object, call: object) -> None:
        return None

    schema = Operation("research.x", "", params, run, "x", result=Result).input_schema
    for name, field in schema["properties"].items():
        assert field.get("description"), name
        assert len(field["description"]) <= 120, name
    required: list[str] = schema.get("required", [])
    if not required:
        given = params.model_validate(dict.fromkeys(schema["properties"]))
        assert given == params()
    for name in required:
        with pytest.raises(ValidationError, match="Field required"):
            params.model_validate({name: None})


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("a,b", ["a", "b"]),
        (" a , ,b, A ", ["a", "b"]),
        (["a", "b"], ["a", "b"]),
        ('["a", "b"]', ["a", "b"]),
        ("[draft]", ["[draft]"]),
        ("", []),
        (None, None),
    ],
)
def test_collections_are_text_or_a_list(given: object, names: list[str] | None) -> None:
    assert model.QueryKnowledgeBase.model_validate({"query": "x", "collections": given}).collections == names


@pytest.mark.parametrize(
    "wrong",
    [
        {"query": ""},
        {"query": "  "},
        {"query": "x" * (model.MAX_QUERY + 1)},
        {"query": 5},
        {"query": "x", "top_k": 0},
        {"query": "x", "top_k": 101},
        {"query": "x", "top_k": 2.5},
        {"query": "x", "top_k": True},
        {"query": "x", "collections": 5},
        {"query": "x", "collections": [5]},
        {"query": "x", "collections": "a\x00b"},
        {"query": "x", "collections": [f"c{number}" for number in range(model.MAX_NAMES + 1)]},
        {"query": "x", "neighbours": 6},
        {"query": "x", "unknown": 1},
    ],
)
def test_wrong_values_of_a_query_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        model.QueryKnowledgeBase.model_validate(wrong)


def test_the_contracts_defaults() -> None:
    query = model.QueryKnowledgeBase.model_validate({"query": "x"})
    assert (query.top_k, query.collections, query.document_context) == (10, None, None)
    assert not model.IngestDocuments.model_validate({"path": "/x", "collection": "c"}).recursive
