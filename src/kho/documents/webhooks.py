"""Webhooks: addresses that are told what happens to a tenant's documents. Only an admin may name one, because Kho then
sends to it from where it stands."""

import secrets
import uuid
from typing import Annotated
from urllib.parse import urlsplit

import orjson
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from kho.documents.deliveries import Deliveries
from kho.documents.errors import UnknownWebhook
from kho.documents.model import Cursor, Page
from kho.documents.trail import EVENTS
from kho.kernel import paging
from kho.kernel.call import Call
from kho.kernel.fields import Id
from kho.kernel.model import Params, Result
from kho.kernel.ports import Database, Tx, Value
from kho.lib.clock import Clock, iso


def _address(value: str) -> str:
    try:
        parts = urlsplit(value)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fits = False
    if not fits or not value.isprintable() or " " in value:
        raise PydanticCustomError("url", "must be an address that begins with http:// or https://")
    if "@" in urlsplit(value).netloc:
        raise PydanticCustomError(
            "url", "must not hold a user name or a password: a receiver knows Kho by the signature"
        )
    return value


def _event(value: str) -> str:
    if value not in EVENTS:
        raise PydanticCustomError("event", "must be one of {events}", {"events": ", ".join(EVENTS)})
    return value


Event = Annotated[str, AfterValidator(_event), Field(json_schema_extra={"enum": [*EVENTS]})]


class AddWebhook(Params):
    url: Annotated[
        str,
        Field(max_length=2_000, description="Where events are sent: http:// or https://."),
        AfterValidator(_address),
    ]
    events: Annotated[list[Event], Field(min_length=1, max_length=20, description="Which; all if left out.")] = Field(
        default_factory=lambda: [*EVENTS]
    )
    secret: Annotated[
        str | None,
        Field(min_length=16, max_length=256, description="What events are signed with; left out, Kho makes one."),
    ] = None


class ListWebhooks(Params):
    pass


class RemoveWebhook(Params):
    webhook_id: Annotated[Id, Field(description="The webhook.")]


class DeadDeliveries(Params):
    webhook_id: Annotated[Id | None, Field(description="Only those of this webhook.")] = None
    limit: Page = 50
    cursor: Cursor | None = None


class RetryDeliveries(Params):
    webhook_id: Annotated[Id | None, Field(description="Only those of this webhook.")] = None


class Webhook(Result):
    webhook_id: str
    url: str
    events: list[str]
    created_at: str
    waiting: int = Field(description="Events that it has still to be told.")
    dead: int = Field(description="Events that it could not be told.")
    problem: str | None = Field(default=None, description="Why the next event has not been told yet.")
    next_attempt: str | None = None


class Added(Result):
    webhook_id: str
    url: str
    events: list[str]
    secret: str = Field(description="What events are signed with. It is shown this once.")


class Listed(Result):
    webhooks: list[Webhook]


class Removed(Result):
    webhook_id: str
    dropped: int = Field(description="Deliveries that waited, or were dead.")


class Delivery(Result):
    webhook_id: str
    url: str
    event_id: str
    type: str
    document_id: str
    at: str
    attempts: int
    problem: str


class Dead(Result):
    deliveries: list[Delivery]
    next_cursor: str | None = None


class Retried(Result):
    deliveries: int = Field(description="Deliveries that are tried again now.")


