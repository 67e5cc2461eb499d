"""Delivers events to webhooks: in the background, in order, at least once, surviving a restart.

Events and deliveries are rows, written in the transaction of the change (outbox), so that none is lost and none is sent
for a change that was rolled back. One process at a time serves a webhook, under a lease, so that several processes do
not send the same event. Deliveries of a webhook are in order: while the first one fails, the later ones wait; other
webhooks are not affected.
"""

import asyncio
import hashlib
import hmac
import logging
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING

from kho.documents.webhooks.addresses import SETTING, WebhookAddresses
from kho.kernel import Background, Database, KhoError, Lease, Leases, Tx
from kho.lib.addresses import AddressRefused, NamedBy
from kho.lib.clock import SECOND, Clock
from kho.lib.dataclass import dataclass
from kho.lib.lazy_module import lazy
from kho.lib.sql import delete, number, update
from kho.lib.tenancy import for_tenant

if TYPE_CHECKING:
    from kho.lib import safe_http
else:
    (safe_http,) = lazy("kho.lib.safe_http")  # a hub starts faster without it

log = logging.getLogger("kho.documents")

POLL = 2.0
"""Seconds between polls without a wake-up: another process may have written an event, or died."""
MAX_CONCURRENT = 32
"""Maximum number of webhooks served at the same time."""
LEASE_MARGIN = 20 * SECOND
"""Added to the request timeout for the lease's duration: for so long a process that died blocks a webhook."""
MAX_READ = 4_096
"""Maximum bytes of a response that are read: it is ignored, but reading it lets the connection be reused."""
UNDELIVERED = (
    "It was not delivered. The address must be on the open internet, or be named by the hub's operator in "
    f"{SETTING}, and answer with 2xx in time; the log of the hub says what was wrong."
)
"""The one text for whatever keeps an event from an address that others named: what differs there would tell them which
hosts and ports of the hub's own network answer."""
SIGNATURE, EVENT, DELIVERY = "X-Kho-Signature", "X-Kho-Event", "X-Kho-Delivery"


@dataclass(frozen=True, slots=True)
class WebhookPolicy:
    timeout: float = 10.0
    """Seconds that a receiver has to respond."""
    backoff: tuple[float, ...] = (5.0, 30.0, 300.0, 1_800.0, 7_200.0)
    """Seconds before each retry. After the last one a delivery is dead."""


@dataclass(frozen=True, slots=True)
class WebhookTurn:
    """A webhook, its lease, and when its next delivery is due: None if no event waits for it."""

    tenant: str
    webhook: str
    held_by: str
    held_until: int
    due_at: int | None

    def turn(self, owner: str) -> int | None:
        free = 0 if self.held_by == owner else self.held_until
        return None if self.due_at is None else max(self.due_at, free)


@dataclass(frozen=True, slots=True)
class DueDelivery:
    """The next delivery of a webhook."""

    url: str
    secret: str
    number: int
    attempts: int
    id: str
    type: str
    body: str
    due_at: int


