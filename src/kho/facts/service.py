"""The rules of facts."""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar

from kho.facts import errors, markdown, model
from kho.facts.settings import FactSettings
from kho.facts.store import FACTS as ROWS
from kho.facts.store import REVISIONS, SPACE, Fact, Filter, Revision, Store, digest_of, merged
from kho.facts.topic import topic_of
from kho.kernel import paging, transfer
from kho.kernel.call import Call
from kho.kernel.capability import Changes
from kho.kernel.command import Command
from kho.kernel.contract import Contract
from kho.kernel.errors import Conflict, InvalidParams, Timeout, UniqueViolation
from kho.kernel.hints import Arg, Hint, Op
from kho.kernel.ports import Database, SearchFilter, Tx
from kho.kernel.validation import check_period
from kho.lib.clock import Clock, iso
from kho.lib.dataclass import dataclass
from kho.lib.sql import full_id
from kho.search.query.searcher import Searcher

T = TypeVar("T")
U = TypeVar("U")

FACTS = Contract("facts", read_scope="facts:read", write_scope="facts:write", personal="told")
PARTS = (
    transfer.part("", ROWS, {"id": str}, model.FactLine.of),
    transfer.part("revision", REVISIONS, {"id": str, "revision": int}, model.RevisionLine.of),
)
"""Of an export of everything."""
LINES: dict[str, type[model.FactLine] | type[model.RevisionLine]] = {
    "": model.FactLine,
    "revision": model.RevisionLine,
}
URI = "fact://"
"""What the URIs of facts begin with."""
MAX_SIMILAR = 3
SIMILAR = 0.75
"""The search score from which a fact is shown as similar. Tried with the local model on 232 short facts in three
languages: for nine of them another one scored as much, two of those about the same thing. Of twelve pairs that
supersede each other, ten did ("The office closes at six", "The office closes at five on Fridays": 0.79; "We run MySQL
in production", "We use PostgreSQL 16 in production": 0.65, not shown)."""
SIMILAR_BY_WORDS = 0.25
"""The same for a fact whose vector is not there yet: keywords alone score lower. Of 240 short facts in three languages
that have nothing to do with each other, one had another above it."""
SIMILAR_TIMEOUT = 3.0
"""Seconds that a new fact waits for its neighbours. It is stored without them if that takes longer."""
ASKED = 1_000
"""Characters of a fact that its neighbours are looked for with."""
_GROUP = "Facts: short things worth knowing later."
_ID = {"id": "550e8400-e29b-41d4-a716-446655440000"}
_TAGS = {"tags": "tag"}
_FACT = {"text": "Lan prefers pnpm over npm.", "about": "Lan", "tags": ["tools"]}

Status = Literal["remembered", "known", "restored", "replaced"]
_TOLD = {
    "remembered": "Remembered.",
    "known": "That was known already.",
    "restored": "That was there before, and is back.",
}
SHOWN = 200
"""Characters of a replaced fact in a message."""


