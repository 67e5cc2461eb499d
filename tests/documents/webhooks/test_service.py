"""Webhooks: who may name an address, what is told to it, and what is known of that."""

import asyncio
from typing import Any

import orjson
import pytest
from tests.documents.webhook_receiver import FAILS, Json, Office, Receiver, idle, is_genuine, left
from tests.doors.command_line import program_of, run_in_process

from kho.app import open_hub
from kho.documents.settings import DocumentSettings
from kho.settings import Settings


async def test_only_what_was_asked_for(office: Office, receiver: Receiver) -> None:
    hook = await office.hook(receiver, events=["document.moved", "document.moved"], secret="a secret of our own")
    assert (hook["events"], hook["secret"]) == (["document.moved"], "a secret of our own")
    await office.create("a", "b")
    await office.do("move_document", document_id="b", new_parent_id="a")
    await receiver.has(1)
    assert receiver.told == [("document.moved", "b")]
    assert is_genuine("a secret of our own", receiver.requests[0])


async def test_dead_letters_are_listed_and_retried(settings: Settings, receiver: Receiver) -> None:
    receiver.answers = [FAILS] * 8
    async with open_hub(settings) as hub:
        office = Office(hub.registry)
        hook = await office.hook(receiver)
        await office.create("a", "b", "c")
        await receiver.has(9)  # four attempts each for two, then one that is told
        first = await office.do("dead_deliveries", limit=1)
        second = await office.do("dead_deliveries", limit=1, cursor=first["next_cursor"])
        assert "next_cursor" not in second
        dead = first["deliveries"] + second["deliveries"]
        assert [(one["type"], one["document_id"], one["attempts"], one["problem"]) for one in dead] == [
            ("document.created", "a", 4, "It answered with 500."),
            ("document.created", "b", 4, "It answered with 500."),
        ]
        assert dead[0]["url"] == receiver.url
        assert dead[0]["event_id"] == receiver.requests[0].event["id"]
        assert (await office.do("dead_deliveries", webhook_id=hook["webhook_id"]))["deliveries"] == dead
        assert (await office.do("list_webhooks"))["webhooks"][0]["dead"] == 2
        assert await office.do("retry_deliveries", webhook_id=hook["webhook_id"]) == {"deliveries": 2}
        await receiver.has(11)
        assert await office.do("dead_deliveries") == {"deliveries": []}
    assert [document for _, document in receiver.told[8:]] == ["c", "a", "b"]
    assert await left(settings) == {}


async def test_what_waits_is_told_why_and_tried_again_on_request(settings: Settings, receiver: Receiver) -> None:
    slow = settings.model_copy(update={"documents": DocumentSettings(webhook_backoff=[3_600.0])})
    receiver.answers = [FAILS]
    async with open_hub(slow) as hub:
        office = Office(hub.registry)
        await office.hook(receiver)
        await office.create("a")
        await receiver.has(1)
    async with open_hub(slow) as hub:
        office = Office(hub.registry)
        (shown,) = (await office.do("list_webhooks"))["webhooks"]
        assert (shown["waiting"], shown["dead"], shown["problem"]) == (1, 0, "It answered with 500.")
        assert "next_attempt" in shown
        assert "secret" not in shown
        assert await office.do("retry_deliveries") == {"deliveries": 1}
        await receiver.has(2)
    assert await left(settings) == {}


async def test_tenants_know_nothing_of_each_other(office: Office, receiver: Receiver) -> None:
    acme, rival = office, Office(office.registry, "rival")
    receiver.answers = [FAILS] * 4
    hook = await acme.hook(receiver)
    await rival.create("secret-plan")
    await acme.create("a", "b")
    await receiver.has(5)
    assert [document for _, document in receiver.told] == ["a"] * 4 + ["b"]
    assert await rival.do("list_webhooks") == {"webhooks": []}
    assert await rival.do("dead_deliveries") == {"deliveries": []}
    assert await rival.do("retry_deliveries") == {"deliveries": 0}
    for operation in ("remove_webhook", "dead_deliveries", "retry_deliveries"):
        assert (await rival.refused(operation, webhook_id=hook["webhook_id"])).code == "NOT_FOUND"
    assert len((await acme.do("dead_deliveries"))["deliveries"]) == 1


