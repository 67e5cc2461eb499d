"""Deliveries: each event arrives, signed and in order, whatever happens to the receiver or to the hub meanwhile."""

import asyncio
from typing import Any

import pytest
from tests.documents.webhook_receiver import (
    FAILS,
    Office,
    Receiver,
    idle,
    is_genuine,
    left,
    store,
)

from kho.app import open_hub
from kho.documents.events import EVENTS
from kho.documents.settings import DocumentSettings
from kho.kernel.errors import Conflict
from kho.kernel.ports import Tx
from kho.lib.clock import SECOND, system_clock
from kho.settings import Settings


async def test_every_event_arrives_signed_and_in_order(settings: Settings, receiver: Receiver) -> None:
    async with open_hub(settings) as hub:
        office = Office(hub.registry)
        hook = await office.hook(receiver)
        assert hook["events"] == [*EVENTS]
        await office.create("a", "b")
        await office.do("update_document", document_id="a", patch={"metadata": {"title": "A"}})
        await office.do("edit_document", document_id="a", old_text="About", new_text="Of")
        await office.do("restore_revision", document_id="a", revision=1)
        await office.do("move_document", document_id="b", new_parent_id="a")
        await office.do("delete_document", document_id="a", reason="old")
        await office.do("restore_document", document_id="a")
        await receiver.has(8)
    assert receiver.told == [
        ("document.created", "a"),
        ("document.created", "b"),
        ("document.updated", "a"),
        ("document.updated", "a"),
        ("document.updated", "a"),
        ("document.moved", "b"),
        ("document.deleted", "a"),
        ("document.restored", "a"),
    ]
    for request in receiver.requests:
        assert is_genuine(hook["secret"], request)
        assert request.headers["x-kho-event"] == request.event["type"]
        assert request.headers["x-kho-delivery"] == request.event["id"]
        assert request.headers["content-type"] == "application/json"
        assert request.event["tenant_id"] == "acme"
        assert request.event["actor"] == "boss"
        assert "About" not in request.raw.decode()
    assert len({request.event["id"] for request in receiver.requests}) == 8
    assert receiver.requests[6].event["document_ids"] == ["a", "b"]
    assert await left(settings) == {}


async def test_a_failing_event_holds_back_the_later_ones_until_it_is_told(office: Office, receiver: Receiver) -> None:
    receiver.answers = [FAILS, b"", FAILS]
    await office.hook(receiver)
    await office.create("a", "b", "c")
    await receiver.has(6)
    assert [document for _, document in receiver.told] == ["a", "a", "a", "a", "b", "c"]
    # Each attempt is signed when it is made, and names the same delivery.
    assert len({request.headers["x-kho-delivery"] for request in receiver.requests[:4]}) == 1


async def test_a_receiver_that_was_away_is_told_when_it_is_back(settings: Settings) -> None:
    patient = settings.model_copy(update={"documents": DocumentSettings(webhook_backoff=[0.05] * 500)})
    receiver = Receiver()
    async with receiver.listening():
        pass
    async with open_hub(patient) as hub:
        office = Office(hub.registry)
        hook = await office.hook(receiver)
        await office.create("a", "b", "c")
        assert (await office.do("list_webhooks"))["webhooks"][0]["webhook_id"] == hook["webhook_id"]
        async with receiver.listening():
            await receiver.has(3)
    assert [document for _, document in receiver.told] == ["a", "b", "c"]
    assert await left(settings) == {}


async def test_killed_between_the_commit_and_the_delivery(settings: Settings, receiver: Receiver) -> None:
    async with idle(settings) as office:
        await office.hook(receiver)
        await office.create("a")
    assert receiver.requests == []
    async with open_hub(settings):
        await receiver.has(1)
    assert receiver.told == [("document.created", "a")]
    assert await left(settings) == {}


async def test_killed_while_it_told(settings: Settings, receiver: Receiver) -> None:
    """The process that died still holds the webhook: nobody else tells it before the lease is over."""
    async with idle(settings) as office:
        await office.hook(receiver)
        await office.create("a")
    until = system_clock() + SECOND // 4
    async with store(settings) as database:
        await database.write(
            lambda tx: tx.run("UPDATE document_webhooks SET held_by = $1, held_until = $2", "a dead process", until)
        )
    async with open_hub(settings):
        await receiver.has(1)
    assert system_clock() >= until
    assert receiver.told == [("document.created", "a")]


