"""Indexes documents in the slice's transaction: keyword search finds them at once, semantic search once they have
vectors."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from typing import Any

from kho.kernel.errors import KhoError
from kho.kernel.limits.allowance import CURRENT, Allowance, setting
from kho.kernel.limits.quotas import Quotas, no_quotas
from kho.kernel.ports import PassageRef, Tx, Vectors, WordEntry, Words
from kho.lib import sql
from kho.lib.clock import Clock
from kho.lib.dataclass import dataclass
from kho.search.indexing import minhash, passages
from kho.search.indexing.passages import StoredPassage
from kho.search.text.language import language, typed_without_marks
from kho.search.text.side_by_side import pairs
from kho.search.text.tokens import index_tokens

FORM = 4
"""Increased when folding, or what is indexed, changes: everything is then reindexed."""

READ = "with marks"
"""In the digest of a text that is embedded as it reads with its marks: until it was, it had another vector."""

HEADING = 1.5
"""Weight of a word in the heading, where one in the text has 1."""


@dataclass(frozen=True, slots=True)
class Field:
    text: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Passage:
    """A text short enough to be one answer, made of one or several fields."""

    fields: tuple[Field, ...]
    heading: str = ""
    label: str = ""
    """Further words by which the passage is found, such as its document's title. They are not embedded: another label
    needs no new vector (`Index.put` with `anew` indexes it)."""


@dataclass(frozen=True, slots=True)
class Document:
    """What a slice stores under one key, as the passages that a search may return."""

    space: str
    tenant: str
    key: str
    passages: Sequence[Passage]
    collection: str = ""
    kind: str = ""
    tags: tuple[str, ...] = ()
    created_at: int = 0


@dataclass(frozen=True, slots=True)
class PreparedPassage:
    stored: StoredPassage
    head: dict[str, float]
    body: dict[str, float]
    """Tokens by which it is found, with their weights; those of the head weigh more."""
    length: int


@dataclass(frozen=True, slots=True)
class Prepared:
    """A document ready to be indexed: the costly part, done outside the transaction that all writes share."""

    document: Document
    parts: list[PreparedPassage]
    bands: list[int] | None = None
    """MinHash bands to find near-duplicates by (see minhash.py). None keeps those stored under its key."""
    allowance: Allowance | None = None
    """Whose new passages are counted when it is indexed."""

    def refiled(self, **changes: Any) -> "Prepared":
        """The same passages under another key, collection, tags or date; nothing is computed again."""
        document = replace(self.document, **changes)
        placed = {name: value for name, value in changes.items() if name != "key"}
        parts = [
            replace(part, stored=replace(part.stored, key=document.key, ref=replace(part.stored.ref, **placed)))
            for part in self.parts
        ]
        return replace(self, document=document, parts=parts)


def prepare(document: Document) -> Prepared:
    parts: list[PreparedPassage] = []
    for passage, stored in zip(document.passages, described(document), strict=True):
        head, body, length = _counted(stored.heading, _fields(passage), passage.label, stored.language)
        parts.append(PreparedPassage(stored, head, body, length))
    return Prepared(document, parts)


def described(document: Document) -> Iterator[StoredPassage]:
    """Yield the rows of a document's passages, without the words that each is found by."""
    filed = PassageRef(
        0, document.space, document.tenant, document.collection, document.kind, document.tags, document.created_at
    )
    for number, passage in enumerate(document.passages):
        fields = _fields(passage)
        plain = all(field.weight == 1.0 for field in fields)
        text = storable("\n".join(field.text for field in fields))
        weights = () if plain else tuple((len(field.text) + 1, field.weight) for field in fields)
        heading = storable(passage.heading)
        spoken = language(f"{heading}\n{text}")
        digest = digest_of(heading, text, weights, spoken)
        yield StoredPassage(filed, document.key, number, digest, heading, text, weights, spoken)


def digest_of(heading: str, text: str, weights: tuple[tuple[int, float], ...], spoken: str) -> str:
    """Equal for passages that have the same vector, and are searched alike."""
    read = [READ] if spoken == "vi" and typed_without_marks(text) else []
    return sql.digest(heading, text, repr(weights), *read)


def _fields(passage: Passage) -> list[Field]:
    return [field for field in passage.fields if field.text]


def _counted(
    heading: str, fields: Sequence[Field], label: str, spoken: str
) -> tuple[dict[str, float], dict[str, float], int]:
    """Return the tokens of the head, those of the body, and the number of words in all fields."""
    head: dict[str, float] = {}
    _count(index_tokens(heading), HEADING, head)
    _count(index_tokens(storable(label)), HEADING, head)
    body: dict[str, float] = {}
    length = 0
    for part in fields:
        tokens = index_tokens(storable(part.text))
        length += len(tokens)
        place = head if part.weight > 1.0 else body
        _count(tokens, part.weight, place)
        if spoken == "vi":
            _count(list(pairs(part.text)), part.weight, place)
    if spoken == "vi":
        _count(list(pairs(heading)), HEADING, head)
    return head, body, length


