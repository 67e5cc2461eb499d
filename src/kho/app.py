"""Composition root: builds the Hub from Settings."""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kho import __version__
from kho.doors import logs
from kho.kernel.background import Background
from kho.kernel.call import Call, Principal
from kho.kernel.capability import Capability, Gauge
from kho.kernel.errors import KhoError
from kho.kernel.hub import Hub
from kho.kernel.limits.limiter import Limiter
from kho.kernel.limits.quotas import Quotas
from kho.kernel.ports import Database, Vectors, Words
from kho.kernel.registry import Observer, Registry
from kho.lib import extras
from kho.lib.addresses import SYSTEM, Network
from kho.lib.clock import system_clock
from kho.lib.lazy_module import lazy
from kho.lib.tenancy import for_all_tenants, in_all_tenants
from kho.models import factory
from kho.sanitizer.policy import Sanitizer
from kho.search.core import Core
from kho.search.indexing import passages
from kho.search.indexing.embedding_queue import EmbeddingQueue
from kho.search.indexing.index import Index
from kho.search.query.searcher import Searcher, SearchLimits
from kho.settings import DATABASE, SOCKETS, Settings, local_principal
from kho.slices import READ_ALL, SLICES, Shared, kinds
from kho.storage import gauges
from kho.storage.api_keys import SqlApiKeys
from kho.storage.audit import SqlRefusals
from kho.storage.leases import SqlLeases
from kho.storage.local_token import LocalTokenFile
from kho.storage.migrate import OWN, migrate
from kho.storage.postgres import tenant_wall
from kho.storage.receipts import SqlReceipts
from kho.storage.sqlite import database as sqlite
from kho.storage.vector_index.sqlite import SqliteVectors
from kho.storage.word_index.sqlite import SqliteWords

if TYPE_CHECKING:
    from kho.doors import tracing
    from kho.doors.cli import hub_socket
    from kho.doors.http import app as http_app
    from kho.doors.http import supervision
    from kho.storage.postgres import database as postgres
    from kho.storage.vector_index import postgres as postgres_vectors
    from kho.storage.vector_index import qdrant as qdrant_vectors
    from kho.storage.word_index import postgres as postgres_words
else:
    tracing, http_app, hub_socket = lazy("kho.doors.tracing", "kho.doors.http.app", "kho.doors.cli.hub_socket")
    (supervision,) = lazy("kho.doors.http.supervision")
    postgres, postgres_vectors, postgres_words, qdrant_vectors = lazy(
        "kho.storage.postgres.database",
        "kho.storage.vector_index.postgres",
        "kho.storage.word_index.postgres",
        "kho.storage.vector_index.qdrant",
    )

log = logging.getLogger(__name__)

PACKAGE = Path(__file__).parent


def open_database(settings: Settings) -> tuple[Database, Words]:
    url = settings.database_url
    if url is None:
        sqlite.refuse_foreign(settings.home / DATABASE)
        file = settings.home / DATABASE
        return sqlite.Sqlite.open(file, busy_timeout=settings.database_timeout), SqliteWords()
    if url.startswith(("postgresql://", "postgres://")):
        limits = postgres.PostgresLimits(connect_timeout=settings.database_timeout)
        return postgres.Postgres.open(url, limits), postgres_words.PostgresWords()
    raise KhoError("KHO_DATABASE_URL must begin with postgresql://; leave it out for the embedded database.")


def open_core(settings: Settings, background: Background, limits: SearchLimits | None = None) -> Core:
    db, words = open_database(settings)
    model = factory.embedder(settings.search.embedder)
    vectors = None if model is None else open_vectors(settings, db)
    limits = limits or SearchLimits(settings.search.timeout, settings.search.patience)
    reranker = factory.reranker(settings.search.reranker)
    index = Index(words, vectors, model.model if model else "", system_clock)
    index.most_passages = settings.limits.passages
    index.quotas = quotas = Quotas(settings.limits, settings.local.tenant)
    searcher = Searcher(db, words, vectors, model, reranker, limits)
    leases, screen = SqlLeases(system_clock), Sanitizer(settings.sanitizer.policies)
    if model is None or vectors is None:
        return Core(db, index, searcher, background, None, leases, quotas=quotas, screen=screen)
    engine = settings.search.vectors.engine
    embedding_queue = EmbeddingQueue(db, vectors, model, background, system_clock, leases, engine)
    index.on_waiting = embedding_queue.nudge
    return Core(db, index, searcher, background, embedding_queue, leases, model.model, quotas=quotas, screen=screen)


