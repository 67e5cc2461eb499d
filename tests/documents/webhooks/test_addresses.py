"""Where webhooks may lead: anywhere for the one user of a hub without keys; on a hub with keys to the open internet and to
what its operator names. What would be connected to is recorded; nothing leaves the machine."""

import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass

import pytest
from tests.documents.webhook_receiver import FAILS, Json, Office, Receiver, left
from tests.doors.doors import new_key
from tests.outside import PUBLIC, Outside

from kho.app import open_hub
from kho.documents.settings import DocumentSettings
from kho.documents.webhooks.delivery import UNDELIVERED
from kho.settings import Settings


@dataclass
class Team:
    """The admin of a tenant, at a hub with keys that sees an internet of its own."""

    office: Office
    outside: Outside

    async def problem_of(self, url: str) -> str:
        """Add a webhook, let something happen, and return what is told of the delivery that was given up."""
        hook = await self.office.do("add_webhook", url=url, events=["document.created"])
        await self.office.do("create_document", content={"body": "x"})
        return (await self.dead(hook["webhook_id"]))["problem"]

    async def dead(self, id: str) -> Json:
        while True:
            found = (await self.office.do("dead_deliveries", webhook_id=id))["deliveries"]
            if found:
                return found[0]


@pytest.fixture
def keyed(settings: Settings) -> Settings:
    return settings.model_copy(update={"documents": DocumentSettings(webhook_backoff=[], webhook_timeout=2)})


@contextlib.asynccontextmanager
async def team(settings: Settings, outside: Outside) -> AsyncGenerator[Team]:
    await new_key(settings, "acme", "*", "admin")
    async with open_hub(settings, network=outside.network) as hub:
        yield Team(Office(hub.registry), outside)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:22/",
        "http://[::1]/",
        "http://localhost:8001/jsonrpc",
        "http://169.254.169.254/latest/meta-data/",
        "http://10.0.0.1/",
        "http://[::ffff:192.168.0.1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://printer.local/",
    ],
)
async def test_on_a_hub_with_keys_an_address_inside_is_refused_when_it_is_added(keyed: Settings, url: str) -> None:
    async with team(keyed, Outside()) as acme:
        refused = await acme.office.refused("add_webhook", url=url)
        assert (refused.code, refused.details["field"]) == ("INVALID_ARGUMENT", "url")
        assert "KHO_DOCUMENTS__WEBHOOK_HOSTS" in refused.message
        assert await acme.office.do("list_webhooks") == {"webhooks": []}
        assert acme.outside.dialled == acme.outside.asked == []


async def test_adding_asks_no_name_server(keyed: Settings) -> None:
    async with team(keyed, Outside()) as acme:
        await acme.office.do("add_webhook", url="https://hooks.example/x")
        assert acme.outside.asked == []


async def test_an_event_goes_to_a_public_address_which_may_be_told_of(keyed: Settings, receiver: Receiver) -> None:
    outside = Outside({"hooks.example": [[PUBLIC]]}, {PUBLIC: receiver.port})
    receiver.answers = [FAILS]
    async with team(keyed, outside) as acme:
        assert await acme.problem_of("http://hooks.example/x") == "It answered with 500."
        await acme.office.do("retry_deliveries")
        await receiver.has(2)
    assert outside.dialled == [(PUBLIC, 80, "hooks.example")] * 2
    assert await left(keyed) == {}


async def test_what_goes_wrong_tells_nothing_of_the_hubs_own_network(keyed: Settings, receiver: Receiver) -> None:
    """A name that leads inside, to a port where somebody listens or where nobody does, one that is not there, one that
    leads nowhere, and one that says nothing: all the same to whoever added it."""
    outside = Outside(
        {
            "open-port.example": [["10.0.0.1"]],
            "closed-port.example": [["10.0.0.2"]],
            "mixed.example": [[PUBLIC, "127.0.0.1"]],
            "dead.example": [["93.184.216.99"]],
        },
        {"10.0.0.1": receiver.port, "127.0.0.1": receiver.port},
    )
    async with team(keyed, outside) as acme:
        for name in ("open-port", "closed-port", "mixed", "dead", "missing"):
            assert await acme.problem_of(f"http://{name}.example/x") == UNDELIVERED
    assert {*outside.dialled} == {("93.184.216.99", 80, "dead.example")}
    assert receiver.requests == []


async def test_a_name_that_leads_inside_later_gets_nothing_more(keyed: Settings, receiver: Receiver) -> None:
    outside = Outside({"hooks.example": [[PUBLIC], ["127.0.0.1"]]}, {PUBLIC: receiver.port, "127.0.0.1": receiver.port})
    async with team(keyed, outside) as acme:
        hook = await acme.office.do("add_webhook", url="http://hooks.example/x")
        await acme.office.create("a")
        await receiver.has(1)
        await acme.office.create("b")
        assert (await acme.dead(hook["webhook_id"]))["problem"] == UNDELIVERED
    assert outside.dialled == [(PUBLIC, 80, "hooks.example")]
    assert receiver.told == [("document.created", "a")]


async def test_what_an_operator_allows_is_called_and_its_answers_are_not_told(
    keyed: Settings, receiver: Receiver
) -> None:
    """Else the admin of a tenant could look through the ports of a network that is open to webhooks."""
    allowed = keyed.documents.model_copy(update={"webhook_hosts": ["hooks.internal", "10.1.0.0/16"]})
    settings = keyed.model_copy(update={"documents": allowed})
    outside = Outside({"hooks.internal": [["192.168.0.5"]]}, {"192.168.0.5": receiver.port, "10.1.0.7": receiver.port})
    receiver.answers = [FAILS]
    async with team(settings, outside) as acme:
        assert await acme.problem_of("http://hooks.internal/a") == UNDELIVERED
        assert await acme.problem_of("http://10.1.0.8:81/a") == UNDELIVERED
        await acme.office.do("add_webhook", url="http://10.1.0.7:8080/b", events=["document.deleted"])
        await acme.office.do("create_document", document_id="a", content={"body": "x"})
        await acme.office.do("delete_document", document_id="a")
        await receiver.has(4)
    assert {path.path for path in receiver.requests} == {"/a", "/b"}


async def test_without_keys_the_machines_user_may_name_any_address(settings: Settings, receiver: Receiver) -> None:
    quick = settings.model_copy(update={"documents": DocumentSettings(webhook_backoff=[])})
    outside = Outside({"intranet": [["192.168.0.5"]]}, {"192.168.0.5": receiver.port})
    async with open_hub(quick, network=outside.network) as hub:
        here = Team(Office(hub.registry), outside)
        await here.office.do("add_webhook", url="http://intranet/x", events=["document.deleted"])
        await here.office.create("a")
        await here.office.do("delete_document", document_id="a")
        await receiver.has(1)
        assert await here.problem_of("http://127.0.0.1:9/x") == "It cannot be reached (ConnectError)."


async def test_with_the_first_key_an_address_inside_is_no_longer_called(settings: Settings, receiver: Receiver) -> None:
    quick = settings.model_copy(update={"documents": DocumentSettings(webhook_backoff=[])})
    async with open_hub(quick) as hub:
        here = Team(Office(hub.registry), Outside())
        hook = await here.office.hook(receiver)
        await here.office.create("a")
        await receiver.has(1)
        await new_key(quick, "acme", "*")
        await here.office.create("b")
        assert (await here.dead(hook["webhook_id"]))["problem"] == UNDELIVERED
    assert receiver.told == [("document.created", "a")]
