"""A read-only hub begins no work that changes what callers keep or sends it out, though it is due."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
from tests.documents.webhook_receiver import Office, Receiver, idle, store

from kho.app import open_hub
from kho.kernel import Capability, Tx
from kho.lib.tenancy import in_all_tenants
from kho.settings import Settings

pytestmark = pytest.mark.anyio
GOES_ON = {"reindex", "Sealer.run", "ConnectedBoards.run", "BoardTools.run", "Notifications.run"}
"""What starts in a read-only hub, too, looked at one by one: upkeep of what Kho keeps for itself."""
TABLES = {"audit": "operation, subject", "documents": "*", "document_deletions": "*", "document_deliveries": "*"}


def named(work: Any) -> str:
    return work.func.__name__ if isinstance(work, partial) else work.__qualname__


async def rows(settings: Settings) -> dict[str, Any]:
    def every(tx: Tx) -> dict[str, Any]:
        return {name: sorted(tx.all(f"SELECT {columns} FROM {name}"), key=repr) for name, columns in TABLES.items()}

    async with store(settings) as db:
        with in_all_tenants():
            return await db.read(every)


async def test_what_is_due_waits_for_a_hub_that_may_change_something(settings: Settings, receiver: Receiver) -> None:
    async with idle(settings) as office:
        await office.do("add_webhook", url=receiver.url)
        await office.create("plan", "other")
        await office.do("delete_document", document_id="plan", delete_at="2999-01-01T00:00:00Z")
    async with store(settings) as db:
        with in_all_tenants():
            await db.write(lambda tx: tx.run("UPDATE document_deletions SET due_at = 1"))
    before = await rows(settings)
    assert before["document_deletions"]
    assert before["document_deliveries"]
    async with open_hub(settings.model_copy(update={"read_only": True}), serving=True) as hub:
        office = Office(hub.registry)
        assert (await office.refused("get_document", document_id="plan")).code == "NOT_FOUND"
        listed = (await office.do("list_documents", parent_id="root"))["documents"]
        assert [one["document_id"] for one in listed] == ["other"]
    assert await rows(settings) == before
    assert receiver.requests == []
    async with open_hub(settings, serving=True):
        await receiver.has(3)
    assert (await rows(settings))["document_deletions"] == []


async def test_only_upkeep_begins_in_a_read_only_hub(settings: Settings) -> None:
    begun: list[str] = []

    def begins(name: str) -> list[Callable[[], Awaitable[None]]]:
        async def work() -> None:
            begun.append(name)

        return [work]

    extra = (
        Capability("some", "some-server", (), start=begins("start"), follow=begins("follow"), serve=begins("serve")),
    )
    for read_only, expected in ((True, ["start"]), (False, ["start", "follow", "serve"])):
        begun.clear()
        changed = settings.model_copy(update={"read_only": read_only})
        async with open_hub(changed, extra, serving=True) as hub:
            slices = [one for one in hub.registry.capabilities if one not in extra]
            assert {named(work) for one in slices for work in one.start} == GOES_ON
        assert begun == expected
