"""T15: an error or the health page tells what is inside: paths, statements, libraries, addresses."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.doors.doors import served

from kho import app
from kho.settings import Settings

pytestmark = pytest.mark.anyio

INSIDE = re.compile(
    rf"Traceback|{re.escape(str(Path(app.__file__).parents[1]))}|site-packages|postgresql://|\bSELECT\b|\bINSERT INTO\b"
    r"|sqlite|apsw|psycopg|pydantic|starlette|uvicorn|KeyError|TypeError|line \d+, in ",
    re.IGNORECASE,
)
ODD: tuple[Any, ...] = (
    None,
    5,
    -1,
    2**63 - 1,
    "",
    "\x00",
    "x" * 5_000,
    [],
    {},
    {"a": {"b": []}},
    True,
    "../../etc/passwd",
)


async def test_t15_no_error_tells_what_is_inside(both_settings: Settings) -> None:
    async with served(both_settings) as hub:
        for action, field in (
            ("get_document", "document_id"), ("search", "query"), ("remember", "text"), ("fetch", "id"),
            ("ingest_documents", "path"), ("query_experiences", "keywords"), ("memory_list", "cursor"),
            ("list_facts", "cursor"), ("upload_document", "content"), ("fetch_url", "url"), ("audit_log", "since"),
        ):  # fmt: skip
            for value in ODD:
                answer = await hub.act(action, {field: value})
                assert answer.status_code < 500, (action, value, answer.text)
                assert not INSIDE.search(answer.text), (action, value, answer.text)
                assert str(both_settings.home) not in answer.text
        for path in (
            "/nowhere",
            "/servers/x/capabilities",
            "/open/doc:x",
            "/mcp",
            "/xiaozhi/ota/x",
            "/%00",
            "/../../etc",
        ):
            for method in ("GET", "POST", "DELETE", "PUT"):
                answer = await hub.http.request(method, path, json={})
                assert answer.status_code < 500
                assert not INSIDE.search(answer.text), (method, path, answer.text)


async def test_t15_the_health_page_says_whether_it_works_and_no_more(both_settings: Settings) -> None:
    async with served(both_settings) as hub:
        assert set((await hub.get("/health")).json()) == {"status", "servers"}
        server = (await hub.get("/health")).headers.get("server", "")
        assert server == ""
