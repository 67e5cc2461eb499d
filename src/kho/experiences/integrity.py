"""Checks of experience records: what is counted of their use, their revisions and verdicts."""

from kho.experiences.store import SPACE, all_documents
from kho.kernel.upkeep.checks import Checks, Rule
from kho.search.indexing.integrity import SliceUpkeep

FORM = 2
"""Index format version: increase it when fields or weights change, and all records are reindexed."""
_KEY = ("tenant", "id")
_NO = "NOT EXISTS (SELECT 1 FROM {} AS x WHERE x.tenant = t.tenant AND x.id = t.id)"
_UNUSED = f"FROM experiences AS t WHERE {_NO.format('experience_uses')}"
_OF_NOTHING = "FROM {} AS t WHERE " + _NO.format("experiences")
_FIELDS = ("title", "problem_description", "root_cause", "solution", "context", "keywords")
_SAID = ", ".join(f"json_extract(t.fields, '$.{name}')" for name in _FIELDS)

_RULES = (
    Rule(
        "experience_revisions",
        "revision",
        "of no record",
        _OF_NOTHING.format("experience_revisions"),
        (
            f"INSERT OR IGNORE INTO experiences (tenant, id, {', '.join(_FIELDS)}, revision, created_by, changed_at) "
            f"SELECT t.tenant, t.id, {_SAID}, max(t.revision) + 1, t.replaced_by, t.replaced_at "
            f"{_OF_NOTHING.format('experience_revisions')} GROUP BY t.tenant, t.id",
            f"DELETE {_OF_NOTHING.format('experience_revisions')}",
        ),
    ),
    Rule(
        "experiences",
        "record",
        "without the row that counts its use",
        _UNUSED,
        (
            "INSERT INTO experience_uses (tenant, id, query_count, helpful, unhelpful, created_at, updated_at) "
            f"SELECT t.tenant, t.id, 0, 0, 0, t.changed_at, t.changed_at {_UNUSED}",
        ),
    ),
    *(
        Rule(
            table,
            what,
            "of no record",
            _OF_NOTHING.format(table),
            (f"DELETE {_OF_NOTHING.format(table)}",),
        )
        for table, what in (("experience_uses", "count of uses"), ("experience_feedback", "verdict"))
    ),
)

UPKEEP = SliceUpkeep(
    space=SPACE,
    form=FORM,
    pages=all_documents,
    checks=Checks(
        rules=_RULES,
        json=(
            ("experiences", _KEY, ("keywords",)),
            ("experience_revisions", (*_KEY, "revision"), ("fields",)),
            ("experience_submissions", _KEY, ("record",)),
        ),
    ),
)
