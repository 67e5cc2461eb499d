"""Logging: one line per call, on stderr. Never a request body, never a credential."""

import json
import logging
import re
import sys
from datetime import UTC, datetime
from textwrap import indent
from typing import Any

import orjson

from kho.kernel import Call, Operation
from kho.kernel.registry import Outcome
from kho.lib.lazy_regex import pattern
from kho.lib.visible import escaped, one_line, visible

log = logging.getLogger("kho.calls")

FIELDS = "fields"
"""Attribute of a log record that holds the fields beside its message."""
_NEEDS_QUOTES = pattern(r'[\s="]|^$')


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update(getattr(record, FIELDS, ()))
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return escaped(orjson.dumps(line, default=str).decode())


TOLD_BY_COMMANDS = (
    "kho.storage.sqlite.database",
    "kho.storage.sqlite.transaction",
    "kho.storage.postgres.database",
    "kho.storage.postgres.transaction",
    "kho.search.vectors",
)
"""Loggers of what a command says itself: what a database's driver said, of which the error that callers get is the
readable form, and why passages wait for vectors."""
IN_ANSWERS = "kho.search.query"
"""Logger of what an answer lacks. Most answers say it themselves."""


class LineFormatter(logging.Formatter):
    """Formats a record as a readable line for a terminal. What callers send stands in messages and fields, so control
    characters are escaped, and a value with a blank in it is quoted: nobody can write a line, or a field, that looks
    like one of ours."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = getattr(record, FIELDS, {})
        extra = " ".join(f"{name}={_value(value)}" for name, value in fields.items())
        message = one_line(record.getMessage())
        line = f"{self.formatTime(record, '%H:%M:%S')} {record.levelname:7} {message} {extra}".rstrip()
        return line + self.trace(record)

    def trace(self, record: logging.LogRecord) -> str:
        """Indented, because an error may repeat what a caller sent."""
        return f"\n{indent(visible(self.formatException(record.exc_info)), '    ')}" if record.exc_info else ""


def _value(value: Any) -> str:
    text = one_line(str(value))
    return json.dumps(text, ensure_ascii=False) if _NEEDS_QUOTES.search(text) else text


class CommandFormatter(LineFormatter):
    """Formats a record as what a command says."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{record.levelname.lower()}: {one_line(record.getMessage())}{self.trace(record)}"


class Unsaid(logging.Handler):
    """Keeps what the answer of a command may say itself."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._kept.append(record)

    def tell(self, answer: str) -> None:
        """Log what an answer does not say, once each."""
        kept, self._kept = self._kept, []
        told: set[str] = set()
        for record in kept:
            reasons = record.args if isinstance(record.args, tuple) else ()
            message = record.getMessage()
            if message not in told and not any(str(reason) in answer for reason in reasons):
                logging.getLogger().handle(record)
            told.add(message)


unsaid = Unsaid()


def set_up(level: str, style: str, *, command: bool = False) -> None:
    """Log to stderr, always: stdout may carry a protocol. A `command` logs as it says everything else, and not what it
    says itself."""
    # Not used by any formatter, and every log record would pay for them.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_formatter(style, command and level != "DEBUG"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("kho").setLevel(level)
    briefly = command and level != "DEBUG"
    for name in TOLD_BY_COMMANDS:
        logging.getLogger(name).setLevel(logging.ERROR if briefly else logging.NOTSET)
    answers = logging.getLogger(IN_ANSWERS)
    answers.handlers[:] = [unsaid] if briefly else []
    answers.propagate = not briefly
    # The pool repeats what our own error reports once.
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)


def _formatter(style: str, command: bool) -> logging.Formatter:
    if style == "auto" and command:
        return CommandFormatter()
    readable = style == "text" or (style == "auto" and sys.stderr.isatty())
    return LineFormatter() if readable else JsonFormatter()


PLAIN = re.compile(r"[a-z._-]{0,32}|v?[0-9]{1,4}")


def shown_path(path: str) -> str:
    """Return a path for a log line or an error, without what may be a credential or a caller's id."""
    return "/".join(part if PLAIN.fullmatch(part) else "…" for part in path.split("/")[:20])


def log_refusal(path: str, client: str, code: str) -> None:
    """Log a caller refused at the door, so that an operator can see keys being tried."""
    log.info("refused", extra={FIELDS: {"path": shown_path(path), "client": client, "code": code}})


def log_call(operation: Operation, call: Call, outcome: Outcome, seconds: float) -> None:
    level = logging.INFO if outcome.error is None or outcome.error.status < 500 else logging.WARNING
    if call.door == "cli":  # the command prints the outcome anyway
        level = logging.DEBUG
    if not log.isEnabledFor(level):
        return
    fields = {
        "request_id": call.request_id,
        "operation": operation.name,
        "door": call.door,
        "tenant": call.tenant,
        "sub": call.principal.sub,
        "code": outcome.error.code if outcome.error else "OK",
        "ms": round(seconds * 1000, 2),
    }
    log.log(level, "call", extra={FIELDS: fields})
