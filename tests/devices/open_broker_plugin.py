"""Lets every client of a test's broker publish and subscribe to everything."""

# pyright: reportMissingTypeStubs=false

from amqtt.contexts import Action
from amqtt.plugins.base import BaseTopicPlugin
from amqtt.session import Session


class Anything(BaseTopicPlugin):
    async def topic_filtering(
        self, *, session: Session | None = None, topic: str | None = None, action: Action | None = None
    ) -> bool:
        return True