async def test_a_webhook_that_is_removed_is_told_nothing_more(settings: Settings, receiver: Receiver) -> None:
    async with idle(settings) as office:
        hook, other = await office.hook(receiver), await office.hook(receiver, events=["document.deleted"])
        await office.create("a", "b")
        removed = await office.do("remove_webhook", webhook_id=hook["webhook_id"])
        assert removed == {"webhook_id": hook["webhook_id"], "dropped": 2}
        assert (await office.refused("remove_webhook", webhook_id=hook["webhook_id"])).code == "NOT_FOUND"
    assert await left(settings) == {}
    async with open_hub(settings) as hub:
        office = Office(hub.registry)
        assert [one["webhook_id"] for one in (await office.do("list_webhooks"))["webhooks"]] == [other["webhook_id"]]
        await office.create("c")
        await office.do("delete_document", document_id="c")
        await receiver.has(1)
    assert receiver.told == [("document.deleted", "c")]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"url": "ftp://example.org/x"}, "begin with http:// or https://"),
        ({"url": "file:///etc/passwd"}, "begin with http:// or https://"),
        ({"url": "http://"}, "begin with http:// or https://"),
        ({"url": "http://example.org:99999/"}, "not a valid address"),
        ({"url": "http://exa mple.org/"}, "blanks"),
        ({"url": "http://example.org/\n"}, "control characters"),
        ({"url": "http://0x7f000001/"}, "four decimal numbers"),
        ({"url": "https://me:Tr0ub4dor@example.org/"}, "user name or a password"),
        ({"url": "https://@example.org/"}, "user name or a password"),
        ({"url": "https://example.org/", "events": []}, "must not be empty"),
        ({"url": "https://example.org/", "events": ["document.read"]}, "must be one of document.created"),
        ({"url": "https://example.org/", "secret": "short"}, "at least 16"),
        ({}, "'url' is required"),
    ],
)
async def test_addresses_that_are_refused(office: Office, arguments: Json, says: str) -> None:
    error = await office.refused("add_webhook", **arguments)
    assert (error.code, error.status) == ("INVALID_ARGUMENT", 400)
    assert says in error.message
    assert await office.do("list_webhooks") == {"webhooks": []}


async def test_only_an_admin_may(office: Office) -> None:
    anybody, registry = Office(office.registry, scopes=frozenset({"*"})), office.registry
    for operation in ("add_webhook", "list_webhooks", "remove_webhook", "dead_deliveries", "retry_deliveries"):
        assert (await anybody.refused(operation)).code == "FORBIDDEN"
        assert registry.tool(operation) is None
        assert registry.method(f"documents-server/{operation}") is registry.action(operation)


async def test_a_cursor_of_another_list_is_refused(office: Office) -> None:
    listed = await office.refused("dead_deliveries", cursor="WzFd")
    assert (listed.code, listed.details["field"]) == ("INVALID_ARGUMENT", "cursor")


def typed(settings: Settings, *words: str) -> tuple[int, Json]:
    finished = run_in_process(program_of(settings), "docs", "webhooks", *words, "--json")
    return finished.status, orjson.loads(finished.out)


async def test_on_the_command_line(settings: Settings) -> None:
    async def kho(*words: str) -> Any:
        return await asyncio.to_thread(typed, settings, *words)

    status, added = await kho("add", "http://127.0.0.1:9/x", "--events", "document.created,document.moved")
    assert (status, added["events"]) == (0, ["document.created", "document.moved"])
    assert added["secret"].startswith("whsec_")
    _, listed = await kho("list")
    assert [one["url"] for one in listed["webhooks"]] == ["http://127.0.0.1:9/x"]
    assert await kho("dead") == (0, {"deliveries": []})
    assert await kho("retry") == (0, {"deliveries": 0})
    assert (await kho("remove", added["webhook_id"]))[0] == 0
    assert await kho("list") == (0, {"webhooks": []})
