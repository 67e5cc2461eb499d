"""Two small pages for people: `/`, which says what this is, and `/open/{id}`, where the links of `search` lead.

They work without script, and stored text is escaped: it was written by others.
"""

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from html import escape
from typing import Any
from urllib.parse import quote

from starlette.types import Send

from kho.doors.http.asgi import error_headers, send_bytes, send_error
from kho.kernel.call import Call, Principal
from kho.kernel.errors import KhoError, NotFound
from kho.kernel.registry import Registry

FETCH = "fetch"
"""The tool that reads an item by its global id."""
STYLE = (
    "body{font:1rem/1.5 system-ui,sans-serif;max-width:45rem;margin:2rem auto;padding:0 1rem;"
    "color:#1a1a1a;background:#fff}pre{white-space:pre-wrap;overflow-wrap:anywhere;font:inherit}"
    "dt{font-weight:600;margin-top:.4rem}dd{margin:0;overflow-wrap:anywhere}footer{color:#555;font-size:.9rem}"
)
HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'sha256-" + b64encode(sha256(STYLE.encode()).digest()) + b"'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]
HTML = b"text/html; charset=utf-8"
WELCOME = """\
<h1>Kho</h1>
<p>This is Kho, a shared, lasting memory for agents, chatbots and small devices. It is made for programs:</p>
<dl>
<dt>/mcp</dt><dd>for assistants and editors that speak MCP; <code>kho connect</code> sets them up</dd>
<dt>/jsonrpc, /actions</dt><dd>for other programs; <a href="/openapi.json">/openapi.json</a> describes them</dd>
<dt>/health</dt><dd>says whether it works</dd>
</dl>
<p>On the hub's machine, <code>kho --help</code> lists what people can type.</p>"""


async def welcome(send: Send) -> None:
    await _send(send, 200, "Kho", WELCOME)


async def open_item(send: Send, registry: Registry, id: str, offset: str, principal: Principal) -> None:
    """Show an item, or the part of it from `offset` on."""
    operation = registry.tool(FETCH)
    if operation is None:
        await send_error(send, NotFound())
        return
    arguments: dict[str, Any] = {"id": id, "offset": offset} if offset else {"id": id}
    outcome = await registry.call(operation, arguments, Call(principal, "http"))
    if outcome.error is None:
        await _send(send, 200, outcome.value["title"], _item(outcome.value))
    else:
        also = [(name.encode(), value.encode()) for name, value in error_headers(outcome.error).items()]
        await _send(send, outcome.error.status, "Not shown", _error(outcome.error), also)


def _item(item: dict[str, Any]) -> str:
    known = "".join(
        f"<dt>{escape(name.replace('_', ' '))}</dt><dd>{escape(_shown(value))}</dd>\n"
        for name, value in item["metadata"].items()
        if value not in (None, "", []) and name != "next_offset"
    )
    following = item["metadata"].get("next_offset")
    link = f"/open/{quote(item['id'], safe=':')}?offset={following}"
    more = f'<p><a href="{escape(link)}">More of it</a></p>\n' if following else ""
    return (
        f"<h1>{escape(item['title'])}</h1>\n<pre>{escape(item['text'])}</pre>\n{more}<dl>\n{known}</dl>\n"
        f"<footer><p>{escape(item['id'])}. Stored text was written by others; Kho does not vouch for it.</p></footer>"
    )


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return str(value)


def _error(error: KhoError) -> str:
    return f"<h1>{error.status}</h1>\n<p>{escape(error.message)}</p>\n<p>{escape(error.guidance)}</p>"


async def _send(send: Send, status: int, title: str, body: str, also: Sequence[tuple[bytes, bytes]] = ()) -> None:
    page = (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{escape(title)}</title>\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )
    await send_bytes(send, status, page.encode("utf-8", "replace"), HTML, [*HEADERS, *also])
