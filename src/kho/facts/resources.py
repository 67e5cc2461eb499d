"""Facts as resources: fact://{id}, with what is known of each as JSON."""

from collections.abc import Sequence

import orjson

from kho.facts.model import FactRecord
from kho.facts.service import FACTS, URI
from kho.facts.store import Fact, Filter, Store
from kho.kernel import paging
from kho.kernel.call import Call
from kho.kernel.capability import Resource, ResourceContent
from kho.kernel.operation import plain
from kho.kernel.ports import Database
from kho.lib.clock import Clock
from kho.lib.dataclass import dataclass

PAGE = 100
MIME = "application/json"
TITLE = 80
"""Characters of a fact's title."""


def title_of(fact: Fact) -> str:
    line = " ".join(fact.text[: 4 * TITLE].split())
    return line if len(line) <= TITLE else line[: TITLE - 1].rstrip() + "…"


@dataclass(slots=True, kw_only=True)
class FactResources:
    """The `ResourceProvider` of the kernel."""

    scope = FACTS.read_scope
    templates = (Resource(URI + "{id}", "Fact", "A fact and what is known of it.", MIME),)
    db: Database
    store: Store
    clock: Clock
    timeout: float

    async def page(self, call: Call, cursor: str | None) -> tuple[Sequence[Resource], str | None]:
        place = paging.place(cursor, int, str)
        before = None if place is None else (place[0], place[1])
        rows = await self.db.read(
            lambda tx: self.store.page(tx, call.tenant, Filter(), before, PAGE + 1, self.clock()),
            timeout=call.remaining(self.timeout),
        )
        page, more = paging.cut(rows, PAGE, lambda last: [last.created_at, last.id])
        return [
            Resource(URI + one.id, title_of(one), f"About {one.about}" if one.about else "", MIME) for one in page
        ], more

    async def read(self, call: Call, uri: str) -> ResourceContent | None:
        if not uri.startswith(URI):
            return None
        id = uri.removeprefix(URI)
        fact = await self.db.read(lambda tx: self.store.get(tx, call.tenant, id), timeout=call.remaining(self.timeout))
        if fact is None or fact.forgotten_at is not None:
            return None
        return ResourceContent(uri, MIME, orjson.dumps(plain(FactRecord.of(fact))).decode())

    async def complete(self, call: Call, uri: str, argument: str, value: str) -> Sequence[str]:
        if uri != URI + "{id}" or argument != "id":
            return []
        return await self.db.read(
            lambda tx: self.store.beginning_with(tx, call.tenant, value, PAGE, self.clock()),
            timeout=call.remaining(self.timeout),
        )
