"""Answers for people at the command line. What was said is quoted, so that it cannot pass for anything of ours."""

from collections.abc import Sequence

from kho.memory import model


def messages(found: model.Messages) -> str:
    if not found.messages:
        return "There are no messages."
    return "\n\n".join(f"**{one.role}**, {_time(one.created_at)}\n\n{_quoted(one.content)}" for one in found.messages)


def summary(found: model.Summary) -> str:
    return found.summary or "There is no summary yet."


def hits(found: model.Hits) -> str:
    listed = [
        f"{number}. **{one.role}** in `{one.conversation_id}`, {_time(one.created_at)}, score {one.score:.2f}\n\n"
        + _quoted("\n".join(one.highlights or (one.content,)), indent="   ")
        for number, one in enumerate(found.results, 1)
    ]
    count = f"{len(found.results)} of {found.total} messages." if listed else "Nothing was found."
    return _together(*listed, count, _more(found.next_cursor), *(found.notes or ()))


def conversations(found: model.Conversations) -> str:
    listed = "\n".join(
        f"- `{one.conversation_id}`: {one.title or '(nothing said yet)'}"
        f" ({_counted(one.message_count)}{', with a summary' if one.has_summary else ''}, {_time(one.last_activity)})"
        for one in found.conversations
    )
    return _together(listed or "There are no conversations.", _more(found.next_cursor))


def _together(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


def _counted(number: int) -> str:
    return f"{number} message" if number == 1 else f"{number} messages"


def _more(cursor: str | None) -> str:
    return f"There are more: `--cursor {cursor}`" if cursor else ""


def _time(iso: str) -> str:
    """To the minute: 2026-07-28 09:00."""
    return f"{iso[:10]} {iso[11:16]}"


def _quoted(text: str, indent: str = "") -> str:
    lines: Sequence[str] = text.strip().splitlines()
    return "\n".join(f"{indent}> {line}".rstrip() for line in lines)