async def test_two_hubs_tell_once(settings: Settings, receiver: Receiver) -> None:
    async with idle(settings) as office:
        await office.hook(receiver)
    async with open_hub(settings) as one, open_hub(settings) as other:
        offices = [Office(one.registry), Office(other.registry)]
        names = [f"d{number}" for number in range(20)]
        for number, name in enumerate(names):
            await offices[number % 2].create(name)
        await receiver.has(20)
    assert [document for _, document in receiver.told] == names
    assert await left(settings) == {}


async def test_a_webhook_is_told_by_a_hub_that_made_no_change(settings: Settings, receiver: Receiver) -> None:
    """It looks by itself every few seconds."""
    async with open_hub(settings), idle(settings) as office:
        await office.hook(receiver)
        await office.create("a")
        await receiver.has(1)


async def test_a_change_that_was_rolled_back_tells_nobody(settings: Settings, receiver: Receiver) -> None:
    class Unkept:
        def claim(self, tx: Tx) -> None:
            return None

        def keep(self, tx: Tx, result: Any) -> None:
            raise Conflict("the last step of the transaction fails")

    async with open_hub(settings) as hub:
        office = Office(hub.registry)
        await office.hook(receiver)
        made = {"document_id": "a", "content": {"body": "x"}}
        assert (await office.ask("create_document", made, receipt=Unkept())).error.code == "CONFLICT"
        assert (await office.refused("delete_document", document_id="a")).code == "NOT_FOUND"
        await office.create("b")
        await receiver.has(1)
    assert receiver.told == [("document.created", "b")]
    assert await left(settings) == {}


async def test_a_slow_receiver_holds_back_neither_the_change_nor_other_webhooks(
    settings: Settings, receiver: Receiver
) -> None:
    other = Receiver()
    receiver.answering.clear()
    async with other.listening(), open_hub(settings) as hub:
        office = Office(hub.registry)
        await office.hook(receiver)
        await office.hook(other)
        await office.create("a", "b")
        await other.has(2)
        await receiver.has(1)
        assert receiver.told == [("document.created", "a")]
        receiver.answering.set()
        await receiver.has(2)
        assert receiver.told == other.told
    assert await left(settings) == {}


async def test_two_webhooks_are_told_at_once_and_nothing_is_left(settings: Settings, receiver: Receiver) -> None:
    other = Receiver()
    async with other.listening(), open_hub(settings) as hub:
        office = Office(hub.registry)
        await office.hook(receiver)
        await office.hook(other)
        await asyncio.gather(*(office.create(f"d{number}") for number in range(20)))
        await receiver.has(20)
        await other.has(20)
    assert receiver.told == other.told
    assert await left(settings) == {}


async def test_a_receiver_that_never_answers_is_given_up(settings: Settings, receiver: Receiver) -> None:
    hasty = settings.model_copy(update={"documents": DocumentSettings(webhook_backoff=[], webhook_timeout=0.1)})
    receiver.answering.clear()
    async with open_hub(hasty) as hub:
        office = Office(hub.registry)
        await office.hook(receiver)
        await office.create("a", "b")
        await receiver.has(2)
        (dead,) = (await office.do("dead_deliveries"))["deliveries"]
        assert dead["problem"] == "It did not answer within 0.1 s."
        receiver.answering.set()


@pytest.mark.parametrize("answer", [b"HTTP/1.1 204 None\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1_000_000])
async def test_what_it_answers_is_not_read(settings: Settings, receiver: Receiver, answer: bytes) -> None:
    receiver.answers = [answer]
    async with open_hub(settings) as hub:
        office = Office(hub.registry)
        await office.hook(receiver)
        await office.create("a", "b")
        await receiver.has(2)
    assert [document for _, document in receiver.told] == ["a", "b"]
    assert await left(settings) == {}


async def test_a_redirect_is_not_followed(settings: Settings, receiver: Receiver) -> None:
    given_up = settings.model_copy(update={"documents": DocumentSettings(webhook_backoff=[])})
    receiver.answers = [b"HTTP/1.1 307 Elsewhere\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n"]
    async with open_hub(given_up) as hub:
        office = Office(hub.registry)
        await office.hook(receiver)
        await office.create("a", "b")
        await receiver.has(2)
        (dead,) = (await office.do("dead_deliveries"))["deliveries"]
        assert (dead["document_id"], dead["problem"]) == ("a", "It answered with 307.")
    assert {request.path for request in receiver.requests} == {"/hook"}


async def test_nobody_listens_nothing_is_kept(settings: Settings) -> None:
    async with open_hub(settings) as hub:
        await Office(hub.registry).create("a")
    assert await left(settings) == {}