@dataclass(slots=True, kw_only=True)
class FactService:
    db: Database
    store: Store
    searcher: Searcher
    clock: Clock
    settings: FactSettings
    changes: Changes

    @FACTS.write(
        "remember",
        toolset="minimal",
        explained=("about", "expires_at", "replaces"),
        cli=Command("remember", ("text",), sentence=True, from_file="text", names=_TAGS),
        example=_FACT,
        text=markdown.remembered,
    )
    async def remember(self, params: model.Remember, call: Call) -> model.Remembered:
        """Remember one short thing worth knowing later.

        Call it when the user says "remember", or states something that will matter in another conversation: a
        preference, a decision, a name, where something is. If the reply shows a similar fact that is no longer true,
        call again with its id as replaces. Secrets are refused.
        """
        now, tenant = self.clock(), call.tenant
        _in_future(params.expires_at, now)
        fact = Fact(
            id=str(uuid.uuid4()),
            revision=1,
            text=params.text,
            about=params.about or None,
            tags=params.tags or [],
            source=params.source or None,
            expires_at=params.expires_at,
            said_by=call.principal.sub,
            said_at=now,
            created_at=now,
            updated_at=now,
        )
        warnings = call.take_warnings()
        near = await self._near(fact, call)

        def work(tx: Tx) -> tuple[model.Remembered, bool]:
            old = None if params.replaces is None else self._replaceable(tx, tenant, params.replaces)
            status, kept, changed = self._keep(tx, tenant, fact, now)
            if old is not None and old.id != kept.id:
                self.store.set_state(tx, tenant, old, now, replaced_by=kept.id)
                status, changed = "replaced", True
            if changed:
                details: dict[str, Any] = {"replaces": old.id} if old else {}
                call.audit(tx, kept.id, at=now, status=status, **details)
            own = {kept.id, old.id if old else None}
            similar = [] if status == "known" else self._similar(tx, tenant, near, own, now)
            return model.Remembered(
                id=kept.id,
                status=status,
                fact=model.FactRecord.of(kept),
                similar=[model.SimilarFact.of(one, when=one.created_at) for one in similar],
                message=Hint.of([*_told(status, kept, fact, old, similar), *warnings]),
            ), changed

        done, changed = await self._commit(call, work)
        if changed:
            self._tell(tenant, done.id, *([params.replaces] if params.replaces else []))
        return done

    @FACTS.destroy(
        "forget",
        toolset="minimal",
        explained=(),
        cli=(Command("forget", ("id",)), Command("facts forget", ("id",), summary="The same as forget.")),
        example={**_ID, "reason": "no longer true"},
        text=markdown.changed,
    )
    async def forget(self, params: model.Forget, call: Call) -> model.ChangedFact:
        """Forget a fact; it can be restored.

        Use it when a fact is wrong, or its owner wants it gone. If something else is true now, remember that with
        replaces instead.
        """
        now = self.clock()

        def work(tx: Tx) -> model.ChangedFact:
            old = self._locked(tx, call.tenant, params.id)
            if old.forgotten_at is None:
                self.store.set_state(tx, call.tenant, old, now, forgotten_at=now)
                call.audit(tx, old.id, at=now, reason=params.reason)
            said = "Forgotten. " if old.forgotten_at is None else "It was forgotten already. "
            back = Hint(said, Op("restore_fact", id=old.id), " brings it back.")
            return model.ChangedFact.of(old, message=back)

        done = await call.commit(self.db, work)
        self._tell(call.tenant, done.id)
        return done

    @FACTS.write("restore_fact", cli=Command("facts restore", ("id",)), example=_ID, text=markdown.changed)
    async def restore(self, params: model.FactById, call: Call) -> model.ChangedFact:
        """Bring a forgotten fact back.

        Use it when a fact was forgotten by mistake.
        """
        now = self.clock()

        def work(tx: Tx) -> model.ChangedFact:
            old = self._locked(tx, call.tenant, params.id)
            if old.forgotten_at is not None:
                self.store.set_state(tx, call.tenant, old, now, forgotten_at=None)
                call.audit(tx, old.id, at=now)
            expired = " It has expired, so searches and lists leave it out." if old.is_expired(now) else ""
            said = "It was not forgotten." if old.forgotten_at is None else "Restored."
            return model.ChangedFact.of(old, message=f"{said}{expired}")

        done = await call.commit(self.db, work)
        self._tell(call.tenant, done.id)
        return done

    @FACTS.read(
        "list_facts",
        cli=Command("facts list", names=_TAGS, group=_GROUP),
        example={"about": "Lan", "limit": 20},
        text=markdown.listed,
    )
    async def list_(self, params: model.ListFacts, call: Call) -> model.FactPage:
        """List facts, newest first.

        Use it to see everything that is known about somebody or something; to look for something, search.
        """
        check_period(params.since, params.until)
        now = self.clock()
        wanted = Filter(
            topic_of(params.about) if params.about else None,
            params.tags or (),
            params.since,
            params.until,
            params.include_expired,
            params.include_forgotten,
        )
        place = paging.place(params.cursor, int, str)
        before = None if place is None else (place[0], place[1])
        rows = await self._read(
            call, lambda tx: self.store.page(tx, call.tenant, wanted, before, params.limit + 1, now)
        )
        page, more = paging.cut(rows, params.limit, lambda last: [last.created_at, last.id])
        return model.FactPage(facts=[*map(model.FactRecord.of, page)], next_cursor=more)

    @FACTS.read("get_fact", tool=False, cli=Command("facts get", ("id",)), example=_ID, text=markdown.one)
    async def get(self, params: model.FactById, call: Call) -> model.FactRecord:
        """Read one fact, also one that was forgotten or replaced."""
        fact = await self._read(call, lambda tx: self._find(tx, call.tenant, params.id))
        return model.FactRecord.of(_known(fact))

    @FACTS.read("fact_history", cli=Command("facts history", ("id",)), example=_ID, text=markdown.history)
    async def history(self, params: model.FactById, call: Call) -> model.FactHistory:
        """Everything that a fact said before: edits and replaced facts.

        Shows who said each and when, the latest first. Use it when somebody asks what was true earlier.
        """
        now, tenant = self.clock(), call.tenant

        def work(tx: Tx) -> model.FactHistory:
            asked = _known(self._find(tx, tenant, params.id))
            head = self.store.newest(tx, tenant, asked.id) or asked
            chain = self.store.chain(tx, tenant, head.id)
            said: list[tuple[Revision, str]] = [(fact, _state(fact, now)) for fact in chain]
            said += [(one, "edited") for one in self.store.revisions(tx, tenant, [fact.id for fact in chain])]
            # What counts now comes first, whatever was edited since among what it replaced.
            said.sort(key=lambda one: (one[0] == head, one[0].said_at, one[0].revision), reverse=True)
            return model.FactHistory(
                id=head.id, entries=[model.HistoryEntry.of(one, state=state) for one, state in said]
            )

        return await self._read(call, work)

    @FACTS.write(
        "update_fact",
        cli=Command("facts update", ("id",), names=_TAGS),
        example={**_ID, "text": "Lan prefers pnpm over npm and yarn.", "expected_revision": 1},
        text=markdown.changed,
    )
    async def update(self, params: model.UpdateFact, call: Call) -> model.ChangedFact:
        """Correct a fact in place; its earlier words stay in its history.

        Use it to mend the wording, tags or expiry. If the world has changed, remember the new fact with replaces.
        """
        now, tenant = self.clock(), call.tenant
        changes: dict[str, Any] = {name: value for name in model.FIELDS if (value := getattr(params, name)) is not None}
        if not changes:
            raise InvalidParams("Name at least one field to change.")
        if changes.get("expires_at") == model.NEVER:
            changes["expires_at"] = None
        _in_future(changes.get("expires_at"), now)
        changes |= {name: changes[name] or None for name in ("about", "source") if name in changes}

        warnings = call.take_warnings()

        def work(tx: Tx) -> tuple[model.ChangedFact, bool]:
            old = self._locked(tx, tenant, params.id)
            if old.forgotten_at is not None:
                raise errors.forgotten(old.id)
            if params.expected_revision not in (None, old.revision):
                raise Conflict(
                    "The fact changed meanwhile. Read it again and apply your change to what is there now.",
                    expected_revision=params.expected_revision,
                    actual_revision=old.revision,
                )
            wanted = replace(old, **changes)
            if wanted == old:
                return model.ChangedFact.of(old, message="It says that already; nothing was changed."), False
            other = self.store.lock_equal(tx, tenant, digest_of(wanted))
            if other is not None and other.id != old.id:
                raise errors.equal(other)
            new = self.store.edit(tx, tenant, old, changes, call.principal.sub, now)
            call.audit(tx, new.id, at=now, before=old.revision, after=new.revision)
            return model.ChangedFact.of(new, message=" ".join(["Updated.", *warnings])), True

        done, changed = await self._commit(call, work)
        if changed:
            self.changes.tell(tenant, URI + done.id)
        return done

    @FACTS.read("export_facts", tool=False, example={"limit": 100})
    async def export(self, params: model.ExportFacts, call: Call) -> transfer.ExportedLines:
        """All facts, a page at a time, in the form that import takes; also those that were forgotten or replaced."""
        if params.everything:
            call.need("admin")
            return await self._read(call, lambda tx: transfer.page(tx, call.tenant, PARTS, params.cursor, params.limit))
        [after] = paging.place(params.cursor, str) or ("",)
        rows = await self._read(call, lambda tx: self.store.by_id(tx, call.tenant, after, params.limit + 1))
        page, more = paging.cut(rows, params.limit, lambda last: [last.id])
        return transfer.ExportedLines(lines=[*map(model.FactLine.of, page)], next_cursor=more)

    @FACTS.write("import_facts", tool=False, example={"lines": [_FACT]})
    async def import_(self, params: model.ImportFacts, call: Call) -> model.ImportedFacts:
        """Take facts that export gave; those that are here already stay as they are."""
        now = self.clock()
        lines = transfer.parsed(params.lines, LINES, _refused)
        facts = [(_from_line(line, call, now), line) for line in lines if isinstance(line, model.FactLine)]
        earlier = [Revision(**line.values("kind")) for line in lines if isinstance(line, model.RevisionLine)]
        if earlier:
            call.need("admin")

        def work(tx: Tx) -> model.ImportedFacts:
            taken = sum(self._take(tx, call.tenant, fact, line) for fact, line in facts)
            taken += sum(self.store.take_revision(tx, call.tenant, one) for one in earlier)
            if taken:
                call.audit(tx, "", at=now, imported=taken)
            left = len(lines) - taken
            message = f"{taken} imported, {left} existed already."
            return model.ImportedFacts(imported=taken, unchanged=left, message=message)

        done = await self._commit(call, lambda tx: (work(tx), None))
        self.changes.tell(call.tenant)
        return done[0]

    def _keep(self, tx: Tx, tenant: str, fact: Fact, now: int) -> tuple[Status, Fact, bool]:
        """Stores a new fact, or finds the one that says the same. That one gets the new tags, too, and is brought back
        if it was forgotten or has expired. The last part tells if anything changed."""
        known = self.store.lock_equal(tx, tenant, digest_of(fact))
        if known is None:
            self.store.insert(tx, tenant, fact)
            return "remembered", fact, True
        status: Status = "known" if known.is_current(now) else "restored"
        if known.forgotten_at is not None:
            known = self.store.set_state(tx, tenant, known, now, forgotten_at=None)
        changes: dict[str, Any] = {}
        if known.is_expired(now):
            changes["expires_at"] = fact.expires_at
        if (tags := merged(known.tags, fact.tags)) != known.tags:
            changes["tags"] = tags
        if changes:
            known = self.store.edit(tx, tenant, known, changes, fact.said_by, now)
        return status, known, bool(changes) or status == "restored"

    def _take(self, tx: Tx, tenant: str, fact: Fact, line: model.FactLine) -> bool:
        """Stores an imported fact. True if it was not there. If another one says the same, it counts, and what refers
        to the imported id finds it by `replaced_by`."""
        if line.id is not None and self.store.get(tx, tenant, line.id) is not None:
            return False
        if fact.replaced_by is None and (other := self.store.lock_equal(tx, tenant, digest_of(fact))) is not None:
            if line.id is None:
                return False
            fact = replace(fact, replaced_by=other.id)
        self.store.insert(tx, tenant, fact)
        return True

    def _find(self, tx: Tx, tenant: str, id: str) -> Fact | None:
        return self.store.get(tx, tenant, full_id(tx, "facts", tenant, id))

    def _locked(self, tx: Tx, tenant: str, id: str) -> Fact:
        """A fact that nobody else changes until the transaction ends, and that was not replaced."""
        fact = _known(self.store.lock(tx, tenant, full_id(tx, "facts", tenant, id)))
        if fact.replaced_by is not None:
            raise errors.replaced(fact.id, self.store.newest(tx, tenant, fact.id))
        return fact

    def _replaceable(self, tx: Tx, tenant: str, id: str) -> Fact:
        old = self._locked(tx, tenant, id)
        if old.forgotten_at is not None:
            raise errors.forgotten(old.id)
        return old

    async def _near(self, fact: Fact, call: Call) -> Sequence[str]:
        """Ids of facts that say much the same, the nearest first."""
        where = SearchFilter(SPACE, call.tenant)
        try:
            timeout = call.remaining(SIMILAR_TIMEOUT)
            found = await self.searcher.search(where, fact.text[:ASKED], per_key=True, timeout=timeout)
        except Timeout:
            return ()
        return [
            hit.passage.key
            for hit in found.hits
            if hit.score >= (SIMILAR_BY_WORDS if hit.parts.meaning is None else SIMILAR)
        ]

    def _similar(self, tx: Tx, tenant: str, near: Sequence[str], without: set[str | None], now: int) -> list[Fact]:
        facts = self.store.get_many(tx, tenant, near)
        shown = [facts[id] for id in near if id in facts and id not in without and facts[id].is_current(now)]
        return shown[:MAX_SIMILAR]

    def _tell(self, tenant: str, *ids: str) -> None:
        """Notifies clients that facts came or went, and that these ones changed."""
        self.changes.tell(tenant)
        for id in ids:
            self.changes.tell(tenant, URI + id)

    async def _read(self, call: Call, work: Callable[[Tx], T]) -> T:
        return await self.db.read(work, timeout=call.remaining(self.settings.timeout))

    async def _commit(self, call: Call, work: Callable[[Tx], tuple[T, U]]) -> tuple[T, U]:
        try:
            return await call.commit_with(self.db, work)
        except UniqueViolation:
            # An equal fact was stored at the same moment: this time it is found. An equal request is refused again.
            return await call.commit_with(self.db, work)


