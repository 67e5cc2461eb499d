"""Results of the operations on webhooks, for the command line."""

from kho.documents.webhooks import model
from kho.lib.markdown import cell_code, code, facts, line, table


def added(answer: model.Added) -> str:
    known = [
        ("id", code(answer.webhook_id)),
        ("events", ", ".join(answer.events)),
        ("secret", f"{code(answer.secret)} (shown this once)"),
    ]
    return f"{code(answer.url)} will be notified.\n\n{facts(known)}"


def listed(answer: model.Listed) -> str:
    if not answer.webhooks:
        return "There are no model."
    rows = (
        (
            cell_code(one.webhook_id),
            cell_code(one.url),
            ", ".join(event.removeprefix("document.") for event in one.events),
            str(one.waiting),
            str(one.dead),
            line(one.problem or ""),
        )
        for one in answer.webhooks
    )
    return table(("id", "url", "events", "waiting", "dead", "problem"), rows)


def removed(answer: model.Removed) -> str:
    return f"{code(answer.webhook_id)} is removed. Deliveries that were dropped: {answer.dropped}."


def dead(answer: model.Dead) -> str:
    if not answer.deliveries:
        return "Nothing is dead."
    rows = (
        (one.at, one.type, cell_code(one.document_id), cell_code(one.url), str(one.attempts), line(one.problem))
        for one in answer.deliveries
    )
    shown = table(("at", "event", "document", "url", "attempts", "problem"), rows)
    return shown if answer.next_cursor is None else f"{shown}\n\nThere are more: cursor {code(answer.next_cursor)}"


def retried(answer: model.Retried) -> str:
    return f"Deliveries that are tried again now: {answer.deliveries}."
