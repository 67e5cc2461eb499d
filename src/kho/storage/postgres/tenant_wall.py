"""Row-level security: PostgreSQL itself keeps the rows of tenants apart, besides the tenant in every statement.

Every table with a tenant column gets one policy, whichever slice it belongs to: `migrate` raises the wall after every
migration, so a new table cannot be forgotten. It is forced, because Kho's own role owns the tables. Each transaction
says in its BEGIN whose rows it may reach (lib/tenancy.py); one that says nothing reaches none.
"""

from kho.kernel.ports import Tx
from kho.lib.tenancy import ALL, Reach

DERIVED = {
    "similarity_bands": "digests of texts; what they find is read through the rows of its slice",
    "search_versions": "counters that one statement names by tenant, with one row for all tenants together",
    "vector_queue": "numbers of passages that wait for their vectors; their texts are read through `passages`",
}
"""Tables with a tenant column that stay outside, and why. Nothing in them is ever shown to anybody."""
NOBODYS = {"devices"}
"""Tables with rows of nobody, under the tenant '': a board that waits for its approval, which the admin of any tenant
gives by the code that it shows."""
_NOBODYS = " OR (tenant = '' AND (SELECT current_setting('kho.tenant', true) <> ''))"
_VECTORS = r"vectors\_%"
"""Vector indexes, one table per model: numbers, whose passages are read through `passages`."""

_TENANTS_TABLES = """
SELECT c.relname, c.relrowsecurity AND c.relforcerowsecurity
       AND EXISTS (SELECT 1 FROM pg_policy AS p WHERE p.polrelid = c.oid AND p.polname = 'tenant_wall')
FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
  AND a.attname = 'tenant' AND NOT a.attisdropped AND c.relname NOT LIKE $1
ORDER BY c.relname
"""
# The setting of an earlier transaction reads '' once it is over, not NULL. Each SELECT is run once for a statement;
# without it the setting would be read for every row.
_POLICY = """
DROP POLICY IF EXISTS tenant_wall ON {table};
CREATE POLICY tenant_wall ON {table} USING (
    tenant = (SELECT nullif(current_setting('kho.tenant', true), ''))
    OR (SELECT current_setting('kho.all_tenants', true) = 'on'){more});
ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
ALTER TABLE {table} FORCE ROW LEVEL SECURITY;
"""


def tables(tx: Tx) -> dict[str, bool]:
    """Return the tables of tenants' rows, and whether each is behind the wall."""
    return {name: bool(walled) for name, walled in tx.all(_TENANTS_TABLES, _VECTORS) if name not in DERIVED}


def raise_wall(tx: Tx) -> None:
    """Put the tables that are not behind the wall there."""
    for name, walled in tables(tx).items():
        if not walled:
            more = _NOBODYS if name in NOBODYS else ""
            tx.script(_POLICY.format(table=name, more=more))


def said(reach: Reach) -> str:
    """Return what follows BEGIN, in the same message to the server. It ends with the transaction."""
    if reach is None:
        return ""
    if reach is ALL:
        return "; SET LOCAL kho.all_tenants = 'on'"
    return f"; SET LOCAL kho.tenant = {_literal(str(reach))}"


def _literal(text: str) -> str:
    # E'' means the same whatever standard_conforming_strings says. A NUL would end the message, and so the literal,
    # early: a syntax error, not another tenant; but it is refused with all other text that cannot be stored.
    return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def warnings(tx: Tx) -> list[str]:
    """Return where the wall does not stand, a sentence each; nothing on SQLite, which has none."""
    if tx.engine != "postgres":
        return []
    found = [] if (gap := hole(tx)) is None else [gap]
    if outside := [name for name, walled in tables(tx).items() if not walled]:
        found.append(
            f"Row-level security is off for {', '.join(outside)}: 'kho doctor --repair' puts it on, as their owner."
        )
    return found


def hole(tx: Tx) -> str | None:
    """Return why the wall does not hold for the role that Kho connects as, and what to do; None if it holds."""
    row = tx.one("SELECT rolname, rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user")
    if row is None or not (row[1] or row[2]):
        return None
    name, is_super = row[0], row[1]
    kind = "is a superuser" if is_super else "has BYPASSRLS"
    mend = "connect as a role of its own that owns the database" if is_super else f"ALTER ROLE {name} NOBYPASSRLS"
    return (
        f"Kho's role in PostgreSQL ({name}) {kind}, so row-level security does not hold for it and only Kho's own "
        f"statements keep tenants apart: {mend} (docs/storage.md)."
    )
