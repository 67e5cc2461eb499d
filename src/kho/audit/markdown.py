"""Markdown rendering of the audit trail for the command line. Subjects and reasons are untrusted text: escaped."""

from kho.kernel.audit import AuditLogEntry, AuditLogPage
from kho.kernel.hints import Arg, say
from kho.lib.markdown import cell_code, inline, table
from kho.lib.shown_time import minute

HEADER = ("when", "who", "slice", "what", "subject", "why")


def log(answer: AuditLogPage) -> str:
    if not answer.entries:
        return "There are no such entries."
    text = table(HEADER, map(_row, answer.entries))
    return f"{text}\n\n{say('There is more: ', Arg('cursor', answer.next_cursor), '.')}" if answer.next_cursor else text


def _row(one: AuditLogEntry) -> tuple[str, ...]:
    what = cell_code(one.action) + (" refused" if one.outcome == "refused" else "")
    return minute(one.at), inline(one.actor), one.slice, what, cell_code(one.subject), inline(one.reason)
