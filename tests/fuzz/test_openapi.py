"""Schemathesis reads /openapi.json and sends what it allows and what it forbids; answers must be what it promises."""

from importlib import import_module
from typing import Any

import pytest
from tests.fuzz.attacks import explore
from tests.fuzz.budget import DESCRIBED, share
from tests.fuzz.target import Answer, Request, Target, sent

# Its types have holes, hence untyped here.
schemathesis: Any = import_module("schemathesis")
checks: Any = import_module("schemathesis.specs.openapi.checks")

CHECKS = [
    import_module("schemathesis.checks").not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
ALLOWED, FORBIDDEN = schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE
# Where there is much to get wrong, more is tried. What /actions takes is one schema of many, and any text is the name
# of a server that may exist: there Schemathesis knows nothing that is forbidden.
PARTS: list[tuple[str, str, Any, int]] = [
    ("/actions", "POST", ALLOWED, 50),
    ("/jsonrpc", "POST", ALLOWED, 20),
    ("/jsonrpc", "POST", FORBIDDEN, 20),
    ("/servers/{name}/capabilities", "GET", ALLOWED, 10),
]


@pytest.mark.parametrize(
    ("path", "method", "mode", "percent"), PARTS, ids=[f"{path}-{mode.value}" for path, _, mode, _ in PARTS]
)
def test_what_is_described(target: Target, path: str, method: str, mode: Any, percent: int) -> None:
    address = f"http://127.0.0.1:{target.port}"

    def send(case: Any) -> None:
        sent["openapi " + path] += 1
        response = case.call(base_url=address)
        body = response.request.body or b""
        request = Request(case.formatted_path, body if isinstance(body, bytes) else body.encode(), method=method)
        headers = {name.lower(): ", ".join(values) for name, values in response.headers.items()}
        target.judge(request, Answer(response.status_code, headers, response.content))
        case.validate_response(response, checks=CHECKS)

    operation = schemathesis.openapi.from_url(f"{address}/openapi.json")[path][method]
    explore(operation.as_strategy(generation_mode=mode), send, share("openapi", percent))


@pytest.mark.parametrize("path", DESCRIBED)
def test_what_takes_no_arguments(target: Target, path: str) -> None:
    address = f"http://127.0.0.1:{target.port}"
    sent["openapi " + path] += 1
    case = schemathesis.openapi.from_url(f"{address}/openapi.json")[path]["GET"].Case()
    case.call_and_validate(base_url=address, checks=CHECKS)
