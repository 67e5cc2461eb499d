"""Conversations as MCP resources: memory://conversation/{id}, with the messages and the summary as JSON."""

from collections.abc import Sequence
from unicodedata import normalize
from urllib.parse import unquote

import orjson

from kho.kernel import paging
from kho.kernel.call import Call
from kho.kernel.capability import Resource, ResourceContent
from kho.kernel.ports import Database, Tx
from kho.lib.clock import iso
from kho.memory import model, store
from kho.memory.contract import MEMORY
from kho.memory.errors import UnknownResource
from kho.memory.service import ALL
from kho.memory.store import Conversation, Message

PAGE = 100
MIME = "application/json"


class ConversationResources:
    """Implements the kernel's `Resources`, and the contract's methods resources/list and resources/read."""

    scope = MEMORY.read_scope
    templates = (
        Resource(model.CONVERSATIONS + "{id}", "Conversation", "The messages and the summary of a conversation.", MIME),
    )

    def __init__(self, db: Database, timeout: float) -> None:
        self._db = db
        self._timeout = timeout

    async def page(self, call: Call, cursor: str | None) -> tuple[Sequence[Resource], str | None]:
        [after] = paging.place(cursor, str) or ("",)
        rows = await self._db.read(
            lambda tx: store.by_name(tx, call.tenant, after, PAGE + 1), timeout=call.remaining(self._timeout)
        )
        page, more = paging.cut(rows, PAGE, lambda last: [last.id])
        return [_resource(one.id) for one in page], more

    async def read(self, call: Call, uri: str) -> ResourceContent | None:
        if not uri.startswith(model.CONVERSATIONS):
            return None
        id = normalize("NFC", unquote(uri.removeprefix(model.CONVERSATIONS)))

        def work(tx: Tx) -> tuple[Conversation, list[Message], list[str]] | None:
            conversation = store.get(tx, call.tenant, id)
            if conversation is None:
                return None
            messages = store.newest(tx, call.tenant, id, ALL)
            return conversation, messages, store.folded(tx, call.tenant, id)

        found = await self._db.read(work, timeout=call.remaining(self._timeout))
        return None if found is None else ResourceContent(uri, MIME, _text(*found))

    async def complete(self, call: Call, uri: str, argument: str, value: str) -> Sequence[str]:
        if uri != model.CONVERSATIONS + "{id}" or argument != "id":
            return []
        return await self._db.read(lambda tx: store.beginning_with(tx, call.tenant, value, 100))

    @MEMORY.read("list_resources", tool=False, action=False, rpc="resources/list")
    async def list_resources(self, params: model.ListResources, call: Call) -> model.Resources:
        """Conversations as resources."""
        page, more = await self.page(call, params.cursor)
        found = [model.Shown(uri=one.uri, name=one.name, description=one.description) for one in page]
        return model.Resources(resources=found, nextCursor=more)

    @MEMORY.read(
        "read_resource",
        tool=False,
        action=False,
        rpc="resources/read",
        example={"uri": "memory://conversation/chat_1"},
    )
    async def read_resource(self, params: model.ReadResource, call: Call) -> model.Contents:
        """A conversation by its URI."""
        content = await self.read(call, params.uri)
        if content is None:
            raise UnknownResource(uri=params.uri)
        return model.Contents(contents=[model.Held(uri=params.uri, text=content.text or "")])


def _resource(id: str) -> Resource:
    return Resource(model.uri(id), f"Conversation {id}", f"Conversation history for {id}", MIME)


def _text(conversation: Conversation, messages: Sequence[Message], folded: Sequence[str]) -> str:
    summary = {
        "text": conversation.summary,
        "by": conversation.summary_by if conversation.summary else None,
        "updated_at": iso(conversation.summary_at) if conversation.summary_at else None,
        "folded": folded,
    }
    listed = [
        model.MessageEntry.model_validate(message).model_dump(mode="json", exclude_none=True) for message in messages
    ]
    return orjson.dumps({"messages": listed, "summary": summary}).decode()
