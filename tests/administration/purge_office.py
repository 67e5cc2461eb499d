"""A hub with something of several people and tenants in every slice, and what is stored of it, row by row."""

from dataclasses import replace
from typing import Any

import orjson

from kho.devices import store as devices
from kho.devices.calls import call_log, queue
from kho.devices.calls.call_log import LoggedCall
from kho.devices.calls.queue import Waiting
from kho.devices.notifications import Notification
from kho.devices.notifications import keep as keep_notifications
from kho.documents.settings import DocumentSettings
from kho.kernel.api_keys import ApiKey, mint
from kho.kernel.call import Call, Principal
from kho.kernel.errors import KhoError
from kho.kernel.hub import Hub
from kho.kernel.ports import Database, Tx
from kho.lib.tenancy import in_all_tenants, in_tenant
from kho.storage import tables

Json = dict[str, Any]
Row = tuple[Any, ...]
HOOKS = DocumentSettings(webhook_hosts=["127.0.0.1"], webhook_backoff=[86_400.0])
"""Settings with which what could not be delivered waits for a day."""
HOOK = "http://127.0.0.1:9/hook"
"""Where nobody listens."""


class Person:
    """Somebody who uses a hub, and whose name, texts and ids have a word in them that is nowhere else."""

    def __init__(self, hub: Hub, db: Database, tenant: str, word: str) -> None:
        self.hub, self.db, self.tenant, self.word = hub, db, tenant, word
        self.name = f"{word}-person"
        self.principal = Principal(self.name, tenant, frozenset({"*", "admin"}), "key")
        self.shared = f"shared-{tenant}-{len(word)}"

    async def ask(self, method: str, request: str = "", /, **arguments: Any) -> Any:
        operation = self.hub.registry.method(method)
        assert operation is not None, method
        call = Call(self.principal, "http", request_id=request or f"{self.word}-request")
        if request:
            call.receipt = self.hub.receipts.issue(
                self.tenant, request, "digest", lambda value: orjson.dumps(value.model_dump(mode="json"))
            )
        outcome = await self.hub.registry.call(operation, arguments, call)
        for work in call.afterwards:
            with in_tenant(self.tenant):
                await work()
        return outcome

    async def do(self, method: str, request: str = "", /, **arguments: Any) -> Json:
        outcome = await self.ask(method, request, **arguments)
        assert outcome.error is None, (method, outcome.error.as_dict())
        return outcome.value

    async def refused(self, method: str, **arguments: Any) -> KhoError:
        outcome = await self.ask(method, **arguments)
        assert outcome.error is not None
        return outcome.error

    def text(self, of: str) -> str:
        return f"This is of {self.word}{of} alone, and nobody else has {self.word}text."

    async def use_everything(self) -> None:
        """Put something into every slice: what is this person's own, and what becomes everybody's, in which no text has
        a word of the person."""
        await self._talk()
        await self._remember()
        await self._research()
        await self._devices()
        await self._write()
        with in_all_tenants():
            key = ApiKey(mint()[0], self.name, self.tenant, ("*",), f"{self.word}digest", 1)
            await self.hub.keys.add(key)

    async def _talk(self) -> None:
        own = {"conversation_id": f"{self.word}-chat", "user_id": self.name}
        for number in range(12):
            await self.do("memory-server/memory/add_message", **own, role="user", content=self.text(f"talk{number}"))
        await self.do(
            "memory-server/memory/set_summary", conversation_id=own["conversation_id"], summary=self.text("sum")
        )
        group = {"conversation_id": f"group-{self.shared}", "role": "user"}
        await self.do("memory-server/memory/add_message", **group, content="Who has the ladder?", speaker="An")
        await self.do("memory-server/memory/add_message", **group, content=self.text("said"), speaker=self.name.upper())
        named = {"metadata": {"author": {"name": self.name}}}
        await self.do("memory-server/memory/add_message", **group, content=f"Is it {self.text('asked')[:-1]}?", **named)
        await self.do("memory-server/memory/add_message", **group, content="On Thursday.", speaker="An")
        await self.do(
            "memory-server/memory/set_summary", conversation_id=group["conversation_id"], summary=self.text("all")
        )

    async def _remember(self) -> None:
        await self.do("facts-server/remember", f"{self.word}-once", text=self.text("fact"), about=self.name)
        mine = await self.do("facts-server/remember", text=self.text("mine"))
        await self.do("facts-server/update_fact", id=mine["id"], text=self.text("edited"))

    async def _research(self) -> None:
        papers = f"papers {self.shared}"
        await self.do("research-server/manage_collections", action="create", collection_name=papers)
        await self.do(
            "research-server/augment_knowledge",
            content="Kilns reach 1,300 degrees.",
            source="note",
            title=f"note {self.shared}",
            collection=papers,
        )
        await self.do("research-server/query_knowledge_base", query=self.text("question"), collections=[papers])
        await self.do(
            "research-server/submit_feedback",
            document_id=f"note {self.shared}",
            verdict="negative",
            reason=self.text("verdict"),
        )

    async def _devices(self) -> None:
        call = LoggedCall(
            0, f"board-{self.shared}", "say", {"text": self.text("call")}, self.name, "http", "r", "ok", "done", 3, 5
        )

        def work(tx: Tx) -> None:
            if devices.get(tx, self.tenant, call.device) is None:
                devices.add(tx, self.tenant, call.device, "client", {}, 1)
                devices.approve(tx, self.tenant, call.device, self.name, 2)
            call_log.add(tx, self.tenant, call)
            number = call_log.add(tx, self.tenant, replace(call, outcome="queued"))
            waiting = Waiting(self.tenant, number, call.device, "say", {"text": self.text("queued")}, 1.0)
            queue.add(tx, waiting, 2**62)
            keep_notifications(tx, [Notification(self.tenant, call.device, 0, "state", {"now": "idle"}, 7)], "process")

        with in_all_tenants():
            await self.db.write(work)

    async def _write(self) -> None:
        """What everybody in the tenant shares, written by this person."""
        if not (await self.do("documents-server/list_webhooks"))["webhooks"]:
            events = ["document.created", "document.deleted"]
            await self.do("documents-server/add_webhook", url=HOOK, events=events, secret="s" * 20)
        doc = {"document_id": f"doc-{self.shared}"}
        await self.do("documents-server/create_document", **doc, content={"body": "The rota of the workshop."})
        await self.do("documents-server/edit_document", **doc, old_text="rota", new_text="roster")
        old = {"document_id": f"old-{self.shared}"}
        await self.do("documents-server/create_document", **old, content={"body": "An old rota."})
        await self.do("documents-server/delete_document", **old, deleted_by=self.name)
        later = {"document_id": f"later-{self.shared}"}
        await self.do("documents-server/create_document", **later, content={"body": "For a while."})
        at = "2098-01-01T00:00:00Z"
        await self.do("documents-server/delete_document", **later, deleted_by=self.name, delete_at=at)
        record = {"title": f"Locks of {self.shared}", "problem_description": "It waits.", "solution": "End the other."}
        made = await self.do("experiences-server/submit_experience", **record, keywords=["lock"])
        id = made["data"]["id"]
        await self.do("experiences-server/update_experience", id=id, expected_revision=1, solution="End the other.")
        await self.do("experiences-server/rate_experience", id=id, helpful=True, note=self.text("note"))


Stored = dict[str, set[Row]]


async def stored(db: Database) -> Stored:
    """Every row of every table that holds what people stored."""

    def work(tx: Tx) -> Stored:
        return {one.name: set(tx.all(f"SELECT {', '.join(one.columns)} FROM {one.name}")) for one in tables.stored(tx)}

    with in_all_tenants():
        return await db.read(work)


def of_others(rows: Stored, tenant: str) -> Stored:
    """Rows of every tenant but one, as far as their table knows tenants."""
    return {name: {row for row in found if tenant not in row} for name, found in rows.items()}
