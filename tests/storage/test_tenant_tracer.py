"""What the tracer of tests/tenant_tracer.py refuses, and what it lets through."""

import pytest
from tests.tenant_tracer import NoTenant, tenants_tables, unnamed

from kho.kernel import api_keys
from kho.kernel.ports import Database
from kho.lib.tenancy import in_all_tenants, in_tenant
from kho.storage.sqlite.database import Sqlite

NAMED = [
    "SELECT id FROM facts WHERE tenant = $1 AND id = $2",
    "SELECT f.id FROM facts AS f WHERE f.tenant = $1",
    "SELECT id, tenant FROM facts WHERE NOT (tenant <> $1 OR id = $2)",
    "SELECT a.id FROM facts AS a JOIN fact_revisions AS r ON r.tenant = a.tenant AND r.id = a.id WHERE a.tenant = $1",
    "SELECT id FROM facts WHERE tenant = $1 AND id IN (SELECT id FROM fact_revisions WHERE tenant = $1)",
    "INSERT INTO facts (tenant, id) VALUES ($1, $2) ON CONFLICT (tenant, id) DO UPDATE SET text = excluded.text",
    "UPDATE facts SET text = $1 WHERE tenant = $2",
    "DELETE FROM facts WHERE id = $1 AND tenant = $2",
    "SELECT value FROM search_state WHERE name = $1",
    "WITH RECURSIVE up (id) AS (SELECT id FROM documents WHERE tenant = $1) SELECT id FROM up",
    "SELECT 1 FROM vector_queue AS q CROSS JOIN passages AS p WHERE p.seq = q.seq AND p.tenant = $1",
]
UNNAMED = {
    "SELECT id, tenant FROM facts": "facts",
    "SELECT id FROM facts WHERE id = 'tenant = x' -- tenant": "facts",
    "SELECT tenant FROM facts WHERE id = $1 ORDER BY id": "facts",
    "SELECT a.id FROM facts AS a JOIN fact_revisions AS r ON r.id = a.id WHERE a.tenant = $1": "fact_revisions",
    "SELECT id FROM facts WHERE tenant = $1 AND id IN (SELECT id FROM fact_revisions)": "fact_revisions",
    "SELECT id FROM fact_revisions WHERE id IN (SELECT id FROM facts WHERE tenant = $1)": "fact_revisions",
    "INSERT INTO facts (id, text) VALUES ($1, $2)": "facts",
    "UPDATE facts SET tenant = $1 WHERE id = $2": "facts",
    "DELETE FROM facts WHERE id = $1": "facts",
    "SELECT id FROM facts WHERE tenant = $1 UNION SELECT id FROM fact_revisions": "fact_revisions",
    "SELECT count(*) FROM (SELECT 1 FROM passages WHERE seq > 0 LIMIT 5) AS some": "passages",
}


@pytest.mark.parametrize("sql", NAMED)
def test_a_statement_that_names_its_tenant_is_let_through(sql: str) -> None:
    assert unnamed(sql) is None


@pytest.mark.parametrize("sql", UNNAMED)
def test_a_statement_that_does_not_is_refused(sql: str) -> None:
    assert unnamed(sql) == UNNAMED[sql]


def test_the_tables_are_those_of_every_slice() -> None:
    every = {
        "facts",
        "documents",
        "messages",
        "experiences",
        "research_jobs",
        "devices",
        "passages",
        "audit",
        "receipts",
    }
    assert every <= tenants_tables()


async def test_it_watches_the_transactions_of_this_process(db: Database) -> None:
    if not isinstance(db, Sqlite):
        pytest.skip("PostgreSQL has a wall of its own")
    with pytest.raises(NoTenant, match="api_keys"):
        await db.read(api_keys.every)
    with pytest.raises(NoTenant, match="api_keys"), in_tenant("acme"):
        await db.write(lambda tx: api_keys.delete(tx, "id"))
    with in_all_tenants():
        assert await db.read(api_keys.every) == []