def _count(tokens: Sequence[str], weight: float, counted: dict[str, float]) -> None:
    times = Counter(tokens)
    if not counted and weight == 1.0:  # the usual case
        counted.update(times)
        return
    for token, number in times.items():
        counted[token] = counted.get(token, 0.0) + number * weight


class TooManyPassages(KhoError):
    """The text is too long, or in too many small parts. Nothing was stored."""

    code = "TOO_MANY_PASSAGES"
    rpc = -32602
    status = 413


@dataclass(slots=True)
class Index:
    """Keeps the two indexes and the table of passages in sync."""

    words: Words
    vectors: Vectors | None
    model: str
    clock: Clock
    on_waiting: Callable[[], None] = lambda: None
    """Called when passages wait for vectors; the transaction may not have been committed yet."""
    most_passages: int = 0
    """Maximum passages of one document that is written; 0 for no limit."""
    quotas: Quotas = field(default_factory=no_quotas)

    def prepare(self, document: Document) -> Prepared:
        """Prepare what somebody writes. Raises TooManyPassages, or TooManyRequests if the caller has had more passages
        embedded than it may."""
        if self.most_passages and len(document.passages) > self.most_passages:
            raise TooManyPassages(
                f"The text makes more than {self.most_passages:,} passages, which is the most for one document. "
                "Nothing was stored.",
                guidance=f"Split it into several documents. Whoever runs the hub can set {setting('passages')}.",
                setting=setting("passages"),
            )
        if (allowance := CURRENT.get()) is not None:
            allowance.need("embedding")
        return replace(prepare(document), allowance=allowance)

    def put(self, tx: Tx, documents: Sequence[Prepared], *, anew: bool = False, moved_from: str | None = None) -> None:
        """Index documents, replacing what was indexed under their keys. Unchanged passages stay as they are, with their
        vectors; `anew` reindexes their words all the same. `moved_from` is the collection that they were in, if that
        was another one."""
        groups: dict[tuple[str, str, str], dict[str, Prepared]] = {}
        for prepared in documents:
            document = prepared.document
            groups.setdefault((document.space, document.tenant, document.collection), {})[document.key] = prepared
        changes: dict[tuple[str, str], _Change] = {}
        by_key = any(prepared.allowance is not None for prepared in documents)
        for (space, tenant, collection), group in groups.items():
            before = collection if moved_from is None else moved_from
            old = passages.of_keys(tx, space, tenant, before, list(group))
            change = changes.setdefault((space, tenant), _Change())
            if not change.add(group.values(), old, anew, counted=self.vectors is not None):
                continue
            if before != collection:
                minhash.move(tx, space, tenant, before, collection, list(group))
            bands = {key: prepared.bands for key, prepared in group.items() if prepared.bands is not None}
            minhash.put(tx, space, tenant, collection, bands)
        for (space, tenant), change in sorted(changes.items(), key=lambda one: one[0]):
            if change.size:
                grown = self._apply(tx, change)
                passages.changed(tx, space, tenant, change.items, grown)
                if not anew:  # what is indexed again was there before, and a new form of the index may hold more of it
                    self._check_quotas(tx, tenant, change.items, grown, by_key=by_key)

    def drop(self, tx: Tx, space: str, tenant: str, keys: Sequence[str], collection: str = "") -> None:
        old = passages.of_keys(tx, space, tenant, collection, keys)
        gone = [filed for filings in old.values() for filed, _, _ in filings]
        if gone:
            freed = self._drop(tx, gone)
            minhash.drop(tx, space, tenant, collection, keys)
            passages.changed(tx, space, tenant, -sum(map(bool, old.values())), -freed)

    def drop_any(self, tx: Tx, tenant: str, limit: int) -> int:
        """Drop passages of a tenant in any space, at most so many. Return how many."""
        gone = passages.any_of(tx, tenant, limit)
        self._drop(tx, gone)
        for space in {filed.space for filed in gone}:
            passages.changed(tx, space, tenant)
        return len(gone)

    def forget(self, tx: Tx, tenant: str, seqs: Sequence[int]) -> int:
        """Drop passages by number. Return the bytes of their text."""
        self.words.drop(tx, seqs)
        if self.vectors is not None:
            self.vectors.drop(tx, seqs)
        return passages.delete(tx, tenant, seqs)

    def similar(self, tx: Tx, prepared: Prepared, limit: int = 10) -> list[str]:
        """Return the keys of possible near-duplicates in the same collection, the likeliest first."""
        document = prepared.document
        return minhash.find(tx, document.space, document.tenant, document.collection, prepared.bands or (), limit)

    def count(self, tx: Tx, space: str, tenant: str, grown: int, *, by_key: bool = False) -> None:
        """Count bytes that are kept beside the index, such as earlier revisions, under a space of their own."""
        if grown:
            passages.changed(tx, space, tenant, 0, grown)
            self._check_quotas(tx, tenant, 0, grown, by_key=by_key)

    def _check_quotas(self, tx: Tx, tenant: str, items: int, grown: int, *, by_key: bool) -> None:
        """Raise QuotaReached if what was added is more than the tenant may have."""
        if items > 0:
            self.quotas.need(tx, "items", tenant, lambda: passages.usage(tx, tenant)[0], by_key=by_key)
        if grown > 0:
            self.quotas.need(tx, "bytes", tenant, lambda: passages.usage(tx, tenant)[1], by_key=by_key)

    def _apply(self, tx: Tx, change: "_Change") -> int:
        """Return by how many bytes the text has grown."""
        for filed, stored in change.shifted:
            passages.move(tx, filed.seq, stored.ref, stored.part)
        grown = sum(len(part.stored.text.encode()) for part in change.new) - self._drop(tx, change.gone)
        self.words.drop(tx, [filed.seq for filed, _ in change.moved])
        seqs = [filed.seq for filed, _ in change.moved] + passages.insert(tx, [part.stored for part in change.new])
        parts = [part for _, part in change.moved] + change.new
        filed = [replace(part.stored.ref, seq=seq) for seq, part in zip(seqs, parts, strict=True)]
        self.words.put(
            tx, [WordEntry(file, part.head, part.body, part.length) for file, part in zip(filed, parts, strict=True)]
        )
        if self.vectors is None:
            passages.unmodel(tx)
            return grown
        # Vectors are stored with tags and dates too.
        moved = [file for file, (before, _) in zip(filed, change.moved, strict=False) if file != before]
        self.vectors.move(tx, self.model, moved)
        if change.new:
            passages.enqueue(tx, change.new[0].stored.ref.tenant, seqs[len(change.moved) :], self.clock())
            self.on_waiting()
        return grown

    def _drop(self, tx: Tx, gone: list[PassageRef]) -> int:
        """Drop passages of one tenant. Return the bytes of their text."""
        if not gone:
            return 0
        return self.forget(tx, gone[0].tenant, [filed.seq for filed in gone])


