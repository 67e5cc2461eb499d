"""The rules of `search`, `fetch` and `recent`: what callers may read of all slices, as one list."""

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote, unquote

from kho.kernel.call import Call, Left, until
from kho.kernel.capability import Capability
from kho.kernel.checkpoint import ADMIN, searchables
from kho.kernel.command import Command
from kho.kernel.contract import Contract
from kho.kernel.errors import InvalidParams
from kho.kernel.ports import Database, SearchFilter, Tx
from kho.kernel.searchable import FoundPassage, Item, Narrowing, Searchable
from kho.kernel.validation import check_period
from kho.kernel.vocabulary import Kind
from kho.lib.clock import iso
from kho.lib.dataclass import dataclass
from kho.recall import markdown, model
from kho.recall.errors import UnknownItem
from kho.search.answer import highlight
from kho.search.query import relevance
from kho.search.query.scoring import ScoreParts
from kho.search.query.searcher import Searcher, SearchHit, SearchResults

RECALL = Contract("recall", read_scope=ADMIN, write_scope=ADMIN)
"""The wiring replaces the scope by those of what is searched: any one of them is enough."""
PASSAGE = 2_000
"""Characters of a passage in a result; of a longer one, the part with most of the query."""
READ = 20_000
"""Characters of a passage in which that part is looked for."""
BEGINNING = 500
"""Characters of an item in `recent`."""
SAID = ("role", "speaker", "at")
_NAMES = {"kinds": "kind", "tags": "tag"}


@dataclass(slots=True, kw_only=True)
class RecallService:
    db: Database
    searcher: Searcher
    slices: Sequence[Capability]
    """The open ones, read at each call."""
    address: str
    """Where callers reach the hub: 'https://kho.example.org'."""

    @RECALL.read(
        "search",
        toolset="minimal",
        explained=("query", "kinds", "about", "speaker", "since", "until"),
        cli=(
            Command("search", ("query",), sentence=True, names=_NAMES),
            Command("recall", ("query",), sentence=True, names=_NAMES, summary="The same as search."),
        ),
        example={"query": "package manager", "kinds": ["fact"]},
        text=markdown.found,
    )
    async def search(self, params: model.Search, call: Call) -> model.SearchResults:
        """Search everything: facts, conversations, experiences, research and documents.

        Use it whenever something may be known from earlier work: preferences, decisions, people, past problems, the
        user's papers and documents. Best results first.
        """
        check_period(params.since, params.until)
        speaker, notes = await self._speaker(params, call) if params.speaker else (None, [])
        if notes:
            return model.SearchResults(results=[], notes=notes)
        narrowing = Narrowing(params.about or None, speaker)
        wanted = self._narrowed(call, params, narrowing, tags=tuple(params.tags or ()), until=params.until)
        if not wanted:
            return model.SearchResults(results=[])
        found, page = await self._found(params, call, wanted, until(call.remaining(self.searcher.limits.timeout)))
        return model.SearchResults(results=found, vectors_pending=page.pending or None, notes=[*page.notes] or None)

    @RECALL.read(
        "fetch",
        toolset="minimal",
        explained=("id",),
        cli=Command("fetch", ("id",)),
        example={"id": "fact:550e8400-e29b-41d4-a716-446655440000"},
        text=markdown.fetched,
    )
    async def fetch(self, params: model.Fetch, call: Call) -> model.Fetched:
        """Read one result of search or recent in full.

        Use it when the passage that search shows is not enough. A message comes with those around it.
        """
        given = unicodedata.normalize("NFC", params.id).strip()
        # As it stands in a link, where its colon may be escaped too.
        prefix, _, id = (given if ":" in given else unquote(given)).partition(":")
        searchable = next((one for one in self._chosen(call) if one.kind.prefix == prefix), None)
        item = await searchable.fetch(call, id) if searchable is not None and id else None
        if searchable is None or item is None:
            raise UnknownItem
        end = params.offset + model.MAX_TEXT
        metadata: dict[str, Any] = {"kind": searchable.kind.name, "when": iso(item.when), **item.metadata}
        metadata["characters"] = len(item.text)
        if end < len(item.text):
            metadata["next_offset"] = end
        return model.Fetched(**self._named(searchable, item), text=item.text[params.offset : end], metadata=metadata)

    @RECALL.read(
        "recent",
        toolset="minimal",
        explained=(),
        cli=Command("recent", names=_NAMES),
        example={"limit": 5},
        text=markdown.recent,
    )
    async def recent(self, params: model.Recent, call: Call) -> model.RecentItems:
        """What was added or changed recently, across everything.

        Use it at the start of a session, or when the user wants to continue where you were.
        """
        wanted = self._narrowed(call, params, Narrowing(params.about or None))

        def work(tx: Tx) -> list[tuple[Searchable, Item]]:
            return [(one, item) for one, where in wanted for item in one.recent(tx, where, params.limit)]

        items = await self.db.read(work, timeout=call.remaining(self.searcher.limits.timeout))
        items.sort(key=lambda found: (-found[1].when, found[0].kind, found[1].id))
        return model.RecentItems(
            results=[
                model.RecentItem(
                    **self._named(one, item),
                    kind=one.kind.name,
                    metadata=_said(item),
                    text=_beginning(item.text),
                    when=iso(item.when),
                )
                for one, item in items[: params.limit]
            ]
        )

    def _narrowed(
        self, call: Call, params: model.Search | model.Recent, narrowing: Narrowing, **more: Any
    ) -> list[tuple[Searchable, SearchFilter]]:
        """Return what the caller may read and asks for, with a filter for each kind."""
        filters = (
            (one, one.narrow(SearchFilter(one.space, call.tenant, since=params.since, **more), narrowing))
            for one in self._chosen(call, params.kinds)
        )
        return [(one, where) for one, where in filters if where is not None]

    def _chosen(self, call: Call, names: Iterable[str] | None = None) -> list[Searchable]:
        """Return what the caller may read, or of that the kinds that it names."""
        if names is None:
            return searchables(call, self.slices)
        known = [one.kind for capability in self.slices for one in capability.searchable]
        kinds = {name: next((kind for kind in known if _means(name, kind)), None) for name in names}
        if unknown := [name for name, kind in kinds.items() if kind is None]:
            listed = ", ".join(kind.name for kind in known)
            raise InvalidParams(f"There is no kind '{unknown[0][:100]}'. Kinds: {listed}.", field="kinds")
        return searchables(call, self.slices, {kind for kind in kinds.values() if kind is not None})

    async def _found(
        self, params: model.Search, call: Call, wanted: Sequence[tuple[Searchable, SearchFilter]], left: Left
    ) -> tuple[list[model.FoundItem], SearchResults]:
        """Search until there are enough: some of what an index finds must not be shown, such as facts that expired."""
        searched, where = [one for one, _ in wanted], tuple(where for _, where in wanted)
        explicit = not params.speaker == params.since == params.until == None  # noqa: E711 (0 is a time)
        complete = explicit and all(one.space in self.searcher.spoken for one in where)
        found: list[model.FoundItem] = []
        cursor: str | None = None
        while True:
            page = await self.searcher.search(
                where, params.query, limit=params.limit, cursor=cursor, per_key=True, complete=complete, timeout=left()
            )
            hits = page.hits
            items = await self.db.read(
                lambda tx, hits=hits: _described(tx, call.tenant, searched, hits), timeout=left()
            )
            found += [
                self._item(params, hit, *items[hit.passage.ref.seq]) for hit in hits if hit.passage.ref.seq in items
            ]
            cursor = page.cursor
            if cursor is None or len(found) >= params.limit:
                return found[: params.limit], page

    async def _speaker(self, params: model.Search, call: Call) -> tuple[str | None, list[str]]:
        """Return the name of who is meant, or a note on why it is nobody."""
        wanted = self._narrowed(call, params, Narrowing(params.about or None))
        spoken = [where for one, where in wanted if one.space in self.searcher.spoken]
        if not spoken:
            return params.speaker, []
        timeout = call.remaining(self.searcher.limits.timeout)
        found = await self.searcher.conversations.speaker(spoken[0], params.speaker or "", until(timeout))
        return found.name, [found.note] if found.name is None else []

    def _item(self, params: model.Search, hit: SearchHit, searchable: Searchable, item: Item) -> model.FoundItem:
        text = hit.passage.text
        return model.FoundItem(
            **self._named(searchable, item),
            kind=searchable.kind.name,
            metadata=_said(item),
            text=text if len(text) <= PASSAGE else highlight.snippet(text[:READ], params.query, PASSAGE)[0],
            when=iso(item.when),
            score=round(hit.score, 4),
            label=relevance.label(relevance.of_score(hit.score)),
            explanation=_explanation(hit.parts) if params.explain else None,
        )

    def _named(self, searchable: Searchable, item: Item) -> dict[str, Any]:
        id = f"{searchable.kind.prefix}:{item.id}"
        # Everything is escaped, slashes too: browsers would resolve an id such as a/../b.
        return {"id": id, "title": item.title, "url": f"{self.address}/open/{quote(id, safe=':')}"}


