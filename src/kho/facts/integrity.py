"""Checks of facts: their digests, and what they said before."""

from collections.abc import Iterator
from dataclasses import replace

from kho.facts.store import FACTS, REVISIONS, SPACE, Fact, all_documents, digest_of
from kho.facts.topic import topic_of
from kho.kernel.ports import Tx
from kho.kernel.upkeep.checks import Checks, Rule, every
from kho.kernel.upkeep.defect import Finding, Progress, found
from kho.lib.sql import digest
from kho.search.indexing.integrity import SliceUpkeep

FORM = 1
"""Goes up when facts are indexed differently (other fields, other weights): they are then indexed again."""
_KEY = ("tenant", "id")
_OF_NOTHING = (
    "FROM fact_revisions AS t WHERE NOT EXISTS (SELECT 1 FROM facts AS f WHERE f.tenant = t.tenant AND f.id = t.id)"
)


def _digests(tx: Tx, progress: Progress) -> Iterator[Finding]:
    progress("Digests of facts", 0, 0)
    rows = every(tx, "facts", _KEY, ("about", "text", "topic", "digest"))
    wrong = sum((topic, kept) != (topic_of(about), digest(topic, text)) for about, text, topic, kept in rows)
    yield from found(wrong, "fact", "not what was said: its digest is another", "facts")


def _settle(tx: Tx) -> None:
    """Bring back facts of which only earlier revisions are left, as the last of these said it; and take what is
    written there for what was said."""
    rows = tx.all(f"SELECT t.tenant, {REVISIONS.select('t')} {_OF_NOTHING} ORDER BY t.tenant, t.id, t.revision")
    for tenant, said in {row[:2]: (row[0], REVISIONS.read(row[1:])) for row in rows}.values():
        parts = {name: getattr(said, name) for name in REVISIONS.fields}
        fact = replace(Fact(**parts, created_at=said.said_at, updated_at=said.said_at), revision=said.revision + 1)
        FACTS.insert(tx, fact, tenant=tenant, topic=fact.topic, digest=digest_of(fact), conflict="DO NOTHING")
    for tenant, id, about, text, kept in tx.all("SELECT tenant, id, about, text, digest FROM facts"):
        if kept != digest(topic_of(about), text):
            sql = "UPDATE OR IGNORE facts SET topic = $1, digest = $2 WHERE tenant = $3 AND id = $4"
            tx.run(sql, topic_of(about), digest(topic_of(about), text), tenant, id)


UPKEEP = SliceUpkeep(
    space=SPACE,
    form=FORM,
    pages=all_documents,
    checks=Checks(
        json=(("facts", _KEY, ("tags",)), ("fact_revisions", (*_KEY, "revision"), ("tags",))),
        rules=(Rule("fact_revisions", "revision", "of no fact", _OF_NOTHING, (f"DELETE {_OF_NOTHING}",)),),
        digests=_digests,
        settles=_settle,
    ),
)
