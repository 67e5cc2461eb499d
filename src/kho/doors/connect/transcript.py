"""What was said in a session of Claude Code, from its transcript: one JSON object per line, and a uuid on each.

Only what people and the model said is taken. Tool calls and their results, thinking, side chains of other agents,
summaries of what is there anyway and the client's own messages are left out.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, cast

import orjson

MAX_CHARACTERS = 60_000
"""Of a message: what is longer was pasted, and 256 KiB is the most that a conversation takes."""
SKIPPED = ("isMeta", "isSidechain", "isCompactSummary", "isApiErrorMessage")
OWN_MESSAGES = ("<command-", "<local-command-", "Caveat: ")
"""What the client writes in the user's name begins like this."""


class Said(NamedTuple):
    id: str
    role: str
    content: str
    at: str | None
    folder: str


def messages(lines: Iterable[bytes]) -> Iterator[Said]:
    """In order. A line that is not understood is passed over: the last one may still be being written."""
    for line in lines:
        try:
            entry: Any = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if isinstance(entry, dict) and (said := _said(cast(dict[str, Any], entry))) is not None:
            yield said


def _said(entry: dict[str, Any]) -> Said | None:
    message, id = entry.get("message"), entry.get("uuid")
    if entry.get("type") not in ("user", "assistant") or not isinstance(message, dict) or not isinstance(id, str):
        return None
    text = _text(cast(dict[str, Any], message).get("content")).strip()
    if not text or any(entry.get(name) for name in SKIPPED) or text.startswith(OWN_MESSAGES):
        return None
    at, folder = entry.get("timestamp"), entry.get("cwd")
    return Said(
        id,
        entry["type"],
        text if len(text) <= MAX_CHARACTERS else text[:MAX_CHARACTERS] + " …",
        at if isinstance(at, str) else None,
        folder if isinstance(folder, str) else "",
    )


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = cast(list[Any], content) if isinstance(content, list) else []
    texts = (cast(dict[str, Any], one) for one in blocks if isinstance(one, dict))
    return "\n\n".join(str(one.get("text", "")) for one in texts if one.get("type") == "text")
