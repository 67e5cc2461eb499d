"""The scope walk: whatever slices serve, a caller without the scope sees and hears none of it.

What there is to walk is read from the registry, so that a new resource, prompt, notice, announcement, stream or page
cannot be forgotten: without an entry in `FILLED` or `NEEDS_NO_SCOPE` here, the walk fails. Everything that is stored
carries a secret. The callers are, for every scope that anything asks for, a key with that scope alone and one with all
others; anonymous callers on a public tenant; and another tenant's key with every scope.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from tests.doors.doors import ERAS, PLAIN, Json, Served, add_key, bearer, listening
from tests.doors.streams import Hearing, board_that_speaks, hearing
from tests.timeouts import PATIENCE

from kho.app import open_hub
from kho.devices.settings import DeviceSettings
from kho.doors.http.app import Application
from kho.experiences.settings import ExperienceSettings
from kho.kernel.access import OPEN, OWN_CREDENTIALS, Access, Open, names
from kho.kernel.call import Call, Principal
from kho.kernel.capability import Capability
from kho.kernel.hub import Hub
from kho.kernel.web import Page, Socket, Stream
from kho.lib.tenancy import in_tenant
from kho.settings import Local, Mcp, Settings

TENANT = "acme"
WORD, SECRET = "kestrel", "zq4711"
TEXT = f"The {WORD} nests at {SECRET}."
BOARD = f"{SECRET}:01"

FILLED: dict[str, tuple[set[str], Sequence[tuple[str, Json]]]] = {
    "memory": (
        {"resources", "resource_changes"},
        [
            ("memory-server/memory/get_or_create", {"conversation_id": SECRET}),
            ("memory-server/memory/add_message", {"conversation_id": SECRET, "role": "user", "content": TEXT}),
        ],
    ),
    "facts": (
        {"resources", "resource_changes"},
        [
            ("facts-server/import_facts", {"lines": [{"id": SECRET, "text": TEXT}]}),
            ("facts-server/remember", {"text": TEXT, "about": SECRET}),
        ],
    ),
    "experiences": (
        {"prompt summarize_experience", "prompt submit_doc_experience"},
        [("experiences-server/submit_experience", {"title": TEXT, "problem_description": TEXT, "solution": TEXT})],
    ),
    "research": (
        {"resources", "resource_changes", "prompt refine_query", "prompt extract_context"},
        [
            ("research-server/manage_collections", {"action": "create", "collection_name": SECRET}),
            ("research-server/augment_knowledge", {"content": TEXT, "source": SECRET, "collection": SECRET}),
            ("research-server/query_knowledge_base", {"query": TEXT}),
        ],
    ),
    "documents": (
        {"resources"},
        [
            (
                "documents-server/create_document",
                {"document_id": SECRET, "content": {"mime_type": "text/markdown", "body": TEXT}},
            )
        ],
    ),
    "devices": ({"announcements", "sources", "/devices/events"}, []),  # a board comes, and speaks
}
"""What each capability serves under a scope, and the calls that fill it with the secret."""

NEEDS_NO_SCOPE: dict[str, Open] = {
    "/xiaozhi/ota/": OPEN,
    "/xiaozhi/ota/activate": OPEN,
    "/xiaozhi/v1/": OWN_CREDENTIALS,
    "/devices/ws": OWN_CREDENTIALS,
    "/vision/explain": OWN_CREDENTIALS,
}
"""What asks for no scope, on purpose."""


def served_by(capability: Capability) -> dict[str, Access]:
    """Everything that it serves beside operations, with its scope."""
    told = {"resource_changes": capability.resource_changes, "announcements": capability.announcements}
    things: dict[str, Access] = {name: one.scope for name, one in told.items() if one is not None}
    if capability.resources is not None:
        things["resources"] = capability.resources.scope
    for source in capability.sources:
        things["sources"] = frozenset(name for operation in source.operations() for name in names(operation.scope))
    things |= {f"prompt {prompt.name}": prompt.scope for prompt in capability.prompts}
    return things | {one.path: one.scope for one in capability.web}


@dataclass(frozen=True)
class Caller:
    name: str
    principal: Principal
    key: str | None

    @property
    def headers(self) -> dict[str, str]:
        return bearer(self.key) if self.key else {}

    def may(self, scope: Access) -> bool:
        return isinstance(scope, Open) or bool(self.principal.scopes & {*names(scope)})

    def hears(self, scope: Access) -> bool:
        return self.principal.tenant == TENANT and self.may(scope)


@dataclass
class House:
    hub: Hub
    served: Served
    callers: list[Caller]
    owner: Caller

    @property
    def capabilities(self) -> Sequence[Capability]:
        return self.hub.registry.capabilities

    async def rpc(self, method: str, params: Json, caller: Caller) -> Json:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return (await self.served.post("/jsonrpc", body, **caller.headers)).json()


@pytest.fixture
async def house(both_settings: Settings) -> AsyncIterator[House]:
    update = {
        "experiences": ExperienceSettings(public_tenant=TENANT),
        "devices": DeviceSettings(approval="auto"),
        "local": Local(tenant=TENANT),
        "mcp": Mcp(tools=["all"]),
    }
    settings = both_settings.model_copy(update=update)
    hubs: list[Hub] = []

    @asynccontextmanager
    async def opened() -> AsyncGenerator[Hub, None]:
        async with open_hub(settings, serving=True) as hub:
            hubs.append(hub)
            yield hub

    async def caller(name: str, scopes: Iterable[str], tenant: str = TENANT) -> Caller:
        principal = Principal(name, tenant, frozenset(scopes), "key")
        return Caller(name, principal, await add_key(hubs[0], tenant, *scopes, sub=name))

    app = Application(opened, settings.http, settings.mcp)
    async with listening(app) as (url, http):
        [hub] = hubs
        served = [access for capability in hub.registry.capabilities for access in served_by(capability).values()]
        asked = {scope for access in served if not isinstance(access, Open) for scope in names(access)}
        every = {*hub.registry.scopes, *asked}
        owner = await caller("owner", every)
        assert hub.public is not None
        callers = [owner, await caller("another tenant", every, "globex"), Caller("anonymous", hub.public, None)]
        for scope in sorted(asked | {"devices:call"}):  # no board is connected yet
            callers += [await caller(f"only {scope}", {scope}), await caller(f"all but {scope}", every - {scope})]
        here = House(hub, Served(url, app, http), callers, owner)
        for _, calls in FILLED.values():
            for method, params in calls:
                answer = await here.rpc(method, params, owner)
                assert "error" not in answer, answer
                assert answer["result"].get("success", True), answer
        yield here


async def test_there_is_data_for_everything_that_is_served(house: House) -> None:
    for capability in house.capabilities:
        things = served_by(capability)
        scoped = {name for name, access in things.items() if not isinstance(access, Open)}
        assert scoped == FILLED.get(capability.name, (set[str](), []))[0], f"what {capability.name} serves"
        for name in things.keys() - scoped:
            assert NEEDS_NO_SCOPE.get(name) is things[name], f"{name} asks for no scope: is that meant?"


# -- lists, reads, completions and prompts -----------------------------------------------------------------------------


@dataclass
class Seen:
    """What a caller gets to see by asking."""

    listed: set[str] = field(default_factory=set[str])
    templates: set[str] = field(default_factory=set[str])
    prompts: set[str] = field(default_factory=set[str])
    rendered: set[str] = field(default_factory=set[str])
    read: set[str] = field(default_factory=set[str])
    completed: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    text: str = ""


@dataclass
class Known:
    """What there is to ask for: the owner's."""

    uris: set[str]
    templates: list[tuple[str, str]]
    """Each with the one name in it."""
    prompts: dict[str, dict[str, str]]
    """With arguments."""


