"""Operations on webhooks: addresses that are notified of changes to a tenant's documents. For admins only, because Kho
sends requests to the address from its own network."""

import secrets
import uuid
from typing import Any

import orjson

from kho.documents.contract import ADMIN
from kho.documents.errors import UnknownWebhook
from kho.documents.events import EVENTS
from kho.documents.webhooks import markdown, model
from kho.documents.webhooks.addresses import WebhookAddresses
from kho.documents.webhooks.delivery import Deliveries
from kho.kernel import Call, Command, Database, Tx, paging
from kho.lib.clock import Clock
from kho.lib.dataclass import dataclass
from kho.lib.sql import delete, insert, number, to_json, where


@dataclass(frozen=True, slots=True)
class DeadDelivery:
    """Row of the query for deliveries that failed for good."""

    webhook_id: str
    url: str
    event_id: str
    type: str
    document_id: str
    at: int
    attempts: int
    problem: str
    event: int


@dataclass(slots=True, kw_only=True)
class Webhooks:
    db: Database
    deliveries: Deliveries
    addresses: WebhookAddresses
    clock: Clock
    timeout: float

    @ADMIN.write(
        "add_webhook",
        tool=False,
        cli=Command(
            "docs webhooks add", positional=("url",), group="Addresses that are notified of changes to documents."
        ),
        example={"url": "https://example.org/hooks/kho", "events": ["document.created", "document.deleted"]},
        text=markdown.added,
    )
    async def add(self, params: model.AddWebhook, call: Call) -> model.Added:
        """Notify an address when documents are created, updated, moved, deleted or restored."""
        await self.addresses.need(params.url)
        id, secret = str(uuid.uuid4()), params.secret or f"whsec_{secrets.token_urlsafe(32)}"
        events, now = [event for event in EVENTS if event in params.events], self.clock()
        row = {"id": id, "url": params.url, "secret": secret, "events": to_json(events), "created_at": now}

        def work(tx: Tx) -> model.Added:
            _tidy(tx, call.tenant)
            insert(tx, "document_webhooks", {"tenant": call.tenant, **row})
            call.audit(tx, id, at=now, url=params.url, events=events)
            return model.Added(webhook_id=id, url=params.url, events=events, secret=secret)

        added = await call.commit(self.db, work)
        self.deliveries.expect()
        return added

    @ADMIN.read("list_webhooks", tool=False, cli=Command("docs webhooks list"), text=markdown.listed)
    async def list(self, params: model.ListWebhooks, call: Call) -> model.WebhookList:
        """The webhooks, and how many events each has still to receive."""

        def work(tx: Tx) -> model.WebhookList:
            rows = tx.all(
                "SELECT id, url, events, created_at FROM document_webhooks WHERE tenant = $1 ORDER BY created_at, id",
                call.tenant,
            )
            return model.WebhookList(
                webhooks=[
                    model.Webhook(
                        webhook_id=id,
                        url=url,
                        events=orjson.loads(events),
                        created_at=created_at,
                        waiting=_count(tx, call.tenant, id, dead=0),
                        dead=_count(tx, call.tenant, id, dead=1),
                        **_trouble(tx, call.tenant, id),
                    )
                    for id, url, events, created_at in rows
                ]
            )

        return await self.db.read(work, timeout=call.remaining(self.timeout))

    @ADMIN.destroy(
        "remove_webhook",
        tool=False,
        cli=Command("docs webhooks remove", positional=("webhook_id",)),
        example={"webhook_id": "4b3a1c9e-9f0a-4d6e-8a55-0f6f2f6f7a10"},
        text=markdown.removed,
    )
    async def remove(self, params: model.RemoveWebhook, call: Call) -> model.RemovedWebhook:
        """Stop notifying an address; deliveries that wait for it are dropped."""
        id, now = params.webhook_id, self.clock()

        def work(tx: Tx) -> model.RemovedWebhook:
            if not delete(tx, "document_webhooks", tenant=call.tenant, id=id):
                raise UnknownWebhook(webhook_id=id)
            dropped = delete(tx, "document_deliveries", tenant=call.tenant, webhook=id)
            _tidy(tx, call.tenant)
            call.audit(tx, id, at=now, reason=params.reason, dropped=dropped)
            return model.RemovedWebhook(webhook_id=id, dropped=dropped)

        return await call.commit(self.db, work)

    @ADMIN.read(
        "dead_deliveries",
        tool=False,
        cli=Command("docs webhooks dead", positional=("webhook_id",)),
        example={"limit": 20},
        text=markdown.dead,
    )
    async def dead(self, params: model.DeadDeliveries, call: Call) -> model.Dead:
        """Deliveries that failed for good, and why; the oldest first."""
        event, webhook = paging.place(params.cursor, int, str) or (0, "")
        own, values = where({"d.tenant =": call.tenant, "d.webhook =": params.webhook_id})
        behind = f"(d.event, d.webhook) > (${len(values) + 1}, ${len(values) + 2})"

        def work(tx: Tx) -> list[DeadDelivery]:
            _need(tx, call.tenant, params.webhook_id)
            statement = (
                "SELECT d.webhook, w.url, e.id, e.type, e.body, e.at, d.attempts, d.problem, d.event "
                "FROM document_deliveries AS d "
                "JOIN document_webhooks AS w ON w.tenant = d.tenant AND w.id = d.webhook "
                "JOIN document_events AS e ON e.tenant = d.tenant AND e.number = d.event "
                f"WHERE d.dead = 1 AND {own} AND {behind} "
                f"ORDER BY d.event, d.webhook LIMIT ${len(values) + 3}"
            )
            rows = tx.all(statement, *values, event, webhook, params.limit + 1)
            return [
                DeadDelivery(id, url, event_id, type, orjson.loads(body)["document_id"], *rest)
                for id, url, event_id, type, body, *rest in rows
            ]

        rows = await self.db.read(work, timeout=call.remaining(self.timeout))
        page, cursor = paging.cut(rows, params.limit, lambda one: [one.event, one.webhook_id])
        return model.Dead(deliveries=[model.Delivery.model_validate(one) for one in page], next_cursor=cursor)

    @ADMIN.write(
        "retry_deliveries",
        tool=False,
        cli=Command("docs webhooks retry", positional=("webhook_id",)),
        text=markdown.retried,
    )
    async def retry(self, params: model.RetryDeliveries, call: Call) -> model.Retried:
        """Try failed deliveries again at once."""
        id, now = params.webhook_id, self.clock()
        own, values = where({"tenant =": call.tenant, "webhook =": id}, 2)

        def work(tx: Tx) -> model.Retried:
            _need(tx, call.tenant, id)
            statement = (
                "UPDATE document_deliveries SET dead = 0, attempts = 0, due_at = $1 "
                f"WHERE (dead = 1 OR attempts > 0) AND {own}"
            )
            retried = tx.run(statement, now, *values)
            if retried:
                call.audit(tx, id or "webhooks", at=now, deliveries=retried)
            return model.Retried(deliveries=retried)

        retried = await call.commit(self.db, work)
        self.deliveries.expect()
        return retried


