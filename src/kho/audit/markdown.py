"""Markdown rendering of the audit trail for the command line. Subjects and reasons are untrusted text: escaped."""

from kho.audit.model import AuditRemoval, ErasedAudit, VerifiedAudit, VerifiedTrail
from kho.kernel.audit import AuditLogEntry, AuditLogPage
from kho.kernel.hints import Arg, say
from kho.lib.markdown import cell_code, code, counted, inline, table, together
from kho.lib.shown_time import minute

HEADER = ("when", "who", "slice", "what", "subject", "why")


def log(answer: AuditLogPage) -> str:
    if not answer.entries:
        return "There are no such entries."
    text = table(HEADER, map(_row, answer.entries))
    return f"{text}\n\n{say('There is more: ', Arg('cursor', answer.next_cursor), '.')}" if answer.next_cursor else text


def verified(answer: VerifiedAudit) -> str:
    rows = sum(trail.sealed for trail in answer.trails)
    broken = [trail for trail in answer.trails if not trail.whole]
    if not broken:
        said = f"The audit trail is whole: {counted(rows, 'row')} in {counted(len(answer.trails), 'chain')}."
    else:
        said = f"The audit trail was tampered with: {counted(sum(trail.broken for trail in broken), 'break')}."
    if waiting := sum(trail.unsealed for trail in answer.trails):
        said = f"{said} {counted(waiting, 'newer row')} not sealed yet."
    header = ("tenant", "rows", "not sealed yet", "text erased", "left", "head")
    left = [trail for trail in answer.trails if trail.removals]
    return together(said, *map(_breaks, broken), table(header, map(_trail, answer.trails)), *map(_removals, left))


def _breaks(trail: VerifiedTrail) -> str:
    lines = [f"- {one.kind}{_place(one.place)}: {one.message}" for one in trail.breaks]
    more = trail.broken - len(trail.breaks)
    return "\n".join([f"{inline(trail.tenant)}:", "", *lines, *([f"- … and {more} more"] if more else [])])


def _place(place: int | None) -> str:
    return f", place {place}" if place else ""


def _trail(trail: VerifiedTrail) -> tuple[str, ...]:
    counts = (trail.sealed, trail.unsealed, trail.erased, trail.removed)
    return inline(trail.tenant), *map(str, counts), code(trail.head)


def _removals(trail: VerifiedTrail) -> str:
    lines = [f"- {minute(one.at)}: {counted(one.rows, 'row')}{_why(one)}" for one in trail.removals or ()]
    return "\n".join([f"Rows of {inline(trail.tenant)} that have left:", "", *lines])


def _why(one: AuditRemoval) -> str:
    """Return what the trail says about a removal, while it has the row that does."""
    before = f" from before {minute(one.before)}" if one.before else ""
    return f"{before}, by KHO_AUDIT__KEEP_ROWS_DAYS={one.days}" if one.days else before


def erased(answer: ErasedAudit) -> str:
    left = f" {counted(answer.left, 'row')} are left: do it again." if answer.left else ""
    return f"Erased the text of {counted(answer.erased, 'row')} of the tenant {code(answer.tenant)}.{left}"


def _row(one: AuditLogEntry) -> tuple[str, ...]:
    what = (
        cell_code(one.action)
        + (" refused" if one.outcome == "refused" else "")
        + (" (erased)" if one.erased_at else "")
    )
    return minute(one.at), inline(one.actor), one.slice, what, cell_code(one.subject), inline(one.reason)