async def raw_uris(capability: Capability, principal: Principal) -> set[str]:
    """The resources as the slice itself lists them, past the checkpoint."""
    found: set[str] = set()
    cursor: str | None = None
    while capability.resources is not None:
        with in_tenant(principal.tenant):
            page, cursor = await capability.resources.page(Call(principal), cursor)
        found |= {one.uri for one in page}
        if cursor is None:
            break
    return found


async def known(house: House) -> Known:
    """Also what no list has: every template, filled in with what the slice completes it to."""
    uris, templates = set[str](), list[tuple[str, str]]()
    call = Call(house.owner.principal)
    for capability in house.capabilities:
        listed = await raw_uris(capability, house.owner.principal)
        uris |= listed
        for template in capability.resources.templates if capability.resources else ():
            [name] = re.findall(r"\{(\w+)\}", template.uri)
            assert capability.resources is not None
            with in_tenant(call.tenant):
                values = await capability.resources.complete(call, template.uri, name, "")
            assert values, f"there is nothing for {template.uri}: fill it"
            uris |= {template.uri.replace(f"{{{name}}}", value) for value in values}
            templates.append((template.uri, name))
        if capability.resources is not None:
            assert any(SECRET in uri for uri in listed), f"{capability.name} lists no resource: fill it"
    prompts = {
        prompt.name: {argument.name: WORD for argument in prompt.arguments if argument.required}
        for capability in house.capabilities
        for prompt in capability.prompts
    }
    return Known(uris, templates, prompts)


