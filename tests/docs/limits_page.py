"""What docs/limits.md should hold. `make commands` writes it.

The limits of callers, tenants and boards describe themselves (`kernel/limits/settings.py`). Of all other settings and
constants that bound something, this names the ones that a user or an operator can run into; defaults and values are read
from the code.
"""

from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from kho.kernel.limits.allowance import setting
from kho.kernel.limits.settings import Limit, LimitSettings
from kho.settings import Settings

PAGE = Path(__file__).resolve().parents[2] / "docs" / "limits.md"

BOUNDS: Sequence[tuple[str, str, str]] = (
    ("http.max_body", "bytes of a request's body", "413"),
    ("research.max_file", "bytes of a file that is added", "the file is reported as unreadable"),
    ("toolbox.fetch_max_bytes", "bytes of a web page", "the tool says so"),
    ("memory.summary_max_chars", "characters of a summary", "its oldest paragraphs are condensed"),
    ("mcp.page_size", "tools, prompts or resources on a page", "the rest is on the next page"),
    ("http.workers", "processes that serve", ""),
    ("search.embedder.batch", "texts in one request to an embedding server", "sent in several requests"),
    ("search.embedder.concurrency", "requests to an embedding server at once", "the others wait"),
    ("search.embedder.threads", "cores for embedding (by default two, fewer while others need them)", ""),
)
"""Settings, what each bounds, and what happens beyond it."""

DEADLINES: Sequence[tuple[str, str, str]] = (
    ("http.header_timeout", "a client that sends its headers", "408, then the connection is closed"),
    (
        "http.body_timeout",
        "a client that sends its body, beyond what its size takes",
        "408, then the connection is closed",
    ),
    (
        "database_timeout",
        "another process that writes (SQLite), or a free connection or what another transaction has locked (PostgreSQL)",
        "503 DATABASE_ERROR",
    ),
    ("limits.call_seconds", "a whole call of a key", "504 TIMEOUT"),
    ("limits.calls_patience", "a call that waits for its tenant's turn", "429 RATE_LIMITED"),
    ("search.timeout", "a search", "504 TIMEOUT"),
    ("search.patience", "the embedding model, for one question", "keyword search answers alone, and says so"),
    ("search.embedder.timeout", "an embedding server", "tried again later; keyword search works meanwhile"),
    ("search.reranker.timeout", "a re-ranking server", "the hits keep their order, and the answer says so"),
    ("llm.timeout", "a language model", "the answer quotes the passages, and says so"),
    ("vision.timeout", "a vision model", "the board is told"),
    ("facts.timeout", "reading facts", "504 TIMEOUT"),
    ("memory.timeout", "reading conversations", "504 TIMEOUT"),
    ("documents.timeout", "reading documents", "504 TIMEOUT"),
    ("experiences.query_timeout", "a query for records", "504 TIMEOUT"),
    ("research.simple_timeout", "a short read or write of collections", "504 TIMEOUT"),
    ("research.query_timeout", "a query of collections", "504 TIMEOUT"),
    ("research.wait", "a call that waits for its ingest", "it is answered with a job, which goes on"),
    ("research.file_timeout", "the process that reads one file", "the file is reported as unreadable"),
    ("documents.webhook_timeout", "the receiver of a webhook", "tried again later"),
    ("toolbox.search_timeout", "a web search", "the tool says so"),
    ("toolbox.fetch_timeout", "a web page", "the tool says so"),
)
"""Settings in seconds, what may take so long, and what happens then."""

FIXED: Sequence[tuple[str, str, str]] = (
    ("lib.jsonrpc.MAX_VALUES", "values in a JSON body", "refused before it is parsed"),
    ("lib.jsonrpc.MAX_DEPTH", "levels of a JSON body", "refused"),
    ("doors.http.uvicorn_protocols.MAX_HEAD", "bytes of a request's head", "431"),
    ("doors.http.jsonrpc.LARGEST_BATCH", "messages in a batch at `/jsonrpc`", "refused; each counts as a request"),
    ("kernel.web.MAX_MESSAGE", "bytes of a message on a WebSocket", "closed with 1009"),
    ("doors.mcp.sessions.MOST_SESSIONS", "sessions of MCP in a process", "served without a session"),
    (
        "doors.mcp.sessions.IDLE_SESSION",
        "seconds that such a session may be silent",
        "it ends; later requests are served without",
    ),
    (
        "doors.http.event_stream.SEND_TIMEOUT",
        "seconds that the reader of a stream may take for an event",
        "its stream ends",
    ),
    ("documents.model.MAX_BODY", "bytes of a document", "400"),
    ("documents.model.MAX_METADATA", "bytes of a document's metadata", "400"),
    ("documents.model.MAX_DOCUMENTS", "documents read by one call", "400"),
    ("facts.model.MAX_TEXT", "characters of a fact", "400"),
    ("experiences.model.MAX_TEXT", "characters of a field of a record", "400"),
    ("research.model.MAX_CONTENT", "characters of a text that is added", "400"),
    (
        "research.ingest.walk.MAX_FILES",
        "files below a folder that is added",
        "the rest is left out, and the report says so",
    ),
    ("research.ingest.globs.MAX_PATTERNS", "patterns that braces expand to", "400"),
    ("recall.model.MAX_QUERY", "characters of a question", "400"),
    ("storage.word_index.base.MAX_QUERY_TOKENS", "words of a question that are looked up", "the rest is ignored"),
    ("devices.connections.connection.MAX_TIMEOUT", "seconds that a board may take for a call", "DEVICE_TIMEOUT"),
    ("devices.calls.queue.MAX_WAITING", "calls that wait for a board which is offline", "refused"),
    ("devices.protocol.frames.MAX_FRAME", "characters of a board's frame", "ignored and counted"),
    ("devices.protocol.tool_listing.MAX_TOOLS", "tools of a board", "the rest is ignored"),
    ("devices.http.vision.MAX_IMAGE", "bytes of a board's photo", "413"),
    (
        "devices.mqtt.board.MAX_UNREAD",
        "messages of a board at a shared broker that are not read yet",
        "the oldest are dropped",
    ),
    ("devices.pairing.rate_limits.MAX_GUESSES", "wrong codes of a tenant in 15 minutes", "429 TOO_MANY_GUESSES"),
    (
        "devices.pairing.rate_limits.MAX_BOARDS",
        "boards without approval from one address in ten minutes",
        "429 TOO_MANY_BOARDS",
    ),
    (
        "devices.pairing.rate_limits.MAX_ASKED",
        "requests of boards without a credential from one address in a minute",
        "429 RATE_LIMITED",
    ),
    ("storage.vector_index.qdrant.REQUEST_TIMEOUT", "seconds for a whole answer of Qdrant", "tried again later"),
    ("storage.vector_index.index_server.MAX_ANSWER", "bytes of such an answer", "tried again later"),
    (
        "storage.vector_index.index_server.IN_A_ROW",
        "answers of Qdrant in a row that did not come in time",
        "it is asked again half a minute later; until then searches go by words",
    ),
    ("toolbox.duckduckgo.MAX_RESULTS", "results of a web search", "the rest is left out"),
)
"""Constants, what each bounds, and what happens beyond it."""

