"""What is indexed, against the rows that it was made from: missing, stray and stale passages, words, vectors, counters.

All of it is derived, so re-indexing helps. What would be indexed is read page by page and compared; nothing is kept.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field

import orjson

from kho.kernel.capability import Upkeep
from kho.kernel.ports import Tx
from kho.kernel.upkeep.checks import Checks, every
from kho.kernel.upkeep.defect import Finding, Progress, found
from kho.lib.dataclass import dataclass
from kho.lib.sql import BATCH, number, number_of
from kho.search.indexing import passages
from kho.search.indexing.index import FORM, Document, Index, described, digest_of
from kho.search.indexing.reindex import PAGE, RowPages, form_row


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceUpkeep:
    """The `Upkeep` port, for a slice whose rows are indexed, or that has rows only."""

    checks: Checks = field(default_factory=Checks)
    space: str = ""
    form: int = 0
    pages: RowPages | None = None

    def quick_findings(self, tx: Tx) -> Iterator[Finding]:
        yield from self.checks.quick_findings(tx)

    def findings(self, tx: Tx, progress: Progress) -> Iterator[Finding]:
        yield from self.checks.findings(tx, progress)

    def settle(self, tx: Tx) -> None:
        self.checks.settle(tx)

    def index_findings(self, tx: Tx, progress: Progress) -> Iterator[Finding]:
        # Rows that are filed in an older form are indexed again when the hub starts.
        if self.pages is None or passages.state(tx, form_row(self.space)) != f"{self.form}.{FORM}":
            return
        total = number(tx, "SELECT count(*) FROM passages WHERE space = $1", self.space)
        missing = stale = there = 0
        after: str | None = ""
        while after is not None:
            documents, after = self.pages.read(tx, after, PAGE)
            for lacking, changed, indexed in _compared(tx, documents):
                missing, stale, there = missing + lacking, stale + changed, there + indexed
            progress(f"Index of {self.space}", min(there, total), total)
        where = f"of {self.space}"
        yield from found(missing, "passage", f"not indexed, {where}, and may not be found", "passages", "repair")
        yield from found(stale, "passage", f"indexed in an older form, {where}", "passages", "repair")
        yield from found(total - there, "passage", f"indexed, {where}, but of no row", "passages", "repair")

    def strays(self, tx: Tx) -> Iterator[tuple[str, str, str, str]]:
        """Reads all rows again; what it remembers of each is a number."""
        if self.pages is None:
            return
        known: set[int] = set()
        after: str | None = ""
        while after is not None:
            documents, after = self.pages.read(tx, after, PAGE)
            known.update(number_of(one.tenant, one.collection, one.key) for one in documents)
        before = -1
        while rows := tx.all(_FILED, self.space, before, PAGE):
            before = rows[-1][0]
            yield from ((self.space, *place) for _, *place in rows if number_of(*place) not in known)


_FILED = (
    "SELECT max(seq), tenant, collection, key FROM passages WHERE space = $1 GROUP BY tenant, collection, key "
    "HAVING max(seq) > $2 ORDER BY max(seq) LIMIT $3"
)


def _compared(tx: Tx, documents: Sequence[Document]) -> Iterator[tuple[int, int, int]]:
    """Yield of each document how many passages are missing, how many are filed under other tags, dates or numbers than
    they should be, and how many are indexed of it that it has."""
    groups: dict[tuple[str, str, str], list[Document]] = {}
    for document in documents:
        groups.setdefault((document.space, document.tenant, document.collection), []).append(document)
    for place, group in groups.items():
        indexed = passages.of_keys(tx, *place, [document.key for document in group])
        for document in group:
            wanted = Counter(
                (one.digest, one.part, one.ref.kind, one.ref.tags, one.ref.created_at) for one in described(document)
            )
            have = Counter(
                (digest, part, ref.kind, ref.tags, ref.created_at) for ref, part, digest in indexed[document.key]
            )
            texts, there = (Counter(one[0] for one in counts.elements()) for counts in (wanted, have))
            missing, same = (texts - there).total(), (texts & there).total()
            yield missing, same - (wanted & have).total(), same


@dataclass(frozen=True, slots=True)
class VectorTable:
    """Where the database keeps the vectors of the model in use."""

    name: str
    model: str
    dimension: int

    def odd(self, tx: Tx) -> str:
        """Return a SELECT of the vectors that are not of the model's dimension: on PostgreSQL the column's type says
        it."""
        wrong = f"length(vector) <> {2 * self.dimension}" if tx.engine == "sqlite" else "FALSE"
        return f"SELECT seq FROM {self.name} WHERE {wrong}"


_BROKEN = ("heading", "text", "weights", "language", "digest", "tags", "seq", "tenant")
_STRAY = "SELECT x.seq FROM {} AS x WHERE NOT EXISTS (SELECT 1 FROM passages AS p WHERE p.seq = x.seq)"
_LACKING = "SELECT count(*) FROM passages AS p WHERE NOT EXISTS (SELECT 1 FROM {} AS x WHERE x.seq = p.seq)"
INDEXED = "space NOT LIKE '%/%'"
"""Counters of what is indexed; others, such as `documents/revisions`, are of what slices keep beside it."""
_UNLISTED = (
    "SELECT count(*) FROM (SELECT seq FROM words_entries EXCEPT SELECT id FROM words_index_docsize) AS one "
    "UNION ALL SELECT count(*) FROM (SELECT id FROM words_index_docsize EXCEPT SELECT seq FROM words_entries) AS other"
)


def derived_findings(tx: Tx, vectors: VectorTable | None, progress: Progress) -> Iterator[Finding]:
    """Check words, vectors and counters against the passages of all slices."""

    def among(select: str) -> int:
        return number(tx, f"SELECT count(*) FROM ({select}) AS found")

    progress("Passages", 0, 0)
    changed = sum(1 for _ in _broken(tx))
    yield from found(changed, "passage", "not what was indexed", "passages", "repair")
    progress("Words", 0, 0)
    wordless = number(tx, _LACKING.format("words_entries"))
    yield from found(wordless, "passage", "without words, and not found by keywords", "words_entries", "repair")
    yield from found(among(_STRAY.format("words_entries")), "row of words", "of no passage", "words_entries", "repair")
    if tx.engine == "sqlite":
        unlisted = sum(row[0] for row in tx.all(_UNLISTED))
        yield from found(unlisted, "row of words", "not in the word index, or only there", "words_index", "repair")
    if vectors is not None:
        progress("Vectors", 0, 0)
        waits = " AND NOT EXISTS (SELECT 1 FROM vector_queue AS q WHERE q.seq = p.seq)"
        blind = number(tx, _LACKING.format(vectors.name) + waits)
        yield from found(blind, "passage", "without a vector, and waiting for none", vectors.name, "repair")
        yield from found(among(_STRAY.format(vectors.name)), "vector", "of no passage", vectors.name, "repair")
        how = f"not of the {vectors.dimension} numbers that {vectors.model} gives"
        yield from found(among(vectors.odd(tx)), "vector", how, vectors.name, "repair")
    for (tenant,) in tx.all("SELECT DISTINCT tenant FROM search_versions WHERE tenant <> '' ORDER BY tenant"):
        if passages.usage(tx, tenant, INDEXED) != _counted(tx, tenant):
            yield Finding(
                f"The counters of what tenant {tenant} has indexed are wrong.", "search_versions", 1, "repair"
            )


def mend(tx: Tx, index: Index, slices: Sequence[Upkeep], vectors: VectorTable | None) -> None:
    """Take away what is indexed wrongly. Re-indexing then adds what is missing."""
    for upkeep in slices:
        for space, tenant, collection, key in list(upkeep.strays(tx)):
            index.drop(tx, space, tenant, [key], collection)
    for seq, tenant in list(_broken(tx)):
        index.forget(tx, tenant, [seq])
    _each(tx, _STRAY.format("words_entries"), lambda seqs: index.words.drop(tx, seqs))
    if tx.engine == "sqlite" and sum(row[0] for row in tx.all(_UNLISTED)):
        clear_words(tx)
    if vectors is not None and (known := index.vectors) is not None:
        for select in (_STRAY.format(vectors.name), vectors.odd(tx)):
            _each(tx, select, lambda seqs: known.drop(tx, seqs))


def clear_words(tx: Tx) -> None:
    """Empty the word index on SQLite, before everything is indexed again."""
    tx.run("INSERT INTO words_index (words_index) VALUES ('delete-all')")
    tx.run("DELETE FROM words_entries")


def recount(tx: Tx) -> None:
    """Count again what each tenant has indexed."""
    tx.run(f"UPDATE search_versions SET items = 0, bytes = 0, version = version + 1 WHERE {INDEXED}")
    tx.run(
        "INSERT INTO search_versions (space, tenant, shard, version, items, bytes) "
        "SELECT space, tenant, 0, 1, count(*), CAST(sum(size) AS BIGINT) FROM (SELECT space, tenant, "
        "sum(octet_length(text)) AS size FROM passages GROUP BY space, tenant, collection, key) AS documents "
        "WHERE true GROUP BY space, tenant ON CONFLICT (space, tenant, shard) "
        "DO UPDATE SET items = excluded.items, bytes = excluded.bytes"
    )


def _each(tx: Tx, select: str, work: Callable[[Sequence[int]], None]) -> None:
    seqs = [row[0] for row in tx.all(select)]
    for start in range(0, len(seqs), BATCH):
        work(seqs[start : start + BATCH])


def _broken(tx: Tx) -> Iterator[tuple[int, str]]:
    """Yield number and tenant of passages that are not what their digest says."""
    for *passage, seq, tenant in every(tx, "passages", ("seq",), _BROKEN):
        if not _is_whole(*passage):
            yield seq, tenant


def _is_whole(heading: str, text: str, weights: str, spoken: str, digest: str, tags: str) -> bool:
    try:
        orjson.loads(tags)
        spans = tuple((int(length), float(weight)) for length, weight in orjson.loads(weights)) if weights else ()
    except (ValueError, TypeError):
        return False
    return digest_of(heading, text, spans, spoken) == digest


_USED = (
    "SELECT count(*), CAST(coalesce(sum(size), 0) AS BIGINT) FROM (SELECT sum(octet_length(text)) AS size "
    "FROM passages WHERE tenant = $1 GROUP BY space, collection, key) AS documents"
)


def _counted(tx: Tx, tenant: str) -> tuple[int, int]:
    row = tx.one(_USED, tenant)
    return (row[0], row[1]) if row else (0, 0)
