"""The table of memory operations: what they are called on each wire."""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from kho.kernel.command import Command
from kho.kernel.operation import Operation
from kho.memory import markdown, model
from kho.memory.resources import SCOPE as READ
from kho.memory.resources import Shelf
from kho.memory.service import Service
from kho.memory.transfer import Transfer

WRITE = "memory:write"
_CHAT = {"conversation_id": "chat_1"}
_GROUP = "Conversations: messages that stay, and a summary that grows with them."
_READ: tuple[str, dict[str, Any]] = ("memory/get_summary", {})


def _define(
    verb: str, *, result: type[BaseModel], tool: bool = True, cli: Command | None = None, **rest: Any
) -> Operation:
    """`memory/{verb}` at /jsonrpc, `memory_{verb}` elsewhere."""
    return Operation(
        name=f"memory.{verb}",
        tool=f"memory_{verb}" if tool else None,
        rpc=f"memory/{verb}",
        action=f"memory_{verb}",
        cli=(cli,) if cli else (),
        result=result,
        **rest,
    )


def operations(service: Service, shelf: Shelf, transfer: Transfer) -> Sequence[Operation]:
    return (*_writing(service), *_reading(service), *_summaries(service), *_resources(shelf), *_transfer(transfer))


def _writing(service: Service) -> Sequence[Operation]:
    return (
        _define(
            "get_or_create",
            summary="Open a conversation, or begin one.",
            params=model.GetOrCreate,
            result=model.Conversation,
            run=service.get_or_create,
            scope=WRITE,
            effect="write",
            cli=Command("memory open", positional=("conversation_id",), group=_GROUP),
            example=_CHAT,
        ),
        _define(
            "add_message",
            summary="Add a message to a conversation; it is stored for good and can be found at once.",
            description=(
                "Add a message (role user, assistant or system) to a conversation. Begin one with "
                "memory_get_or_create. Send the same message_id again after a lost answer: nothing is doubled."
            ),
            params=model.AddMessage,
            result=model.Done,
            run=service.add_message,
            scope=WRITE,
            effect="write",
            cli=Command("memory add", positional=("conversation_id",)),
            example={**_CHAT, "role": "user", "content": "My name is An, and I have an appointment on 12/05."},
        ),
        _define(
            "clear",
            summary="Delete all messages of a conversation and its summary; the conversation stays.",
            params=model.OfConversation,
            result=model.Done,
            run=service.clear,
            scope=WRITE,
            effect="destructive",
            cli=Command("memory clear", positional=("conversation_id",), final=True, looks=_READ),
            example=_CHAT,
        ),
        _define(
            "delete",
            summary="Delete a conversation for good.",
            params=model.OfConversation,
            result=model.Done,
            run=service.delete,
            scope=WRITE,
            effect="destructive",
            cli=Command("memory delete", positional=("conversation_id",), final=True, looks=_READ),
            example=_CHAT,
        ),
    )


def _reading(service: Service) -> Sequence[Operation]:
    return (
        _define(
            "get_context",
            summary="The newest messages of a conversation; its summary tells of what came before.",
            description=(
                "The newest messages of a conversation, for a model's context (6 unless max_messages says more). What "
                "came before is in memory_get_summary, and found with memory_search."
            ),
            params=model.GetContext,
            result=model.Messages,
            run=service.get_context,
            scope=READ,
            text=markdown.messages,
            cli=Command("memory context", positional=("conversation_id",)),
            example={**_CHAT, "max_messages": 20},
        ),
        _define(
            "get_all_messages",
            summary="Every message of a conversation, in order.",
            params=model.OfConversation,
            result=model.Messages,
            run=service.get_all_messages,
            scope=READ,
            text=markdown.messages,
            cli=Command("memory messages", positional=("conversation_id",)),
            example=_CHAT,
        ),
        _define(
            "get_old_messages",
            summary="The messages before the newest ones.",
            params=model.OfConversation,
            result=model.OldMessages,
            run=service.get_old_messages,
            scope=READ,
            text=markdown.messages,
            tool=False,
            example=_CHAT,
        ),
        _define(
            "search",
            summary="Find messages by words or meaning, in one conversation or in all.",
            description=(
                "Find what was said before, by words or by meaning, in any language: in one conversation or in all of "
                "the caller's. Each hit has its message id, conversation and time."
            ),
            params=model.SearchMemory,
            result=model.Hits,
            run=service.search,
            scope=READ,
            text=markdown.hits,
            cli=Command("memory search", positional=("query",), sentence=True),
            example={"query": "appointment in May"},
        ),
        _define(
            "list",
            summary="Conversations, the most lately used first.",
            params=model.ListConversations,
            result=model.Conversations,
            run=service.conversations,
            scope=READ,
            text=markdown.conversations,
            cli=Command("memory list"),
            example={"limit": 20},
        ),
    )


def _summaries(service: Service) -> Sequence[Operation]:
    return (
        _define(
            "get_summary",
            summary="The summary of a conversation; empty if there is none yet.",
            params=model.OfConversation,
            result=model.Summary,
            run=service.get_summary,
            scope=READ,
            text=markdown.summary,
            cli=Command("memory summary", positional=("conversation_id",)),
            example=_CHAT,
        ),
        _define(
            "get_or_create_summary",
            summary="The summary of a conversation; empty if it has still to be written.",
            params=model.GetOrCreateSummary,
            result=model.Summary,
            run=service.get_or_create_summary,
            scope=READ,
            text=markdown.summary,
            tool=False,
            example={**_CHAT, "language": "vi"},
        ),
        _define(
            "set_summary",
            summary="Set the summary of a conversation; from then on Kho leaves it alone.",
            params=model.SetSummary,
            result=model.Done,
            run=service.set_summary,
            scope=WRITE,
            effect="write",
            example={**_CHAT, "summary": "An has an appointment on 12/05."},
        ),
    )


def _resources(shelf: Shelf) -> Sequence[Operation]:
    """For clients that speak plain JSON-RPC; MCP has resources of its own."""
    return (
        Operation(
            name="memory.list_resources",
            summary="Conversations as resources.",
            params=model.ListResources,
            result=model.Resources,
            run=shelf.list,
            scope=READ,
            rpc="resources/list",
        ),
        Operation(
            name="memory.read_resource",
            summary="A conversation by its URI.",
            params=model.ReadResource,
            result=model.Contents,
            run=shelf.get,
            scope=READ,
            rpc="resources/read",
            example={"uri": "memory://conversation/chat_1"},
        ),
    )


def _transfer(transfer: Transfer) -> Sequence[Operation]:
    return (
        _define(
            "export",
            summary="Conversations, a page at a time, in the form that import takes.",
            params=model.ExportMemory,
            result=model.Exported,
            run=transfer.export,
            scope=READ,
            tool=False,
            example={"limit": 100},
        ),
        _define(
            "import",
            summary="Take what export gave; messages that are here already stay as they are.",
            params=model.ImportMemory,
            result=model.Imported,
            run=transfer.import_,
            scope=WRITE,
            effect="write",
            tool=False,
            example={
                "lines": [
                    {
                        "type": "message",
                        "conversation_id": "chat_1",
                        "id": "m1",
                        "role": "user",
                        "content": "Hello.",
                        "created_at": "2026-07-28T09:00:00Z",
                    }
                ]
            },
        ),
    )
