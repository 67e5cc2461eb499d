"""The composition root: Settings in, Hub out. The only module that names every slice."""

import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from kho import __version__, parsers
from kho.devices import capability as devices
from kho.devices.mqtt.config import need as need_mqtt
from kho.documents import capability as documents
from kho.documents.knowledge import External
from kho.doors import logs
from kho.experiences import capability as experiences
from kho.kernel.background import Background
from kho.kernel.call import Call, Principal
from kho.kernel.capability import Capability
from kho.kernel.errors import KhoError
from kho.kernel.hub import Hub
from kho.kernel.ports import Database, Llm, Vectors, Words
from kho.kernel.registry import Observer, Registry
from kho.lib.clock import system_clock
from kho.memory import capability as memory
from kho.models import factory
from kho.research import capability as research
from kho.research.ingest.allowed_paths import AllowedPaths
from kho.search.core import Core
from kho.search.indexing.embedding_queue import EmbeddingQueue
from kho.search.indexing.index import Index
from kho.search.query.searcher import Searcher, SearchLimits
from kho.settings import Settings
from kho.simulator import faults
from kho.storage.api_keys import SqlApiKeys
from kho.storage.audit import refusals
from kho.storage.leases import SqlLeases
from kho.storage.migrate import OWN, migrate
from kho.storage.postgres.database import Postgres
from kho.storage.receipts import SqlReceipts
from kho.storage.sqlite.database import Sqlite
from kho.storage.sqlite.vacuum import vacuum
from kho.storage.vector_index.postgres import PostgresVectors
from kho.storage.vector_index.qdrant import QdrantVectors
from kho.storage.vector_index.sqlite import SqliteVectors
from kho.storage.word_index.postgres import PostgresWords
from kho.storage.word_index.sqlite import SqliteWords
from kho.toolbox import capability as toolbox
from kho.toolbox.duckduckgo import DuckDuckGo
from kho.toolbox.errors import ToolFailed

FAULTS = faults.FAULTS
"""What virtual boards can be told to do wrong."""
DATABASE = "kho.db"
"""The embedded database's file, in `KHO_HOME`."""


def local_principal(settings: Settings, *, admin: bool = False) -> Principal:
    """This machine's user. Only the command line, which could open the database anyway, is an admin."""
    scopes = frozenset({"*", "admin"}) if admin else frozenset({"*"})
    return Principal(settings.local.sub, settings.local.tenant, scopes)


def open_database(settings: Settings) -> tuple[Database, Words]:
    url = settings.database_url
    if url is None:
        return Sqlite.open(settings.home / DATABASE), SqliteWords()
    if url.startswith(("postgresql://", "postgres://")):
        return Postgres.open(url), PostgresWords()
    raise KhoError("KHO_DATABASE_URL must begin with postgresql://; leave it out for the embedded database.")


def open_core(settings: Settings, background: Background, limits: SearchLimits | None = None) -> Core:
    need_mqtt(settings.devices)
    db, words = open_database(settings)
    model = factory.embedder(settings.search.embedder)
    vectors = None if model is None else open_vectors(settings, db)
    limits = limits or SearchLimits(settings.search.timeout, settings.search.patience)
    reranker = factory.reranker(settings.search.reranker)
    index = Index(words, vectors, model.model if model else "", system_clock)
    searcher = Searcher(db, words, vectors, model, reranker, limits)
    leases = SqlLeases(system_clock)
    if model is None or vectors is None:
        return Core(db, index, searcher, background, None, leases)
    embedding_queue = EmbeddingQueue(db, vectors, model, background, system_clock, settings.search.vectors.engine)
    index.on_waiting = embedding_queue.nudge
    return Core(db, index, searcher, background, embedding_queue, leases, model.model)


def open_vectors(settings: Settings, db: Database) -> Vectors:
    where = settings.search.vectors
    if where.engine == "qdrant":
        if find_spec("qdrant_client") is None:
            raise KhoError("search.vectors.engine is qdrant, which needs its client: pip install 'kho[qdrant]'.")
        if not where.qdrant_url:
            raise KhoError("search.vectors.engine is qdrant: name the server in KHO_SEARCH__VECTORS__QDRANT_URL.")
        return QdrantVectors(db, where.qdrant_url, api_key=where.qdrant_api_key.get_secret_value() or None)
    return SqliteVectors(db) if db.engine == "sqlite" else PostgresVectors(db)


def capabilities(settings: Settings, core: Core) -> list[Capability]:
    llm = factory.llm(settings.llm)
    search = DuckDuckGo(settings.toolbox)
    talks = memory.capability(core, settings.memory, llm=llm)
    return [
        talks if llm is None else replace(talks, stop=(*talks.stop, llm.aclose)),
        tools(settings, search),
        experiences.capability(core, settings.experiences),
        research_collections(settings, core),
        document_tree(settings, core, llm, search),
        boards(settings, core),
    ]


def tools(settings: Settings, search: DuckDuckGo) -> Capability:
    reader = parsers.Worker()

    async def read(content: bytes, name: str) -> str:
        try:
            return (await reader.read(content, name)).text
        except parsers.UnreadableFile as problem:
            raise ToolFailed(f"The page cannot be read: {problem.reason}") from None

    return toolbox.capability(settings.toolbox, search=search, read=read, stop=(reader.aclose,))