async def seen(house: House, caller: Caller, era: str, there: Known) -> Seen:
    async with (
        httpx2.AsyncClient(headers=caller.headers, verify=PLAIN, trust_env=False, timeout=PATIENCE) as http,
        Client(streamable_http_client(f"{house.served.url}/mcp", http_client=http), mode=era) as client,
    ):
        result = Seen()
        cursor: str | None = None
        while True:
            page = await client.list_resources(cursor=cursor)
            result.listed |= {str(one.uri) for one in page.resources}
            result.text += page.model_dump_json()
            if (cursor := page.next_cursor) is None:
                break
        templates = (await client.list_resource_templates()).resource_templates
        result.templates = {one.uri_template for one in templates}
        result.prompts = {one.name for one in (await client.list_prompts()).prompts}
        for uri in there.uris:
            try:
                read = await client.read_resource(uri)
            except MCPError:
                continue
            result.read.add(uri)
            result.text += read.model_dump_json()
        for name, arguments in there.prompts.items():
            try:
                rendered = await client.get_prompt(name, arguments)
            except MCPError:
                continue
            result.rendered.add(name)
            result.text += rendered.model_dump_json()
        for uri, name in there.templates:
            reference = types.ResourceTemplateReference(type="ref/resource", uri=uri)
            offered = (await client.complete(reference, {"name": name, "value": ""})).completion
            assert (offered.total or 0) >= len(offered.values)
            result.completed |= {(uri, value) for value in offered.values}
            assert offered.values or not offered.total, "what is not shown is not counted either"
    return result


async def expected(house: House, caller: Caller, there: Known) -> Seen:
    """From the declared scopes, and from what the slices hold for the tenant."""
    result = Seen()
    for capability in house.capabilities:
        resources = capability.resources
        result.prompts |= {prompt.name for prompt in capability.prompts if caller.may(prompt.scope)}
        if resources is None or not caller.may(resources.scope):
            continue
        call = Call(caller.principal)
        result.listed |= await raw_uris(capability, caller.principal)
        result.templates |= {template.uri for template in resources.templates}
        with in_tenant(call.tenant):
            for uri in there.uris:
                if await resources.read(call, uri) is not None:
                    result.read.add(uri)
            for uri, name in there.templates:
                result.completed |= {(uri, value) for value in await resources.complete(call, uri, name, "")}
    result.rendered = result.prompts
    return result


@pytest.mark.parametrize("era", ERAS)
async def test_nobody_sees_more_than_the_scope_and_the_tenant_allow(house: House, era: str) -> None:
    there = await known(house)
    for caller in house.callers:
        found, due = await seen(house, caller, era, there), await expected(house, caller, there)
        found_text, found.text = found.text, ""
        assert found == due, caller.name
        holders = [one.resources.scope for one in house.capabilities if one.resources is not None]
        secrets = [*holders, *(prompt.scope for one in house.capabilities for prompt in one.prompts if one.resources)]
        assert (SECRET in found_text) is any(map(caller.hears, secrets)), caller.name
        if caller is house.owner:
            assert found.read == there.uris
            assert found.prompts == {*there.prompts}
            assert {uri for uri, _ in found.completed} == {uri for uri, _ in there.templates}


async def test_servers_and_their_capabilities_show_what_the_caller_may_use(house: House) -> None:
    there = await known(house)
    for caller in house.callers:
        answer = await house.served.get("/servers", **caller.headers)
        listed: dict[str, Json] = {one["name"]: one["capabilities"] for one in answer.json()["servers"]}
        for capability in house.capabilities:
            shown = listed[capability.server]
            alone = await house.served.get(f"/servers/{capability.server}/capabilities", **caller.headers)
            assert alone.json()["capabilities"] == shown
            may = capability.resources is not None and caller.may(capability.resources.scope)
            uris = await raw_uris(capability, caller.principal) if may else set[str]()
            assert {one["uri"] for one in shown["resources"]} == uris, caller.name
            prompts = {prompt.name for prompt in capability.prompts if caller.may(prompt.scope)}
            assert {one["name"] for one in shown["prompts"]} == prompts, caller.name
            tools = {one.tool for one in capability.operations if caller.may(one.scope) and capability.lists_tools}
            assert {one["name"] for one in shown["tools"]} == tools - {None}, caller.name
        if not any(caller.hears(one.resources.scope) for one in house.capabilities if one.resources is not None):
            assert SECRET not in answer.text, caller.name
    assert there.uris