def open_vectors(settings: Settings, db: Database) -> Vectors:
    where = settings.search.vectors
    if where.engine == "qdrant":
        if find_spec("qdrant_client") is None:
            raise KhoError(f"search.vectors.engine is qdrant, which needs its client: {extras.install('qdrant')}")
        if not where.qdrant_url:
            raise KhoError("search.vectors.engine is qdrant: name the server in KHO_SEARCH__VECTORS__QDRANT_URL.")
        api_key = where.qdrant_api_key.get_secret_value() or None
        return qdrant_vectors.QdrantVectors(db, where.qdrant_url, api_key=api_key)
    return SqliteVectors(db) if db.engine == "sqlite" else postgres_vectors.PostgresVectors(db)


More = Callable[[Core], Sequence[Capability]]


@asynccontextmanager
async def opened(
    settings: Settings,
    more: More = lambda core: (),
    limits: SearchLimits | None = None,
    only: Collection[str] = SLICES,
    network: Network = SYSTEM,
) -> AsyncGenerator[tuple[Core, list[Capability]], None]:
    """Open the migrated store and the slices, or `only` some of them; all if one of these reads all others. No
    background work is started yet. Connections to addresses that callers name are made by `network`."""
    background, shared = Background(), Shared(settings, network)
    core = open_core(settings, background, limits)
    slices = shared.slices
    try:
        needed = only if READ_ALL.isdisjoint(only) else SLICES
        for open_slice in (open_slice for name, (_, open_slice) in SLICES.items() if name in needed):
            slices.append(open_slice(settings, core, shared))
        slices += more(core)
        slices[:] = [one.finish(one, slices) if one.finish else one for one in slices]
        await migrate(core.db, migration_folders(slices))
        yield core, slices
    finally:
        await background.drain()
        with in_all_tenants():
            for work in (work for capability in slices for work in capability.stop):
                await work()
        await shared.aclose()
        if core.embedding_queue is not None:
            await core.embedding_queue.aclose()
        await core.db.aclose()


def migration_folders(slices: Sequence[Capability] = ()) -> list[tuple[str, Path]]:
    """Return the folders of every slice, open or not: all share one database, which is migrated as a whole."""
    folders = {name: PACKAGE / name / "migrations" for name in SLICES}
    folders |= {one.name: one.migrations for one in slices if one.migrations is not None}
    return [OWN, *folders.items()]


