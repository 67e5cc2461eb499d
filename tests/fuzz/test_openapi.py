"""Schemathesis reads /openapi.json and sends what it allows and what it forbids; answers must be what it promises."""

from typing import Any

import pytest
import schemathesis
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.fuzz.attacks import explore
from tests.fuzz.budget import share
from tests.fuzz.target import Answer, Request, Target, sent

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


@pytest.mark.parametrize("mode", [0, 1], ids=["allowed", "forbidden"])
def test_openapi(target: Target, mode: int) -> None:
    schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{target.port}/openapi.json")
    generation = [GenerationMode.POSITIVE, GenerationMode.NEGATIVE][mode]

    def send(case: Case) -> None:
        sent["openapi " + case.path] += 1
        response = case.call(base_url=f"http://127.0.0.1:{target.port}")
        body: Any = response.request.body if response.request is not None else b""
        request = Request(case.formatted_path, body if isinstance(body, bytes) else str(body).encode(), method=case.method)
        headers = {name.lower(): ", ".join(values) for name, values in response.headers.items()}
        target.judge(request, Answer(response.status_code, headers, response.content))
        case.validate_response(response, checks=CHECKS)

    operations = [found.ok() for found in schema.get_all_operations()]
    explore(st.one_of([operation.as_strategy(generation_mode=generation) for operation in operations]), send, share("openapi", mode, 2))