def _in_future(expires_at: int | None, now: int) -> None:
    if expires_at is not None and expires_at <= now:
        raise InvalidParams(
            f"'expires_at' must be in the future; it is {iso(now)} now. Leave it out if the fact does not expire.",
            field="expires_at",
        )


def _known(fact: Fact | None) -> Fact:
    if fact is None:
        raise errors.UnknownFact
    return fact


def _state(fact: Fact, now: int) -> str:
    if fact.replaced_by is not None:
        return "replaced"
    if fact.forgotten_at is not None:
        return "forgotten"
    return "expired" if fact.is_expired(now) else "current"


def _told(status: Status, kept: Fact, given: Fact, old: Fact | None, similar: Sequence[Fact]) -> list[str]:
    """What the caller should know, a sentence each."""
    if status == "replaced" and old is not None:
        told = [f"Remembered. It replaces: {old.text[:SHOWN]}"]
    else:
        told = [_TOLD[status]]
    if kept is not given and kept.expires_at != given.expires_at and kept.expires_at is not None:
        change = Op("update_fact", id=kept.id, expires_at=model.NEVER)
        told.append(Hint(f"It expires at {iso(kept.expires_at)}; ", change, " keeps it."))
    if similar:
        again = Arg("replaces", similar[0].id)
        told.append(Hint("Similar facts are there already. If this supersedes one, call again with ", again, "."))
    return told


def _refused(message: str, field: str) -> InvalidParams:
    return InvalidParams(message, field=field)


def _from_line(line: model.FactLine, call: Call, now: int) -> Fact:
    created = line.created_at or now
    updated = line.updated_at or created
    return Fact(
        **line.values(
            id=line.id or str(uuid.uuid4()),
            about=line.about or None,
            source=line.source or None,
            said_by=line.said_by or call.principal.sub,
            said_at=line.said_at or updated,
            created_at=created,
            updated_at=updated,
        )
    )
