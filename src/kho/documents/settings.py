"""Settings of documents."""

from typing import Annotated

from pydantic import Field

from kho.kernel.section import HostOrNetwork, Section


class DocumentSettings(Section):
    timeout: float = Field(default=10.0, gt=0)
    webhook_timeout: float = Field(default=10.0, gt=0, le=60)
    """Seconds that a webhook's receiver has to answer."""
    webhook_backoff: list[Annotated[float, Field(ge=0, le=7 * 86_400)]] = Field(
        default=[5.0, 30.0, 300.0, 1_800.0, 7_200.0]
    )
    """Seconds before each further attempt to deliver an event. After the last one the delivery is dead."""
    webhook_hosts: list[HostOrNetwork] = Field(default_factory=list[HostOrNetwork])
    """Private hosts and networks that webhooks may be sent to on a hub with keys, e.g. 'hooks.internal', '10.1.0.0/16'.
    Anything else must be on the open internet."""