@asynccontextmanager
async def open_hub(
    settings: Settings,
    extra: tuple[Capability, ...] = (),
    more: More = lambda core: (),
    limits: SearchLimits | None = None,
    serving: bool = False,
    only: Collection[str] = SLICES,
    network: Network = SYSTEM,
) -> AsyncGenerator[Hub, None]:
    """Open and run the hub. `extra` capabilities are for programs that embed Kho, and for tests. `serving`: others
    reach it while it runs. With `only` some slices, as for a command, the embedding queue does not run."""
    async with opened(settings, lambda core: [*extra, *more(core)], limits, only, network) as (core, slices):
        background = core.background
        for capability in slices:
            for work in capability.start if capability.name in only or capability.name not in SLICES else ():
                background.add(for_all_tenants(work))
        for work in (work for capability in slices if serving and not settings.read_only for work in capability.serve):
            background.add(for_all_tenants(work))
        if core.embedding_queue is not None and len(only) == len(SLICES):
            background.add(for_all_tenants(core.embedding_queue.run))
        limiter = Limiter(settings.limits)
        registry = Registry(
            slices, background, kinds(), read_only=settings.read_only, limiter=limiter, screen=core.screen
        )
        refusals = SqlRefusals(core.db, background, core.clock, settings.local.tenant)
        registry.observers += [logs.log_call, refusals.observe]
        limiter.observers.append(lambda who, error: refusals.limited(Call(who, "http"), error))
        if settings.observe.otlp_endpoint is not None:
            registry.observers.append(_spans(settings.observe.otlp_endpoint))
        keys = SqlApiKeys(core.db)
        hub = Hub(
            version=__version__,
            registry=registry,
            ping=partial(_ping, core.db),
            keys=keys,
            receipts=SqlReceipts(core.db, system_clock),
            clock=system_clock,
            local=local_principal(settings),
            local_token=LocalTokenFile(settings.home),
            refusals=refusals,
            limiter=limiter,
            measure=partial(_measure, core.db, _gauges(settings, core, slices)),
            public=_public(settings.experiences.public_tenant),
            backlog=core.embedding_queue,
        )
        if serving:
            for warning in await core.db.read(tenant_wall.warnings):
                log.warning("%s", warning)
            background.add(partial(keys.write_uses, background))
            for name, model in (("LLM", settings.llm), ("VISION", settings.vision)):
                if model.url and not model.model:
                    log.warning("KHO_%s__URL is set without KHO_%s__MODEL: the hub runs without that model", name, name)
            admin = local_principal(settings, admin=True)
            folder = settings.home / SOCKETS
            told = settings.fingerprint, admin, settings.http.local_address
            background.add(partial(hub_socket.serve, hub, background, folder, *told))
        yield hub


def modules(settings: Settings) -> list[str]:
    """Return the modules that a web server with these settings needs, and that importing this one does not load."""
    doors = ("kho.doors.http.app", "kho.doors.http.supervision", "kho.doors.cli.hub_socket")
    names = [__name__, *doors, *(f"kho.{name}.capability" for name in SLICES)]
    if settings.database_url is None:
        return [*names, "kho.storage.sqlite.vacuum"]
    return [*names, "psycopg_pool", "kho.storage.postgres.database", "kho.storage.word_index.postgres"]


def _public(tenant: str | None) -> Principal | None:
    """Return the principal for reads of experience records without a credential, which their contract allows if the
    operator opened a tenant."""
    return None if tenant is None else Principal("anonymous", tenant, frozenset({"exp:read"}), "anonymous")


def _spans(endpoint: str) -> Observer:
    try:
        return tracing.exporter(endpoint)
    except ModuleNotFoundError:
        raise KhoError(f"observe.otlp_endpoint is set, which needs OpenTelemetry: {extras.install('otel')}") from None


def _gauges(settings: Settings, core: Core, slices: Sequence[Capability]) -> list[Gauge]:
    found = [*gauges.gauges(settings.home), *(gauge for capability in slices for gauge in capability.gauges)]
    if core.embedding_queue is not None:
        found.append(Gauge("kho_vectors_pending", "Passages that wait for their vectors.", passages.pending))
    return found


async def _measure(db: Database, gauges: Sequence[Gauge]) -> list[tuple[Gauge, float]]:
    with in_all_tenants():
        return await db.read(lambda tx: [(gauge, gauge.read(tx)) for gauge in gauges], timeout=2.0)


async def _ping(db: Database) -> None:
    await db.read(lambda tx: tx.one("SELECT 1"), timeout=2.0)


def __getattr__(name: str) -> Any:
    # `uvicorn kho.app:asgi` in production. Created on access: the command line does not need the web stack.
    if name == "asgi":
        settings = Settings()
        logs.set_up(settings.observe.log_level, settings.observe.log_format)
        # A write uses the database a few dozen times, and each time it may wait for a thread that ranks a long list.
        sys.setswitchinterval(0.001)
        gc.freeze()  # scanning modules would make a worker copy their memory pages
        supervision.end_with_supervisor()
        return http_app.Application(
            lambda: open_hub(settings, serving=True),
            settings.http,
            settings.mcp,
            answer_without_id=settings.jsonrpc.answer_without_id,
        )
    raise AttributeError(name)