def _need(tx: Tx, tenant: str, webhook: str | None) -> None:
    found = webhook is None or tx.one("SELECT 1 FROM document_webhooks WHERE tenant = $1 AND id = $2", tenant, webhook)
    if not found:
        raise UnknownWebhook(webhook_id=webhook)


def _count(tx: Tx, tenant: str, webhook: str, *, dead: int) -> int:
    statement = "SELECT COUNT(*) FROM document_deliveries WHERE tenant = $1 AND webhook = $2 AND dead = $3"
    return number(tx, statement, tenant, webhook, dead)


def _trouble(tx: Tx, tenant: str, webhook: str) -> dict[str, Any]:
    """Return why the first waiting delivery failed, and when it is retried; empty if it has not failed."""
    statement = (
        "SELECT attempts, problem, due_at FROM document_deliveries WHERE tenant = $1 AND webhook = $2 AND dead = 0 "
        "ORDER BY event LIMIT 1"
    )
    row = tx.one(statement, tenant, webhook)
    return {"problem": row[1], "next_attempt": row[2]} if row and row[0] else {}


def _tidy(tx: Tx, tenant: str) -> None:
    """Delete deliveries without a webhook and events without a delivery: a change committed while a webhook was being
    removed may leave such rows."""
    tx.run(
        "DELETE FROM document_deliveries WHERE tenant = $1 AND NOT EXISTS (SELECT 1 FROM document_webhooks AS w "
        "WHERE w.tenant = document_deliveries.tenant AND w.id = document_deliveries.webhook)",
        tenant,
    )
    tx.run(
        "DELETE FROM document_events WHERE tenant = $1 AND NOT EXISTS (SELECT 1 FROM document_deliveries AS d "
        "WHERE d.tenant = document_events.tenant AND d.event = document_events.number)",
        tenant,
    )
