"""The contract's errors."""

from kho.kernel.errors import InvalidParams, NotFound


class UnknownConversation(NotFound):
    """There is no such conversation, or it is not yours."""

    code = "CONVERSATION_NOT_FOUND"
    guidance = "memory/list names your conversations, and memory/get_or_create begins one."


class UnknownResource(NotFound):
    """There is no such resource, or it is not yours."""

    code = "RESOURCE_NOT_FOUND"
    guidance = "Take a uri from resources/list."


class OtherMessage(InvalidParams):
    """Another message has this message_id already. A retry sends the same text and role; a new message a new id."""

    code = "MESSAGE_ID_TAKEN"
    guidance = "Send the message with another message_id, or with none."
