"""Parameters and results of the operations on webhooks."""

from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from kho.documents.events import EVENTS
from kho.documents.model import Cursor, Page
from kho.kernel.params import Id, NotScreened, Params, Reason, Result, Time
from kho.lib.addresses import AddressRefused, parse


def _address(value: str) -> str:
    """Check the form; where it may lead, `addresses` says."""
    try:
        parse(value)
    except AddressRefused as refused:
        raise PydanticCustomError("url", "is refused: {refused}", {"refused": str(refused)}) from None
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
        Field(
            min_length=16,
            max_length=256,
            description="The secret that events are signed with; generated if left out.",
        ),
        NotScreened(),
    ] = None


class ListWebhooks(Params):
    pass


class RemoveWebhook(Params):
    webhook_id: Annotated[Id, Field(description="The webhook.")]
    reason: Reason = ""


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
    created_at: Time
    waiting: int = Field(description="Events that are still to be delivered.")
    dead: int = Field(description="Events that could not be delivered.")
    problem: str | None = Field(default=None, description="Why the next event has not been delivered yet.")
    next_attempt: Time | None = None


class Added(Result):
    webhook_id: str
    url: str
    events: list[str]
    secret: str = Field(description="The secret that events are signed with. It is shown only once.")


class WebhookList(Result):
    webhooks: list[Webhook]


class RemovedWebhook(Result):
    webhook_id: str
    dropped: int = Field(description="Deliveries that waited, or were dead.")


class Delivery(Result):
    webhook_id: str
    url: str
    event_id: str
    type: str
    document_id: str
    at: Time
    attempts: int
    problem: str


class Dead(Result):
    deliveries: list[Delivery]
    next_cursor: str | None = None


class Retried(Result):
    deliveries: int = Field(description="Deliveries that are tried again now.")
