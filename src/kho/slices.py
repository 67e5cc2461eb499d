"""All slices: how each is described, and how it is opened with its dependencies. The only module that names them all;
each is imported on first use."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cached_property, partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from kho import __version__
from kho.kernel.toolset import Instructions
from kho.lib.addresses import Network
from kho.lib.lazy_module import lazy

if TYPE_CHECKING:
    from kho import parsers
    from kho import settings as config
    from kho.administration import capability as administration
    from kho.administration import service as administration_service
    from kho.administration.purge import holdings
    from kho.administration.purge import purges as purge_runs
    from kho.audit import capability as audit
    from kho.audit import erasure as audit_erasure
    from kho.devices import capability as devices
    from kho.devices import erasure as devices_erasure
    from kho.devices.mqtt import config as mqtt
    from kho.documents import capability as documents
    from kho.documents import erasure as documents_erasure
    from kho.documents import knowledge
    from kho.experiences import capability as experiences
    from kho.experiences import erasure as experiences_erasure
    from kho.facts import capability as facts
    from kho.facts import erasure as facts_erasure
    from kho.kernel import background, registry
    from kho.kernel.call import Call
    from kho.kernel.capability import Capability
    from kho.kernel.registry import Registry
    from kho.kernel.upkeep.erasure import Erasure, Vacuum
    from kho.kernel.vocabulary import Kind
    from kho.lib import clock
    from kho.memory import capability as memory
    from kho.memory import erasure as memory_erasure
    from kho.models import factory
    from kho.recall import capability as recall
    from kho.research import capability as research
    from kho.research import erasure as research_erasure
    from kho.research.ingest import allowed_paths
    from kho.search.core import Core
    from kho.search.indexing import erasure as index_erasure
    from kho.settings import Settings
    from kho.storage import api_keys
    from kho.storage.sqlite import vacuum
    from kho.toolbox import capability as toolbox
    from kho.toolbox import duckduckgo
    from kho.toolbox import errors as toolbox_errors
else:
    parsers, factory, background, registry = lazy(
        "kho.parsers", "kho.models.factory", "kho.kernel.background", "kho.kernel.registry"
    )
    administration, administration_service, clock = lazy(
        "kho.administration.capability", "kho.administration.service", "kho.lib.clock"
    )
    audit, devices, mqtt = lazy("kho.audit.capability", "kho.devices.capability", "kho.devices.mqtt.config")
    documents, knowledge = lazy("kho.documents.capability", "kho.documents.knowledge")
    facts, experiences, memory = lazy("kho.facts.capability", "kho.experiences.capability", "kho.memory.capability")
    research, allowed_paths = lazy("kho.research.capability", "kho.research.ingest.allowed_paths")
    (recall,) = lazy("kho.recall.capability")
    toolbox, duckduckgo, toolbox_errors = lazy("kho.toolbox.capability", "kho.toolbox.duckduckgo", "kho.toolbox.errors")
    api_keys, vacuum, config = lazy("kho.storage.api_keys", "kho.storage.sqlite.vacuum", "kho.settings")
    (purge_runs,) = lazy("kho.administration.purge.purges")
    memory_erasure, facts_erasure, experiences_erasure, research_erasure = lazy(
        "kho.memory.erasure", "kho.facts.erasure", "kho.experiences.erasure", "kho.research.erasure"
    )
    documents_erasure, devices_erasure, audit_erasure, index_erasure, holdings = lazy(
        "kho.documents.erasure",
        "kho.devices.erasure",
        "kho.audit.erasure",
        "kho.search.indexing.erasure",
        "kho.administration.purge.holdings",
    )


class Shared:
    """Objects that several slices use."""

    def __init__(self, settings: Settings, network: Network) -> None:
        self._settings = settings
        self.network = network
        """For connections to addresses that callers name."""
        self.llm = factory.llm(settings.llm)
        self.slices: list[Capability] = []
        """The open ones, in order."""

    async def aclose(self) -> None:
        if self.llm is not None:
            await self.llm.aclose()

    @cached_property
    def web_search(self) -> duckduckgo.DuckDuckGo:
        return duckduckgo.DuckDuckGo(self._settings.toolbox)


def open_facts(settings: Settings, core: Core, shared: Shared) -> Capability:
    return facts.capability(core, settings.facts)


def open_memory(settings: Settings, core: Core, shared: Shared) -> Capability:
    return memory.capability(core, settings.memory, llm=shared.llm)


def open_toolbox(settings: Settings, core: Core, shared: Shared) -> Capability:
    reader = parsers.Worker()

    async def read(content: bytes, name: str) -> str:
        try:
            return (await reader.read(content, name)).text
        except parsers.UnreadableFile as problem:
            raise toolbox_errors.ToolFailed(f"The page cannot be read: {problem.reason}") from None

    return toolbox.capability(
        settings.toolbox, search=shared.web_search, read=read, stop=(reader.aclose,), network=shared.network
    )


def open_experiences(settings: Settings, core: Core, shared: Shared) -> Capability:
    return experiences.capability(core, settings.experiences)


def open_research(settings: Settings, core: Core, shared: Shared) -> Capability:
    chosen = settings.research
    allowed = allowed_paths.AllowedPaths.of(chosen.roots, chosen.shared_roots, kho_home=settings.home)
    limits = parsers.ParserLimits(size=chosen.max_file, passages=settings.limits.passages, seconds=chosen.file_timeout)
    reader = parsers.Worker(limits, cut=True)
    return research.capability(core, chosen, allowed_paths=allowed, reader=reader)


def open_documents(settings: Settings, core: Core, shared: Shared) -> Capability:
    async def web(query: str, call: Call) -> list[knowledge.External]:
        found = await shared.web_search.results(query, call)
        return [knowledge.External(one["title"], one["href"], one["body"]) for one in found]

    return documents.capability(
        core,
        settings.documents,
        llm=shared.llm,
        web_search=web,
        vacuum=_rewrite(settings),
        shared=api_keys.SqlApiKeys(core.db).in_use,
        network=shared.network,
        read_only=settings.read_only,
    )


def open_devices(settings: Settings, core: Core, shared: Shared) -> Capability:
    mqtt.need(settings.devices)
    seer = factory.vision(settings.vision)
    return devices.capability(
        core,
        settings.devices,
        sockets=settings.home / config.SOCKETS,
        database_url=settings.database_url,
        tenant=settings.local.tenant,
        shared=api_keys.SqlApiKeys(core.db).in_use,  # without keys it serves this machine's user only
        limits=settings.limits,
        seer=seer,
        stop=() if seer is None else (seer.aclose,),
    )


def open_recall(settings: Settings, core: Core, shared: Shared) -> Capability:
    return recall.capability(core, shared.slices, settings.http.address)


def open_audit(settings: Settings, core: Core, shared: Shared) -> Capability:
    return audit.capability(
        core,
        settings.audit,
        shared.slices,
        [*SLICES],
        home_tenant=settings.local.tenant,
        version=__version__,
    )


def open_administration(settings: Settings, core: Core, shared: Shared) -> Capability:
    service = administration_service.Service(
        db=core.db,
        clock=clock.system_clock,
        home_tenant=settings.local.tenant,
        registry=describe,
        settings=partial(config.effective, settings),
    )
    return administration.capability(core, service, open_purges(settings, core))


def open_purges(settings: Settings, core: Core) -> purge_runs.Purges:
    """What erases for good, in all slices, whichever of them are open."""
    own: list[Erasure] = []

    def erasures() -> list[Erasure]:
        if not own:  # their modules are loaded with the first purge
            own.extend(
                [
                    *holdings.erasures(core.clock),
                    *memory_erasure.erasures(core, settings.memory),
                    *facts_erasure.erasures(core),
                    *experiences_erasure.erasures(core),
                    *research_erasure.erasures(core, settings.research),
                    *documents_erasure.erasures(core),
                    *devices_erasure.erasures(settings.devices),
                    index_erasure.Entries(core.index),
                    *audit_erasure.erasures(core),
                ]
            )
        return own

    return purge_runs.Purges(
        db=core.db,
        background=core.background,
        clock=core.clock,
        erasures=erasures,
        vacuum=_rewrite(settings),
    )


def _rewrite(settings: Settings) -> Vacuum | None:
    """Return what rewrites the database file; None if the database manages its files itself."""
    return None if settings.database_url else partial(vacuum.vacuum, settings.home / config.DATABASE)


SLICES: dict[str, tuple[ModuleType, Callable[[Settings, Core, Shared], Capability]]] = {
    "memory": (memory, open_memory),
    "toolbox": (toolbox, open_toolbox),  # contract 002 lists these two first
    "facts": (facts, open_facts),
    "recall": (recall, open_recall),
    "experiences": (experiences, open_experiences),
    "research": (research, open_research),
    "documents": (documents, open_documents),
    "devices": (devices, open_devices),
    "administration": (administration, open_administration),
    "audit": (audit, open_audit),  # after the slices whose rows it shows
}
"""Every slice, in the order of tools and servers."""
HOLDERS = (
    "kho.administration.purge.holdings",
    "kho.search.indexing.erasure",
    *(f"kho.{name}.erasure" for name in SLICES if name not in ("toolbox", "recall", "administration")),
)
"""Modules that say what is held of whom, for purges and retention."""
READ_ALL = {"recall"}
"""Those whose commands need all slices open."""


def describe(only: Collection[str] = SLICES) -> Registry:
    """Return the operations of the slices without a store, for help texts. Nothing is opened."""
    described = [module.described() for name, (module, _) in SLICES.items() if name in only]
    return registry.Registry(described, background.Background())


def instructions() -> dict[str, Instructions]:
    """Return what each slice tells models, without importing its capability."""
    return {name: getattr(import_module(f"kho.{name}"), "INSTRUCTIONS", Instructions()) for name in SLICES}


def kinds() -> list[Kind]:
    """Return the kinds of global ids, without importing the slices' capabilities."""
    return [kind for name in SLICES if (kind := getattr(import_module(f"kho.{name}"), "KIND", None)) is not None]


def tools() -> list[str]:
    """Return the names of all tools."""
    operations = (operation for capability in describe().capabilities for operation in capability.operations)
    return [operation.tool for operation in operations if operation.tool]