TEXT = """# Limits

What one caller, tenant, board or document may take, so that nobody stops the hub for the others. `make commands` writes
this page from the code.

This machine's user (stdio, the command line, a hub without keys) has no limits where the first table says so. They begin
with the first key. A limit of 0 is none. Each process counts for itself: a hub with `--workers 4` allows up to four times
as much in all, and quotas, which are counted in the database, hold for all processes together.

A refusal names the limit and its setting, and says in `retry_after` in how many seconds to try again: in JSON-RPC errors
(code -32029), results of tools and answers of actions. At `/actions`, and everywhere for requests and streams, which are
counted before what they ask is read, the status is 429 and the header `Retry-After` says the same; a call that was read is
answered at `/jsonrpc` and `/mcp` with 200, as their protocols want it. Nothing was changed.

## Callers, tenants, boards and documents

A limit in a minute is a bucket that holds what one minute allows: so much can be used at once, and it fills up evenly.
Every request over HTTP counts, each message of a batch too. A request's body counts from its first byte
beyond 64 KB until the request is answered; of boards and others without a key it counts for their tenant or address. Passages
are counted when they are stored; who has stored more than a minute's worth waits until that is paid back. Photos of boards count for their board. A board whose frames come too fast
is read more slowly, so that its own connection fills up and nothing is lost; only at a broker that boards share (`mqtt_url`)
the oldest of those that wait are dropped. Calls of a tenant beyond those
under way wait for their turn, first come first served; other tenants do not notice. Reading a resource or a prompt,
completing one and `/servers` are calls, too. Passages of all tenants go to the embedding model in turn. Files of an ingest
that a key has started are not counted in the passages of a minute, since nobody waits for them, but in the quotas.

Quotas hold for every caller with a key, whatever its tenant, not for this machine's user. In bytes count the texts that
searches find, and the bodies of all revisions of documents: so a document that is changed again and again takes more, until
it is purged. Not counted are conversations and collections themselves, only what is in them; nor revisions of facts and
records, summaries, metadata, the history of questions, and what Kho makes of texts, such as vectors.

{limits}
## Deadlines

{deadlines}
A write that has begun has no deadline of its own, only that of its call. What was being written when a deadline passes may
have been done.

## Sizes and numbers

{bounds}
## Fixed

These have no setting.

{fixed}"""


def page() -> str:
    return TEXT.format(
        limits=_table(
            ("setting", "default", "limit", "of each", "protects", "over it", "this machine's user"), _limits()
        ),
        deadlines=_table(("setting", "seconds", "for", "then"), _settings(DEADLINES)),
        bounds=_table(("setting", "default", "limit", "over it"), _settings(BOUNDS)),
        fixed=_table(("value", "limit", "over it"), _constants()),
    )


def _limits() -> Iterator[Sequence[str]]:
    for name, field in LimitSettings.model_fields.items():
        found = next(one for one in field.metadata if isinstance(one, Limit))
        free = "none" if found.shared_only else "the same"
        yield (f"`{setting(name)}`", _shown(field.default), found.counts, found.of, found.protects, found.refusal, free)


def _settings(rows: Sequence[tuple[str, str, str]]) -> Iterator[Sequence[str]]:
    for path, what, then in rows:
        yield f"`KHO_{path.upper().replace('.', '__')}`", _shown(_default(path)), what, then


def _default(path: str) -> Any:
    section: type[BaseModel] = Settings
    *above, name = path.split(".")
    for part in above:
        inner = section.model_fields[part].annotation
        assert isinstance(inner, type)
        assert issubclass(inner, BaseModel)
        section = inner
    return section.model_fields[name].default


def _constants() -> Iterator[Sequence[str]]:
    for path, what, then in FIXED:
        module, _, name = path.rpartition(".")
        yield _shown(getattr(import_module(f"kho.{module}"), name)), what, then


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:,g}"


def _table(heads: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
