"""Markdown rendering of results for the command line. Messages are quoted, so that they cannot look like Kho's own
output."""

import re
from textwrap import indent

from kho.lib.markdown import code, counted, inline, line, quoted, together
from kho.lib.shown_time import minute
from kho.memory import model

_BETWEEN = re.compile(r"\n\n(?=- )")


def messages(found: model.Messages) -> str:
    return together(*map(_message, found.messages)) or "There are no messages."


def context(found: model.ConversationContext) -> str:
    summary = f"Summary:\n\n{quoted(found.summary)}" if found.summary else ""
    listed = together(*map(_message, found.messages)) or "There are no messages."
    more = (
        f"{counted(found.uncovered, 'more message')} in neither the summary nor this list." if found.uncovered else ""
    )
    return together(summary, listed, more)


def _message(one: model.MessageEntry | model.ContextMessage) -> str:
    when = f", {minute(one.at or one.created_at)}" if one.created_at else ""
    return f"{_who(one)}{when}\n\n{quoted(one.content)}"


def _who(one: model.MessageEntry | model.ContextMessage | model.MessageHit) -> str:
    return f"**{one.role}**" + (f" ({inline(one.speaker)})" if one.speaker else "")


def summary(found: model.Summary) -> str:
    # Each run of the summary is a paragraph; to people, they are one list.
    return _BETWEEN.sub("\n", found.summary) or "There is no summary yet."


def hits(found: model.Hits) -> str:
    listed = [
        f"{number}. {_who(one)} in {code(one.conversation_id)}, {minute(one.at or one.created_at)}, "
        f"score {one.score:.2f}\n\n" + indent(quoted("\n".join(one.highlights or (one.content,))), "   ")
        for number, one in enumerate(found.results, 1)
    ]
    count = f"{len(found.results)} of {found.total} messages." if listed else "Nothing was found."
    return together(*listed, count, _more(found.next_cursor), *map(line, found.notes or ()))


def conversations(found: model.Conversations) -> str:
    listed = "\n".join(
        f"- {code(one.conversation_id)}: {inline(one.title) or '(nothing said yet)'} "
        f"({counted(one.message_count, 'message')}{', with a summary' if one.has_summary else ''}, "
        f"{minute(one.last_activity)})"
        for one in found.conversations
    )
    return together(listed or "There are no conversations.", _more(found.next_cursor))


def _more(cursor: str | None) -> str:
    return f"There are more: `--cursor {cursor}`" if cursor else ""