def research_collections(settings: Settings, core: Core) -> Capability:
    chosen = settings.research
    allowed_paths = AllowedPaths.of(chosen.roots, chosen.shared_roots, kho_home=settings.home)
    reader = parsers.Worker(parsers.Limits(size=chosen.max_file), cut=True)
    return research.capability(core, chosen, allowed_paths=allowed_paths, reader=reader)


def document_tree(settings: Settings, core: Core, llm: Llm | None, search: DuckDuckGo) -> Capability:
    async def web(query: str, call: Call) -> list[External]:
        found = await search.results(query, call)
        return [External(one["title"], one["href"], one["body"]) for one in found]

    rewrite = partial(vacuum, settings.home / DATABASE) if settings.database_url is None else None
    return documents.capability(core, settings.documents, llm=llm, web_search=web, vacuum=rewrite)


def boards(settings: Settings, core: Core) -> Capability:
    seer = factory.vision(settings.vision)
    return devices.capability(
        core,
        settings.devices,
        home=settings.home,
        database_url=settings.database_url,
        tenant=settings.local.tenant,
        shared=SqlApiKeys(core.db).in_use,  # without keys it answers this machine's user only
        seer=seer,
        stop=() if seer is None else (seer.aclose,),
    )


More = Callable[[Core], Sequence[Capability]]


@asynccontextmanager
async def opened(
    settings: Settings, more: More = lambda core: (), limits: SearchLimits | None = None
) -> AsyncGenerator[tuple[Core, list[Capability]], None]:
    """The store, up to date, and the slices on it. Nothing works in the background yet."""
    background = Background()
    core = open_core(settings, background, limits)
    slices: list[Capability] = []
    try:
        slices += [*capabilities(settings, core), *more(core)]
        folders = [(c.name, c.migrations) for c in slices if c.migrations is not None]
        await migrate(core.db, [OWN, *folders])
        yield core, slices
    finally:
        await background.drain()
        for work in (work for capability in slices for work in capability.stop):
            await work()
        if core.embedding_queue is not None:
            await core.embedding_queue.aclose()
        await core.db.aclose()


@asynccontextmanager
async def open_hub(
    settings: Settings,
    extra: tuple[Capability, ...] = (),
    more: More = lambda core: (),
    limits: SearchLimits | None = None,
    serving: bool = False,
) -> AsyncGenerator[Hub, None]:
    """The running hub. `extra` capabilities are for programs that embed Kho, and for tests. `serving`: others reach
    it for as long as it runs."""
    async with opened(settings, lambda core: [*extra, *more(core)], limits) as (core, slices):
        background = core.background
        for work in (work for capability in slices for work in capability.start):
            background.add(work)
        for work in (work for capability in slices if serving for work in capability.serve):
            background.add(work)
        if core.embedding_queue is not None:
            background.add(core.embedding_queue.run)
        registry = Registry(slices, background)
        registry.observers += [logs.log_call, refusals(core.db, background, core.clock)]
        if settings.observe.otlp_endpoint is not None:
            registry.observers.append(_spans(settings.observe.otlp_endpoint))
        yield Hub(
            version=__version__,
            registry=registry,
            ping=partial(_ping, core.db),
            keys=SqlApiKeys(core.db),
            receipts=SqlReceipts(core.db, system_clock),
            clock=system_clock,
            local=local_principal(settings),
            public=_public(settings.experiences.public_tenant),
            backlog=core.embedding_queue,
        )


def whereabouts(settings: Settings) -> str:
    """Where the data is, without the password."""
    if settings.database_url is None:
        return str(settings.home / DATABASE)
    address = urlsplit(settings.database_url)
    return f"PostgreSQL at {address.hostname or 'this machine'}{address.path}"


def describe() -> Registry:
    """The operations with no store behind them: enough for help texts, and nothing is opened."""
    slices = (memory, toolbox, experiences, research, documents, devices)
    return Registry([described.described() for described in slices], Background())


def _public(tenant: str | None) -> Principal | None:
    """Experience records are read without a credential, as their contract says, where the operator opened a tenant."""
    return None if tenant is None else Principal("anonymous", tenant, frozenset({"exp:read"}), "anonymous")


def _spans(endpoint: str) -> Observer:
    try:
        return import_module("kho.doors.tracing").exporter(endpoint)
    except ModuleNotFoundError:
        raise KhoError("observe.otlp_endpoint is set, which needs OpenTelemetry: pip install 'kho[otel]'.") from None


async def _ping(db: Database) -> None:
    await db.read(lambda tx: tx.one("SELECT 1"), timeout=2.0)


def __getattr__(name: str) -> Any:
    # `uvicorn kho.app:asgi` in production. Made on demand, by name: the command line has no use for the web stack.
    if name == "asgi":
        settings = Settings()
        logs.set_up(settings.observe.log_level, settings.observe.log_format)
        # A write touches the database a few dozen times, and each time it may wait for a thread that ranks a long list.
        sys.setswitchinterval(0.001)
        return import_module("kho.doors.http.app").Application(
            lambda: open_hub(settings, serving=True), settings.http, settings.mcp
        )
    raise AttributeError(name)
