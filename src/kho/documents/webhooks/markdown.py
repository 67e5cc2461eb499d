"""Results of the operations on webhooks, for the command line."""

from kho.documents.webhooks import model
from kho.lib.markdown import Columns, cell_code, code, facts, line, listing
from kho.lib.shown_time import minute


def added(answer: model.Added) -> str:
    known = [
        ("id", code(answer.webhook_id)),
        ("events", ", ".join(answer.events)),
        ("secret", f"{code(answer.secret)} (shown only once)"),
    ]
    return f"{code(answer.url)} will be notified.\n\n{facts(known)}"


_LISTED: Columns[model.Webhook] = {
    "id": lambda one: cell_code(one.webhook_id),
    "url": lambda one: cell_code(one.url),
    "events": lambda one: ", ".join(event.removeprefix("document.") for event in one.events),
    "waiting": lambda one: str(one.waiting),
    "dead": lambda one: str(one.dead),
    "problem": lambda one: line(one.problem or ""),
}


def listed(answer: model.WebhookList) -> str:
    if not answer.webhooks:
        return "There are no webhooks."
    return listing(answer.webhooks, _LISTED)


def removed(answer: model.RemovedWebhook) -> str:
    return f"{code(answer.webhook_id)} is removed. Deliveries that were dropped: {answer.dropped}."


_DEAD: Columns[model.Delivery] = {
    "at": lambda one: minute(one.at),
    "event": lambda one: one.type,
    "document": lambda one: cell_code(one.document_id),
    "url": lambda one: cell_code(one.url),
    "attempts": lambda one: str(one.attempts),
    "problem": lambda one: line(one.problem),
}


def dead(answer: model.Dead) -> str:
    if not answer.deliveries:
        return "Nothing is dead."
    shown = listing(answer.deliveries, _DEAD)
    return shown if answer.next_cursor is None else f"{shown}\n\nThere are more: cursor {code(answer.next_cursor)}"


def retried(answer: model.Retried) -> str:
    return f"Deliveries that are tried again now: {answer.deliveries}."
