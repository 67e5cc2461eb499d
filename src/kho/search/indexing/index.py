"""Filing what slices keep, so that it can be found: in the slice's transaction, by words at once, by meaning soon."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from kho.kernel.ports import PassageRef, Tx, Vectors, WordEntry, Words
from kho.lib.clock import Clock
from kho.search.indexing import minhash, passages
from kho.search.indexing.passages import StoredPassage
from kho.search.text.language import language
from kho.search.text.tokens import index_tokens

FORM = 2
"""Goes up when folding changes, or what is filed of it: what was filed before is then filed anew."""

HEADING = 1.5
"""How much a word in the heading counts, where one in the text counts 1."""


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
    """Words by which it is found, too, though it does not say them, such as its document's title. They are no part of
    what it means: another label costs no new vector (`Index.put` with `anew` files it)."""


@dataclass(frozen=True, slots=True)
class Document:
    """Whatever a slice keeps under one key, as the passages that a search may return."""

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
    """The tokens by which it is found, and what each counts; those of the head weigh more."""
    length: int


@dataclass(frozen=True, slots=True)
class Prepared:
    """A document that is ready to be filed. The costly part, done outside of the transaction that all writes share."""

    document: Document
    parts: list[PreparedPassage]
    bands: list[int] | None = None
    """By which near-duplicates are found (see minhash.py). None leaves those that are stored under its key."""


def prepare(document: Document) -> Prepared:
    parts: list[PreparedPassage] = []
    filed = PassageRef(
        0, document.space, document.tenant, document.collection, document.kind, document.tags, document.created_at
    )
    for number, passage in enumerate(document.passages):
        fields = [field for field in passage.fields if field.text]
        plain = all(field.weight == 1.0 for field in fields)
        text = storable("\n".join(field.text for field in fields))
        weights = () if plain else tuple((len(field.text) + 1, field.weight) for field in fields)
        heading = storable(passage.heading)
        digest = _digest(heading, text, repr(weights))
        head, body, length = _counted(heading, fields, passage.label)
        spoken = language(f"{heading}\n{text}")
        stored = StoredPassage(filed, document.key, number, digest, heading, text, weights, spoken)
        parts.append(PreparedPassage(stored, head, body, length))
    return Prepared(document, parts)


def _counted(heading: str, fields: Sequence[Field], label: str) -> tuple[dict[str, float], dict[str, float], int]:
    """The tokens of the head, those of the body, and how many all the fields have."""
    head: dict[str, float] = {}
    _count(index_tokens(heading), HEADING, head)
    _count(index_tokens(storable(label)), HEADING, head)
    body: dict[str, float] = {}
    length = 0
    for field in fields:
        tokens = index_tokens(storable(field.text))
        length += len(tokens)
        _count(tokens, field.weight, head if field.weight > 1.0 else body)
    return head, body, length


def _count(tokens: Sequence[str], weight: float, counted: dict[str, float]) -> None:
    times = Counter(tokens)
    if not counted and weight == 1.0:  # nearly always
        counted.update(times)
        return
    for token, number in times.items():
        counted[token] = counted.get(token, 0.0) + number * weight


class Index:
    """The two indexes and the table of passages, kept in step."""

    def __init__(self, words: Words, vectors: Vectors | None, model: str, clock: Clock) -> None:
        self._words = words
        self._vectors = vectors
        self._model = model
        self._clock = clock
        self.on_waiting: Callable[[], None] = lambda: None
        """Called when passages wait for vectors; the transaction may not have ended yet."""

    def put(
        self,
        tx: Tx,
        documents: Sequence[Prepared],
        *,
        anew: bool = False,
        moved_from: str | None = None,
    ) -> None:
        """Files documents in place of what was filed under their keys. Passages that are the same stay as they are,
        with their vectors; `anew` files their words again all the same. `moved_from` is the collection that they were
        in, if that was another one."""
        groups: dict[tuple[str, str, str], dict[str, Prepared]] = {}
        for prepared in documents:
            document = prepared.document
            groups.setdefault((document.space, document.tenant, document.collection), {})[document.key] = prepared
        change = _Change([], [], [], [])
        touched: set[tuple[str, str]] = set()
        for (space, tenant, collection), group in groups.items():
            before = collection if moved_from is None else moved_from
            old = passages.of_keys(tx, space, tenant, before, list(group))
            if not change.add(group.values(), old, anew):
                continue
            touched.add((space, tenant))
            if before != collection:
                minhash.move(tx, space, tenant, before, collection, list(group))
            bands = {key: prepared.bands for key, prepared in group.items() if prepared.bands is not None}
            minhash.put(tx, space, tenant, collection, bands)
        if touched:
            self._apply(tx, change)
            for space, tenant in sorted(touched):
                passages.changed(tx, space, tenant)

    def drop(self, tx: Tx, space: str, tenant: str, keys: Sequence[str], collection: str = "") -> None:
        old = passages.of_keys(tx, space, tenant, collection, keys)
        seqs = [filed.seq for filings in old.values() for filed, _, _ in filings]
        if seqs:
            self._drop(tx, seqs)
            minhash.drop(tx, space, tenant, collection, keys)
            passages.changed(tx, space, tenant)

    def similar(self, tx: Tx, prepared: Prepared, limit: int = 10) -> list[str]:
        """The keys of documents of the same collection that may be near-duplicates, the likeliest first."""
        document = prepared.document
        return minhash.find(tx, document.space, document.tenant, document.collection, prepared.bands or (), limit)

    def _refile(self, tx: Tx, filed: Sequence[PassageRef]) -> None:
        if self._vectors is None:
            passages.unmodel(tx)
        else:
            self._vectors.move(tx, self._model, filed)

    def _apply(self, tx: Tx, change: "_Change") -> None:
        for filed, stored in change.shifted:
            passages.move(tx, filed.seq, stored.ref, stored.part)
        self._drop(tx, change.gone)
        self._words.drop(tx, [filed.seq for filed, _ in change.moved])
        seqs = [filed.seq for filed, _ in change.moved] + passages.insert(tx, [part.stored for part in change.new])
        parts = [part for _, part in change.moved] + change.new
        filed = [replace(part.stored.ref, seq=seq) for seq, part in zip(seqs, parts, strict=True)]
        self._words.put(
            tx, [WordEntry(file, part.head, part.body, part.length) for file, part in zip(filed, parts, strict=True)]
        )
        # Vectors are filed under tags and dates too.
        self._refile(tx, [file for file, (before, _) in zip(filed, change.moved, strict=False) if file != before])
        if self._vectors is not None and change.new:
            passages.enqueue(tx, seqs[len(change.moved) :], self._clock())
            self.on_waiting()

    def _drop(self, tx: Tx, seqs: list[int]) -> None:
        if not seqs:
            return
        self._words.drop(tx, seqs)
        if self._vectors is not None:
            self._vectors.drop(tx, seqs)
        passages.delete(tx, seqs)


@dataclass(slots=True)
class _Change:
    new: list[PreparedPassage]
    moved: list[tuple[PassageRef, PreparedPassage]]
    """The same text, now of another kind, with other tags or another date; or its words are to be filed anew."""
    shifted: list[tuple[PassageRef, StoredPassage]]
    """Whose row has to be written again."""
    gone: list[int]

    def add(self, documents: Iterable[Prepared], old: dict[str, list[tuple[PassageRef, int, str]]], anew: bool) -> bool:
        """What has to be done to get from what is filed to what shall be. Whether that is anything at all."""
        before = self._size()
        for prepared in documents:
            # The same text twice in one document is two passages.
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
            self.gone += [filed.seq for left in known.values() for filed, _ in left]
        return self._size() > before

    def _size(self) -> int:
        return len(self.new) + len(self.moved) + len(self.shifted) + len(self.gone)


_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def storable(text: str) -> str:
    """Half a character (a lone surrogate) and NUL fit into no database; what is searched can do without them. Nearly
    every text has neither, and encoding it tells so ten times faster than a pattern, which counts for long ones."""
    if "\0" not in text:
        try:
            text.encode()
            return text
        except UnicodeEncodeError:
            pass
    return _UNSTORABLE.sub("\ufffd", text)


def _digest(*parts: str) -> str:
    return blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