async def test_the_contract_s_own_methods_for_resources_keep_to_the_scope(house: House) -> None:
    uri = f"memory://conversation/{SECRET}"
    for caller in house.callers:
        listed = await house.rpc("memory-server/resources/list", {}, caller)
        read = await house.rpc("memory-server/resources/read", {"uri": uri}, caller)
        for answer in (listed, read):
            assert (SECRET in str(answer.get("result"))) is caller.hears("memory:read"), caller.name


# -- what is told, and what is streamed --------------------------------------------------------------------------------


def told(house: House, kind: str) -> list[Access]:
    return [things[kind] for one in house.capabilities if kind in (things := served_by(one))]


async def change(house: House, number: int) -> None:
    """A fact and a conversation come, and others change: which resources there are changes, and what one says."""
    for method, params in (
        ("facts-server/remember", {"text": f"{TEXT} Take {number}."}),
        ("facts-server/update_fact", {"id": SECRET, "text": f"{TEXT} Change {number}."}),
        ("memory-server/memory/get_or_create", {"conversation_id": f"{SECRET}-{number}"}),
        ("memory-server/memory/add_message", {"conversation_id": SECRET, "role": "user", "content": TEXT}),
        ("research-server/manage_collections", {"action": "create", "collection_name": f"{SECRET} {number}"}),
    ):
        assert "error" not in await house.rpc(method, params, house.owner)


async def test_nobody_hears_more_than_the_scope_and_the_tenant_allow(house: House) -> None:
    uris = (await known(house)).uris
    streams = {one.path: one.scope for c in house.capabilities for one in c.web if isinstance(one, Stream)}
    heard: dict[tuple[str, str], Hearing] = {}
    tools: list[Access] = []
    async with AsyncExitStack() as stack:
        for caller in house.callers:
            for stream in ("/mcp", "listen", *streams):
                one = await stack.enter_async_context(hearing(house.served, stream, uris, **caller.headers))
                heard[caller.name, stream] = one
                allowed = caller.may(streams.get(stream, OPEN))
                assert one.status == (200 if allowed else 403), (caller.name, stream)
        # When the owner has heard a second round, whoever was told of the first has it, too.
        for number in (1, 2):
            await change(house, number)
            async with board_that_speaks(house.served, f"{BOARD}{number}"):
                await heard["owner", "/mcp"].until(f"{BOARD}{number}", "tools/list_changed", "resources/list_changed")
                await heard["owner", "listen"].until("tools/list_changed", "resources/list_changed", SECRET)
                for stream in streams:
                    await heard["owner", stream].until(f"{BOARD}{number}")
                # The first list_changed says that the first board's tools are there; the second board may only have
                # spoken so far, and its tools still be on their way.
                tools = tools or told(house, "sources")
        for caller in house.callers:
            mcp, listen = heard[caller.name, "/mcp"].text, heard[caller.name, "listen"].text
            for text in (mcp, listen):
                assert ("tools/list_changed" in text) is any(map(caller.hears, tools)), caller.name
                notices = any(map(caller.hears, told(house, "resource_changes")))
                assert ("resources/list_changed" in text) is notices, caller.name
            assert ("resources/updated" in listen) is notices, caller.name
            assert (SECRET in mcp) is any(map(caller.hears, told(house, "announcements"))), caller.name
            for stream, scope in streams.items():
                assert (SECRET in heard[caller.name, stream].text) is caller.hears(scope), (caller.name, stream)


async def test_the_tools_of_boards_are_listed_for_those_who_may_call_them(house: House) -> None:
    async with hearing(house.served, "/mcp", **house.owner.headers) as heard, board_that_speaks(house.served, BOARD):
        await heard.until("tools/list_changed")
        live = {one.tool for c in house.capabilities for source in c.sources for one in source.operations()}
        assert live
        for caller in house.callers:
            mine = {one.tool for one in house.hub.registry.operations(caller.principal)}
            assert (live & mine == live) is caller.hears("devices:call"), caller.name
            assert bool(live & mine) is caller.hears("devices:call"), caller.name


# -- pages and sockets that ask for no scope ---------------------------------------------------------------------------


async def test_what_asks_for_no_scope_tells_nothing_without_its_own_credentials(house: House) -> None:
    async with hearing(house.served, "/mcp", **house.owner.headers) as heard, board_that_speaks(house.served, BOARD):
        await heard.until(BOARD)
        for one in (one for c in house.capabilities for one in c.web if isinstance(one.scope, Open)):
            for method in one.methods if isinstance(one, Page) else ("GET",):
                for caller in house.callers:
                    body: Any = {} if method == "POST" else None
                    answer = await house.served.http.request(method, one.path, json=body, headers=caller.headers)
                    assert answer.status_code >= 400 or not isinstance(one, Socket)
                    assert SECRET not in answer.text, (one.path, caller.name)
