"""Errors of contract 002. A class docstring is the default message sent to the caller."""

from kho.kernel.errors import InvalidParams, NotFound
from kho.kernel.hints import Hint, Op


class UnknownConversation(NotFound):
    """There is no such conversation, or it is not yours."""

    code = "CONVERSATION_NOT_FOUND"
    guidance = Hint(Op("memory_list"), " names your conversations, and ", Op("memory_get_or_create"), " begins one.")


class UnknownResource(NotFound):
    """There is no such resource, or it is not yours."""

    code = "RESOURCE_NOT_FOUND"
    guidance = "Use a URI from resources/list."


class OtherMessage(InvalidParams):
    """Another message has this message_id already. A retry sends the same text and role; a new message a new id."""

    code = "MESSAGE_ID_TAKEN"
    guidance = "Send the message with another message_id, or with none."