@dataclass(slots=True)
class _Change:
    """What changes in one space of a tenant."""

    new: list[PreparedPassage] = field(default_factory=list[PreparedPassage])
    moved: list[tuple[PassageRef, PreparedPassage]] = field(default_factory=list[tuple[PassageRef, PreparedPassage]])
    """Same text, but with another kind, tags or date; or its words are to be reindexed."""
    shifted: list[tuple[PassageRef, StoredPassage]] = field(default_factory=list[tuple[PassageRef, StoredPassage]])
    """Passages whose row has to be updated."""
    gone: list[PassageRef] = field(default_factory=list[PassageRef])
    items: int = 0
    """How many more documents there are."""

    def add(
        self,
        documents: Iterable[Prepared],
        old: dict[str, list[tuple[PassageRef, int, str]]],
        anew: bool,
        *,
        counted: bool,
    ) -> bool:
        """Add the changes from what is indexed to what should be. True if there are any. New passages are `counted` if
        they wait for vectors."""
        before = self.size
        for prepared in documents:
            already = len(self.new)
            self.items += bool(prepared.parts) - bool(old[prepared.document.key])
            # The same text twice in one document makes two passages.
            known: dict[str, list[tuple[PassageRef, int]]] = {}
            for filed, number, digest in sorted(old[prepared.document.key], key=lambda one: one[1]):
                known.setdefault(digest, []).append((filed, number))
            for part in prepared.parts:
                stored = part.stored
                if not known.get(stored.digest):
                    self.new.append(part)
                    continue
                filed, number = known[stored.digest].pop(0)
                refiled = replace(filed, seq=0) != stored.ref
                if refiled or anew:
                    self.moved.append((filed, part))
                if refiled or number != stored.part:
                    self.shifted.append((filed, stored))
            self.gone += [filed for left in known.values() for filed, _ in left]
            if counted and prepared.allowance is not None:
                prepared.allowance.owe("embedding", len(self.new) - already)
        return self.size > before

    @property
    def size(self) -> int:
        return len(self.new) + len(self.moved) + len(self.shifted) + len(self.gone)


_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def storable(text: str) -> str:
    """Replace lone surrogates and NUL, which no database can store and search does not need. Nearly every text has
    neither, and encoding it shows that ten times faster than a regular expression, which matters for long ones."""
    if "\0" not in text:
        try:
            text.encode()
            return text
        except UnicodeEncodeError:
            pass
    return _UNSTORABLE.sub("\ufffd", text)
