"""The operations that only an admin may call: webhooks, and the one deletion that cannot be undone. Models have no
business there, so none of them is a tool."""

from collections.abc import Sequence
from typing import Any

from kho.documents import markdown_webhooks, purge, webhooks
from kho.documents.purge import Purging
from kho.documents.webhooks import Webhooks
from kho.kernel.command import Command
from kho.kernel.operation import Operation, everywhere

ADMIN = "admin"
_GROUP = "Addresses that are told what happens to documents."
_ID = "4b3a1c9e-9f0a-4d6e-8a55-0f6f2f6f7a10"


def _define(*what: Any, **rest: Any) -> Operation:
    return everywhere("documents", *what, scope=ADMIN, tool=False, **rest)


def operations(hooks: Webhooks, purging: Purging) -> Sequence[Operation]:
    return (
        _define(
            "add_webhook",
            hooks.add,
            webhooks.AddWebhook,
            webhooks.Added,
            "Have an address told when documents are created, updated, moved, deleted or restored.",
            Command("docs webhooks add", positional=("url",), group=_GROUP),
            {"url": "https://example.org/hooks/kho", "events": ["document.created", "document.deleted"]},
            markdown_webhooks.added,
            effect="write",
        ),
        _define(
            "list_webhooks",
            hooks.list,
            webhooks.ListWebhooks,
            webhooks.Listed,
            "The webhooks, and how many events each has still to be told.",
            Command("docs webhooks list"),
            {},
            markdown_webhooks.listed,
        ),
        _define(
            "remove_webhook",
            hooks.remove,
            webhooks.RemoveWebhook,
            webhooks.Removed,
            "Tell an address nothing more, not even what waits for it.",
            Command("docs webhooks remove", positional=("webhook_id",)),
            {"webhook_id": _ID},
            markdown_webhooks.removed,
            effect="destructive",
        ),
        _define(
            "dead_deliveries",
            hooks.dead,
            webhooks.DeadDeliveries,
            webhooks.Dead,
            "What could not be told, and why; the oldest first.",
            Command("docs webhooks dead", positional=("webhook_id",)),
            {"limit": 20},
            markdown_webhooks.dead,
        ),
        _define(
            "retry_deliveries",
            hooks.retry,
            webhooks.RetryDeliveries,
            webhooks.Retried,
            "Try again at once what could not be told, or waits after a failure.",
            Command("docs webhooks retry", positional=("webhook_id",)),
            {},
            markdown_webhooks.retried,
            effect="write",
        ),
        _define(
            "purge_document",
            purging.purge,
            purge.PurgeDocument,
            purge.Purged,
            "Erase a deleted document and all below it, with every revision. Nothing brings them back.",
            Command(
                "admin purge",
                positional=("document_id",),
                final=True,
                looks=("get_document", {"include_deleted": True}),
                group="What only an admin may do.",
            ),
            {"document_id": "doc-onboarding", "reason": "the person asked for it"},
            markdown_webhooks.purged,
            effect="destructive",
            action=False,
        ),
    )