class Webhooks:
    def __init__(self, db: Database, deliveries: Deliveries, clock: Clock, timeout: float) -> None:
        self._db = db
        self._deliveries = deliveries
        self._clock = clock
        self._timeout = timeout

    async def add(self, params: AddWebhook, call: Call) -> Added:
        id, secret = str(uuid.uuid4()), params.secret or f"whsec_{secrets.token_urlsafe(32)}"
        events = [event for event in EVENTS if event in params.events]

        def work(tx: Tx) -> Added:
            _tidy(tx, call.tenant)
            tx.run(
                "INSERT INTO document_webhooks (tenant, id, url, secret, events, created_at) "
                "VALUES ($1, $2, $3, $4, $5, $6)",
                call.tenant,
                id,
                params.url,
                secret,
                orjson.dumps(events).decode(),
                self._clock(),
            )
            return Added(webhook_id=id, url=params.url, events=events, secret=secret)

        added = await call.commit(self._db, work)
        self._deliveries.expect()
        return added

    async def list(self, params: ListWebhooks, call: Call) -> Listed:
        def work(tx: Tx) -> Listed:
            rows = tx.all(
                "SELECT id, url, events, created_at FROM document_webhooks WHERE tenant = $1 ORDER BY created_at, id",
                call.tenant,
            )
            return Listed(
                webhooks=[
                    Webhook(
                        webhook_id=id,
                        url=url,
                        events=orjson.loads(events),
                        created_at=iso(created_at),
                        waiting=_count(tx, call.tenant, id, dead=0),
                        dead=_count(tx, call.tenant, id, dead=1),
                        **_trouble(tx, call.tenant, id),
                    )
                    for id, url, events, created_at in rows
                ]
            )

        return await self._db.read(work, timeout=call.remaining(self._timeout))

    async def remove(self, params: RemoveWebhook, call: Call) -> Removed:
        id = params.webhook_id

        def work(tx: Tx) -> Removed:
            if not tx.run("DELETE FROM document_webhooks WHERE tenant = $1 AND id = $2", call.tenant, id):
                raise UnknownWebhook(webhook_id=id)
            dropped = tx.run("DELETE FROM document_deliveries WHERE tenant = $1 AND webhook = $2", call.tenant, id)
            _tidy(tx, call.tenant)
            return Removed(webhook_id=id, dropped=dropped)

        return await call.commit(self._db, work)

    async def dead(self, params: DeadDeliveries, call: Call) -> Dead:
        event, webhook = paging.place(params.cursor, int, str) or (0, "")
        own, values = _only(params.webhook_id, 4)

        def work(tx: Tx) -> Dead:
            _need(tx, call.tenant, params.webhook_id)
            rows = tx.all(
                "SELECT d.webhook, w.url, e.id, e.type, e.body, e.at, d.attempts, d.problem, d.event "
                "FROM document_deliveries AS d "
                "JOIN document_webhooks AS w ON w.tenant = d.tenant AND w.id = d.webhook "
                "JOIN document_events AS e ON e.tenant = d.tenant AND e.number = d.event "
                f"WHERE d.tenant = $1 AND d.dead = 1 AND (d.event, d.webhook) > ($2, $3){own} "
                f"ORDER BY d.event, d.webhook LIMIT ${4 + len(values)}",
                call.tenant,
                event,
                webhook,
                *values,
                params.limit + 1,
            )
            page = rows[: params.limit]
            return Dead(
                deliveries=[
                    Delivery(
                        webhook_id=id,
                        url=url,
                        event_id=event_id,
                        type=type,
                        document_id=orjson.loads(body)["document_id"],
                        at=iso(at),
                        attempts=attempts,
                        problem=problem,
                    )
                    for id, url, event_id, type, body, at, attempts, problem, _ in page
                ],
                next_cursor=paging.encode([page[-1][-1], page[-1][0]]) if len(rows) > params.limit else None,
            )

        return await self._db.read(work, timeout=call.remaining(self._timeout))

    async def retry(self, params: RetryDeliveries, call: Call) -> Retried:
        own, values = _only(params.webhook_id, 3)

        def work(tx: Tx) -> Retried:
            _need(tx, call.tenant, params.webhook_id)
            again = tx.run(
                "UPDATE document_deliveries AS d SET dead = 0, attempts = 0, due_at = $1 "
                f"WHERE d.tenant = $2 AND (d.dead = 1 OR d.attempts > 0){own}",
                self._clock(),
                call.tenant,
                *values,
            )
            return Retried(deliveries=again)

        retried = await call.commit(self._db, work)
        self._deliveries.expect()
        return retried


def _only(webhook: str | None, place: int) -> tuple[str, tuple[Value, ...]]:
    return ("", ()) if webhook is None else (f" AND d.webhook = ${place}", (webhook,))


def _need(tx: Tx, tenant: str, webhook: str | None) -> None:
    found = webhook is None or tx.one("SELECT 1 FROM document_webhooks WHERE tenant = $1 AND id = $2", tenant, webhook)
    if not found:
        raise UnknownWebhook(webhook_id=webhook)


def _count(tx: Tx, tenant: str, webhook: str, *, dead: int) -> int:
    row = tx.one(
        "SELECT COUNT(*) FROM document_deliveries WHERE tenant = $1 AND webhook = $2 AND dead = $3",
        tenant,
        webhook,
        dead,
    )
    return row[0] if row else 0


def _trouble(tx: Tx, tenant: str, webhook: str) -> dict[str, str]:
    """What keeps the first in line from being told, and when it is tried again."""
    row = tx.one(
        "SELECT attempts, problem, due_at FROM document_deliveries WHERE tenant = $1 AND webhook = $2 AND dead = 0 "
        "ORDER BY event LIMIT 1",
        tenant,
        webhook,
    )
    return {"problem": row[1], "next_attempt": iso(row[2])} if row and row[0] else {}


def _tidy(tx: Tx, tenant: str) -> None:
    """Strikes out what nobody waits for: a change that was made while its webhook was removed may leave such a row."""
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