@dataclass(slots=True, kw_only=True)
class Deliveries:
    db: Database
    background: Background
    clock: Clock
    leases: Leases
    policy: WebhookPolicy
    addresses: WebhookAddresses
    _lease: Lease = field(init=False)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _has_webhooks: bool = False
    """True if there was a webhook at the last poll; without one, changes need not wake the task."""
    _busy: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    _room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_CONCURRENT))

    def __post_init__(self) -> None:
        duration = int(self.policy.timeout * SECOND) + LEASE_MARGIN
        self._lease = self.leases.rows(
            "document_webhooks", ("tenant", "id"), duration, owner="held_by", until="held_until", nobody="''"
        )

    def nudge(self) -> None:
        """Wake the task: there may be an event to deliver."""
        if self._has_webhooks:
            self._news.set()

    def expect(self) -> None:
        """Wake the task: a webhook was added, or its deliveries are to be retried now."""
        self._has_webhooks = True
        self._news.set()

    async def run(self) -> None:
        """Deliver events until the hub stops."""
        await self.background.every(POLL, self._round, name="webhooks", wake=self._news)

    async def _round(self) -> float:
        """Start serving each webhook that is due; return the seconds until the next one is."""
        turns = await self.db.read(_turns)
        self._has_webhooks = bool(turns)
        now = self.clock()
        wait = POLL
        for webhook_turn in turns:
            turn, key = webhook_turn.turn(self.leases.holder), (webhook_turn.tenant, webhook_turn.webhook)
            if turn is None or key in self._busy:
                continue
            if turn <= now:
                self._busy.add(key)
                self.background.add(for_tenant(webhook_turn.tenant, partial(self._serve, *key)))
            else:
                wait = min(wait, max(0.01, (turn - now) / SECOND))
        return wait

    async def _serve(self, tenant: str, webhook: str) -> None:
        """Send one webhook its due deliveries. When the hub stops, it ends after the current request."""
        try:
            async with self._room:
                due = await self.db.write(lambda tx: self._claim(tx, tenant, webhook))
                if due is not None:
                    rules = await self.addresses.rules()
                    async with safe_http.SafeHttp(rules, self.addresses.network, self.policy.timeout) as session:
                        while due is not None:
                            problem = await self._post(session, webhook, due)
                            settle = partial(
                                self._settle, tenant=tenant, webhook=webhook, delivery=due, problem=problem
                            )
                            due = await self.db.write(settle)
            # Rounds meanwhile skipped this webhook as busy: wake the task for events written since.
            self._news.set()
        except KhoError as failure:  # the database is unavailable; unconfirmed deliveries are sent again
            log.warning("webhooks wait: %s", failure.message)
        finally:
            self._busy.discard((tenant, webhook))

    async def _post(self, session: "safe_http.SafeHttp", webhook: str, due: DueDelivery) -> str | None:
        """Send a delivery. Return None on success, else the problem in a sentence, for those who see the webhook."""
        body = due.body.encode()
        headers = {
            "content-type": "application/json",
            EVENT: due.type,
            DELIVERY: due.id,
            SIGNATURE: signature(due.secret, self.clock() // SECOND, body),
        }
        public = False
        try:
            async with asyncio.timeout(self.policy.timeout):
                reply = await session.post(due.url, body, headers, max_read=MAX_READ)
            if 200 <= reply.status < 300:
                return None
            problem, public = f"It answered with {reply.status}.", reply.public
        except TimeoutError:
            problem = f"It did not answer within {self.policy.timeout:g} s."
        except safe_http.Unreachable as failure:
            problem = f"It cannot be reached ({failure})."
        except AddressRefused as refused:
            problem = str(refused)
        if public or session.rules.named_by is NamedBy.OPERATOR:
            return problem
        log.info("webhook %s: %s", webhook, problem)
        return UNDELIVERED

    def _claim(self, tx: Tx, tenant: str, webhook: str) -> DueDelivery | None:
        return self._next(tx, tenant, webhook) if self._lease.take(tx, tenant, webhook) else None

    def _settle(
        self, tx: Tx, *, tenant: str, webhook: str, delivery: DueDelivery, problem: str | None
    ) -> DueDelivery | None:
        """Store the outcome of a delivery; return the next due one."""
        # Locks the webhook's row: a concurrent removal waits here, or came first, and then there is nothing to store.
        held = self._lease.hold(tx, tenant, webhook)
        if problem is None:
            remove_delivered(tx, tenant, webhook, delivery.number)
        elif held:
            self._put_off(tx, tenant, webhook, delivery, problem)
        return self._next(tx, tenant, webhook) if held else None

    def _next(self, tx: Tx, tenant: str, webhook: str) -> DueDelivery | None:
        """Return the first waiting delivery if it is due; else release the webhook's lease."""
        statement = (
            "SELECT w.url, w.secret, d.event, d.attempts, e.id, e.type, e.body, d.due_at FROM document_deliveries AS d "
            "JOIN document_webhooks AS w ON w.tenant = d.tenant AND w.id = d.webhook "
            "JOIN document_events AS e ON e.tenant = d.tenant AND e.number = d.event "
            "WHERE d.tenant = $1 AND d.webhook = $2 AND d.dead = 0 ORDER BY d.event LIMIT 1"
        )
        row = tx.one(statement, tenant, webhook)
        due = None if row is None else DueDelivery(*row)
        if due is not None and due.due_at <= self.clock() and not self.background.stopping:
            return due
        self._lease.release(tx, tenant, webhook)
        return None

    def _put_off(self, tx: Tx, tenant: str, webhook: str, delivery: DueDelivery, problem: str) -> None:
        attempts = delivery.attempts + 1
        dead = attempts > len(self.policy.backoff)
        pause = 0.0 if dead else self.policy.backoff[attempts - 1]
        due_at = self.clock() + int(pause * SECOND)
        changes = {"attempts": attempts, "due_at": due_at, "dead": int(dead), "problem": problem}
        update(tx, "document_deliveries", changes, tenant=tenant, webhook=webhook, event=delivery.number)


def signature(secret: str, at: int, body: bytes) -> str:
    """Sign a body with HMAC-SHA256. The time is signed, too, so that a receiver can reject replayed requests."""
    digest = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


def remove_delivered(tx: Tx, tenant: str, webhook: str, event: int) -> None:
    """Delete a delivery that succeeded, and its event if no other delivery needs it."""
    # Lock the event's row: else two concurrent deliveries would each see the other one waiting, and keep the event.
    tx.run("UPDATE document_events SET at = at WHERE tenant = $1 AND number = $2", tenant, event)
    delete(tx, "document_deliveries", tenant=tenant, webhook=webhook, event=event)
    statement = (
        "DELETE FROM document_events WHERE tenant = $1 AND number = $2 AND NOT EXISTS "
        "(SELECT 1 FROM document_deliveries WHERE tenant = $3 AND event = $4)"
    )
    tx.run(statement, tenant, event, tenant, event)


def waiting(tx: Tx) -> int:
    return number(tx, "SELECT count(*) FROM document_deliveries WHERE dead = 0")


def given_up(tx: Tx) -> int:
    return number(tx, "SELECT count(*) FROM document_deliveries WHERE dead <> 0")


def _turns(tx: Tx) -> list[WebhookTurn]:
    rows = tx.all(
        "SELECT w.tenant, w.id, w.held_by, w.held_until, (SELECT d.due_at FROM document_deliveries AS d "
        "WHERE d.tenant = w.tenant AND d.webhook = w.id AND d.dead = 0 ORDER BY d.event LIMIT 1) "
        "FROM document_webhooks AS w"
    )
    return [WebhookTurn(*row) for row in rows]
