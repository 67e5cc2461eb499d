"""Plugin through which amqtt calls the broker of the slice. amqtt loads it by name, if there is a broker."""

# pyright: reportMissingTypeStubs=false

from typing import Any

from amqtt.contexts import Action, BaseContext
from amqtt.plugins.base import BaseAuthPlugin, BasePlugin, BaseTopicPlugin
from amqtt.session import ApplicationMessage, Session

from kho.lib.dataclass import dataclass


class Gatekeeper(BaseAuthPlugin, BaseTopicPlugin):
    """Delegates everything to `gate`, the slice's BoardBroker."""

    @dataclass
    class Config(BasePlugin.Config):
        gate: Any = None

    def __init__(self, context: BaseContext) -> None:
        super().__init__(context)
        self._gate: Any = getattr(context.config, "gate", None)

    async def authenticate(self, *, session: Session) -> bool:
        return await self._gate.admits(session)

    async def topic_filtering(
        self, *, session: Session | None = None, topic: str | None = None, action: Action | None = None
    ) -> bool:
        """Deny publishing, so that no message reaches another board. A board may subscribe only to its own topic."""
        return action == Action.SUBSCRIBE and session is not None and topic == self._gate.topic(session)

    async def on_broker_client_connected(self, client_id: str, client_session: Session) -> None:
        self._gate.arrived(client_session)

    async def on_broker_message_received(self, client_id: str, message: ApplicationMessage | None) -> None:
        if message is not None:
            self._gate.heard(client_id, message.topic, bytes(message.data))

    async def on_broker_client_disconnected(self, client_id: str, client_session: Session) -> None:
        await self._gate.left(client_session)
