"""Row-level security: PostgreSQL itself keeps the rows of tenants apart, besides the tenant in every statement.

Every table with a tenant column gets one policy, whichever slice it belongs to: `migrate` raises the wall after every
migration, so a new table cannot be forgotten. It is forced, because Kho's own role owns the tables. Each transaction
says in its BEGIN whose rows it may reach (lib/tenancy.py); one that says nothing reaches none.
"""

import re

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
SELECT c.relname FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
  AND a.attname = 'tenant' AND NOT a.attisdropped AND c.relname NOT LIKE $1
ORDER BY c.relname
"""
_POLICIES = """
SELECT c.relname, p.polname, c.relrowsecurity AND c.relforcerowsecurity,
       p.polcmd = '*' AND p.polroles = '{0}' AND p.polwithcheck IS NULL, pg_get_expr(p.polqual, p.polrelid)
FROM pg_class AS c JOIN pg_policy AS p ON p.polrelid = c.oid
WHERE c.relnamespace = current_schema()::regnamespace AND p.polpermissive
  AND EXISTS (SELECT 1 FROM unnest(p.polroles) AS r (oid) WHERE r.oid = 0 OR pg_has_role(r.oid, 'USAGE'))
"""
"""What lets Kho's role see rows. Any one of several is enough."""
_NAME = "tenant_wall"
# The setting of an earlier transaction reads '' once it is over, not NULL. Each SELECT is run once for a statement;
# without it the setting would be read for every row.
_VISIBLE = """
    tenant = (SELECT nullif(current_setting('kho.tenant', true), ''))
    OR (SELECT current_setting('kho.all_tenants', true) = 'on'){more}"""
_POLICY = """
DROP POLICY IF EXISTS {name} ON {table};
CREATE POLICY {name} ON {table} USING ({visible});
ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
ALTER TABLE {table} FORCE ROW LEVEL SECURITY;
"""
_SPELLING = re.compile(r'::text|\bAS "?\w+"?|[\s()]')
"""What PostgreSQL adds to an expression, or leaves out, when it shows it."""


def tables(tx: Tx) -> dict[str, bool]:
    """Return the tables of tenants' rows, and whether each is behind the wall: this one, and no other policy that lets
    Kho see more."""
    policies = _policies(tx)
    names = [name for (name,) in tx.all(_TENANTS_TABLES, _VECTORS) if name not in DERIVED]
    return {name: policies.get(name, {}) == {_NAME: True} for name in names}


def raise_wall(tx: Tx) -> None:
    """Put the tables that are not behind the wall there."""
    policies = _policies(tx)
    for table, walled in tables(tx).items():
        if not walled:
            for other in policies.get(table, {}):
                tx.script(f'DROP POLICY "{other.replace(chr(34), chr(34) * 2)}" ON {table}')
            tx.script(_POLICY.format(name=_NAME, table=table, visible=_visible(table)))


def _policies(tx: Tx) -> dict[str, dict[str, bool]]:
    """Return, by table and name, what lets Kho see rows, and whether it is the wall as it should be."""
    found: dict[str, dict[str, bool]] = {}
    for table, name, forced, whole, expression in tx.all(_POLICIES):
        as_meant = _SPELLING.sub("", expression or "").lower() == _SPELLING.sub("", _visible(table)).lower()
        found.setdefault(table, {})[name] = bool(forced and whole and as_meant)
    return found


def _visible(table: str) -> str:
    return _VISIBLE.format(more=_NOBODYS if table in NOBODYS else "")


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
            f"Row-level security is off or weakened for {', '.join(outside)}: 'kho doctor --repair' puts it on, as "
            "their owner."
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
