"""Which addresses webhooks may have.

On a hub without keys an address comes from this machine's user, who could connect there without Kho: it may be
anywhere. As soon as there are keys, webhooks are added by admins of tenants, and events go to the open internet alone,
besides the hosts that the operator names. An address is looked at when it is added, as far as its text tells, and with
what it resolves to before each delivery.
"""

from collections.abc import Awaitable, Callable

from kho.kernel import InvalidParams
from kho.lib.addresses import NOTHING, SYSTEM, AddressRefused, AddressRules, Allowed, NamedBy, Network
from kho.lib.dataclass import dataclass

SETTING = "KHO_DOCUMENTS__WEBHOOK_HOSTS"
OPERATOR = AddressRules(NamedBy.OPERATOR)


async def always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class WebhookAddresses:
    allowed: Allowed = NOTHING
    shared: Callable[[], Awaitable[bool]] = always
    """True if the hub serves others than this machine's user."""
    network: Network = SYSTEM

    async def rules(self) -> AddressRules:
        if await self.shared():
            return AddressRules(NamedBy.CALLER, self.allowed, setting=SETTING)
        return OPERATOR

    async def need(self, url: str) -> None:
        """Raise InvalidParams unless events may be sent there."""
        rules = await self.rules()
        try:
            rules.target(url)
        except AddressRefused as refused:
            raise InvalidParams(f"'url' is refused: {refused}", field="url") from None