def _described(
    tx: Tx, tenant: str, searched: Sequence[Searchable], hits: Sequence[SearchHit]
) -> dict[int, tuple[Searchable, Item]]:
    """Return the items of the passages that may be shown, by the number of the passage."""
    shown: dict[int, tuple[Searchable, Item]] = {}
    for one in searched:
        own = [hit.passage for hit in hits if hit.passage.ref.space == one.space]
        passages = [
            FoundPassage(p.key, p.ref.collection, p.ref.kind, p.part, p.heading, p.text, p.ref.created_at) for p in own
        ]
        for passage, item in zip(own, one.described(tx, tenant, passages) if own else (), strict=True):
            if item is not None:
                shown[passage.ref.seq] = one, item
    return shown


def _said(item: Item) -> dict[str, Any] | None:
    """Who said a message, and when."""
    return {name: item.metadata[name] for name in SAID if name in item.metadata} if "at" in item.metadata else None


def _means(word: str, kind: Kind) -> bool:
    return word in (kind.name, f"{kind.name}s", kind.prefix)


def _beginning(text: str) -> str:
    return text if len(text) <= BEGINNING else text[:BEGINNING].rstrip() + " …"


def _explanation(parts: ScoreParts) -> model.Explanation:
    lexical = min(1.0, (parts.words + parts.closeness) / 2 + parts.literal)
    semantic = None if parts.meaning is None else round(parts.meaning, 4)
    return model.Explanation(lexical=round(lexical, 4), semantic=semantic)
