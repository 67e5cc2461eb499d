"""The rules of experience records."""

import uuid
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

from cachetools import TTLCache
from pydantic import ValidationError

from kho.experiences import gate, model
from kho.experiences.errors import Invalid, InvalidKeywords
from kho.experiences.rank import Candidate, ranked
from kho.experiences.store import FIELDS, SPACE, Experience, Store, gist, prepared
from kho.experiences.usage import Usage
from kho.kernel import paging
from kho.kernel.call import Call
from kho.kernel.errors import Conflict, InvalidParams, NotFound
from kho.kernel.ports import Database, Tx, Where
from kho.lib.clock import Clock, from_iso, iso
from kho.search.index import Prepared
from kho.search.near import likeness
from kho.search.query import Searcher

MAX_RANKINGS, RANKING_TTL = 256, 120.0
"""Ranked lists that are kept, and the seconds after which a reader who turns the page gets a fresh one."""


@dataclass(frozen=True, slots=True)
class Limits:
    query_timeout: float = 5.0
    """Seconds before a query is given up with TIMEOUT."""
    floor: float = 0.15
    """The least relevance that counts as a match."""
    longest_list: int = 1_200
    """Matches that are ranked; what lies beyond could be reached by no reader."""
    duplicate: float = 0.8
    """Share of common words from which the submit reply mentions a near-duplicate."""


class Service:
    def __init__(
        self, db: Database, store: Store, searcher: Searcher, usage: Usage, clock: Clock, limits: Limits
    ) -> None:
        self._db = db
        self._store = store
        self._searcher = searcher
        self._usage = usage
        self._clock = clock
        self._limits = limits
        self._rankings: TTLCache[Hashable, list[Candidate]] = TTLCache(MAX_RANKINGS, RANKING_TTL)
        """Lists that are being paged through: the next page is cut from the list of the first one, although counts and
        ages have moved on since. One that is not here (another process ranked it, or it was long ago) is made anew."""

    async def query(self, params: model.QueryExperiences, call: Call) -> model.Found:
        if params.ids is None and params.keywords is None:
            raise InvalidKeywords
        tenant, now, limits = call.tenant, self._clock(), self._limits
        page = slice(params.offset, params.offset + params.limit)
        asked = (tenant, call.principal.sub, params.keywords, params.sort)
        known = self._rankings.get(asked) if params.offset else None

        deadline = call.remaining(limits.query_timeout)
        scores: dict[str, float] = {}
        if params.ids is None and known is None:
            found = await self._searcher.ranking(
                Where(SPACE, tenant), params.keywords or "", depth=limits.longest_list, per_key=True, timeout=deadline
            )
            scores = {one.key: one.score for one in found.ranked if one.score >= limits.floor}

        def work(tx: Tx) -> tuple[list[Candidate], list[Experience]]:
            if params.ids is not None:
                records = self._store.get_many(tx, tenant, params.ids)
                return [Candidate(e.id, 1.0, e.query_count, e.created_at) for e in records], records[page]
            listed = known or ranked(self._store.candidates(tx, tenant, scores), params.sort, now)
            return listed, self._store.get_many(tx, tenant, [c.id for c in listed[page]])

        listed, shown = await self._db.read(work, timeout=deadline)
        if params.ids is None and len(listed) > params.limit:
            self._rankings[asked] = listed
        relevance = {candidate.id: candidate.relevance for candidate in listed}
        ids = [experience.id for experience in shown]

        async def count() -> None:
            self._usage.add(tenant, ids)

        call.after(count)
        return model.Found(
            experiences=[model.Hit(**record(e).model_dump(), relevance_score=round(relevance[e.id], 4)) for e in shown],
            total=len(listed),
            limit=params.limit,
            offset=params.offset,
        )

    async def submit(self, params: model.SubmitExperience, call: Call) -> model.Submitted:
        fields = {name: getattr(params, name) for name in FIELDS}
        warnings = await gate.passed(fields, shared=call.shared, offer=params.sanitize)
        fields["keywords"] = model.normalised(fields["keywords"] or [])
        now = self._clock()
        experience = Experience(
            id=str(uuid.uuid4()),
            **fields,
            query_count=0,
            helpful=0,
            unhelpful=0,
            revision=1,
            created_by=call.principal.sub,
            created_at=now,
            updated_at=now,
        )
        entry = prepared(call.tenant, experience)

        def work(tx: Tx) -> model.Submitted:
            close = self._similar(tx, experience, entry)
            self._store.insert(tx, call.tenant, experience, entry)
            message = ". ".join(["Experience record created and published successfully", *close, *warnings])
            return model.Submitted(id=experience.id, message=message)

        return await call.commit(self._db, work)

    async def get(self, params: model.GetExperience, call: Call) -> model.Record:
        def work(tx: Tx) -> Experience:
            experience = _known(self._store.get(tx, call.tenant, params.id))
            if params.revision is None or params.revision == experience.revision:
                return experience
            earlier = self._store.revision(tx, call.tenant, params.id, params.revision)
            if earlier is None:
                raise NotFound(f"There is no revision {params.revision} of this record.", latest=experience.revision)
            return replace(experience, **earlier, revision=params.revision)

        return record(await self._db.read(work, timeout=call.remaining(self._limits.query_timeout)))

    async def update(self, params: model.UpdateExperience, call: Call) -> model.Changed:
        changes = {name: getattr(params, name) for name in FIELDS if name in params.model_fields_set}
        changes = {name: value for name, value in changes.items() if value is not None or name in CLEARABLE}
        if not changes:
            raise Invalid("Name at least one field to change.")
        warnings = await gate.passed(changes, shared=call.shared)
        if "keywords" in changes:
            changes["keywords"] = model.normalised(changes["keywords"] or [])
        now = self._clock()

        def work(tx: Tx) -> model.Changed:
            old = _known(self._store.lock(tx, call.tenant, params.id))
            if old.revision != params.expected_revision:
                raise Conflict(
                    "The record changed meanwhile. Read it again and apply your change to what is there now.",
                    expected_revision=params.expected_revision,
                    actual_revision=old.revision,
                )
            new = self._store.edit(tx, call.tenant, old, changes, call.principal.sub, now)
            return model.Changed(id=new.id, revision=new.revision, message=". ".join(["Updated", *warnings]))

        return await call.commit(self._db, work)

    async def delete(self, params: model.DeleteExperience, call: Call) -> model.Changed:
        now = self._clock()

        def work(tx: Tx) -> model.Changed:
            experience = _known(self._store.lock(tx, call.tenant, params.id))
            self._store.set_deleted(tx, call.tenant, experience, now, now)
            return model.Changed(id=experience.id, revision=experience.revision, message="Deleted. It can be restored.")

        return await call.commit(self._db, work)

    async def restore(self, params: model.ById, call: Call) -> model.Changed:
        now = self._clock()

        def work(tx: Tx) -> model.Changed:
            experience = self._store.lock(tx, call.tenant, params.id)
            if experience is None or experience.deleted_at is None:
                raise NotFound("There is no deleted record with that id.")
            self._store.set_deleted(tx, call.tenant, experience, None, now)
            return model.Changed(id=experience.id, revision=experience.revision, message="Restored.")

        return await call.commit(self._db, work)

    async def rate(self, params: model.RateExperience, call: Call) -> model.Rated:
        if params.note is not None:
            await gate.passed({"note": params.note}, shared=call.shared)
        now = self._clock()

        def work(tx: Tx) -> model.Rated:
            _known(self._store.lock(tx, call.tenant, params.id))
            self._store.rate(tx, call.tenant, params.id, call.principal.sub, params.helpful, params.note, now)
            rated = _known(self._store.get(tx, call.tenant, params.id))
            return model.Rated(
                id=rated.id,
                helpful=rated.helpful,
                unhelpful=rated.unhelpful,
                message="Thank you. It counts in the rank.",
            )

        return await call.commit(self._db, work)

    async def export(self, params: model.ExportExperiences, call: Call) -> model.Exported:
        try:
            [after] = paging.place(params.cursor or None, str) or ("",)
        except InvalidParams as problem:
            raise Invalid(problem.message) from None

        def work(tx: Tx) -> list[Experience]:
            return self._store.page(tx, call.tenant, after, params.limit, params.include_deleted)

        page = await self._db.read(work, timeout=call.remaining(60.0))
        more = paging.encode([page[-1].id]) if len(page) == params.limit else None
        return model.Exported(experiences=[record(e) for e in page], next_cursor=more)

    async def import_(self, params: model.ImportExperiences, call: Call) -> model.Imported:
        """Takes what `export` gave. A record that is here already is left as it is, so importing twice is harmless."""
        experiences = [await self._from_export(number, line, call) for number, line in enumerate(params.experiences, 1)]

        def work(tx: Tx) -> model.Imported:
            new = [e for e in experiences if self._store.get(tx, call.tenant, e.id) is None]
            for experience in {e.id: e for e in new}.values():
                self._store.insert(tx, call.tenant, experience, prepared(call.tenant, experience))
            count = len({e.id for e in new})
            unchanged = len(experiences) - count
            return model.Imported(
                imported=count, unchanged=unchanged, message=f"{count} imported, {unchanged} were here already."
            )

        return await call.commit(self._db, work)

    async def _from_export(self, number: int, line: dict[str, Any], call: Call) -> Experience:
        try:
            written = model.SubmitExperience.model_validate({name: line.get(name) for name in FIELDS})
            kept = model.Kept.model_validate({k: v for k, v in line.items() if k not in FIELDS})
            created = from_iso(kept.created_at) if kept.created_at else self._clock()
            updated = from_iso(kept.updated_at) if kept.updated_at else created
            deleted = from_iso(kept.deleted_at) if kept.deleted_at else None
        except ValidationError as failure:
            problem = failure.errors(include_url=False, include_input=False)[0]
            raise Invalid(f"Record {number}: '{problem['loc'][0]}' {problem['msg']}.") from None
        except ValueError:
            raise Invalid(f"Record {number}: a time is not in ISO 8601 form.") from None
        fields = {name: getattr(written, name) for name in FIELDS}
        named = {f"experiences[{number - 1}].{name}": value for name, value in fields.items()}
        await gate.passed(named, shared=call.shared)
        fields["keywords"] = model.normalised(fields["keywords"] or [])
        return Experience(
            id=kept.id or str(uuid.uuid4()),
            **fields,
            query_count=kept.query_count,
            helpful=kept.helpful,
            unhelpful=kept.unhelpful,
            revision=kept.revision,
            created_by=call.principal.sub,
            created_at=created,
            updated_at=updated,
            deleted_at=deleted,
        )

    def _similar(self, tx: Tx, experience: Experience, entry: Prepared) -> list[str]:
        """A sentence that names records that say nearly the same, if there are any."""
        words = gist(experience)
        close = [e for e in self._store.similar(tx, entry) if likeness(words, gist(e)) >= self._limits.duplicate]
        return [f"Similar records exist: {', '.join(f'{e.id} ({e.title})' for e in close[:3])}"] if close else []


CLEARABLE = ("root_cause", "context", "keywords")


def record(e: Experience) -> model.Record:
    return model.Record(
        **e.fields(),
        id=e.id,
        query_count=e.query_count,
        created_at=iso(e.created_at),
        updated_at=iso(e.updated_at),
        revision=e.revision,
        helpful=e.helpful,
        unhelpful=e.unhelpful,
        deleted_at=None if e.deleted_at is None else iso(e.deleted_at),
    )


def _known(experience: Experience | None) -> Experience:
    if experience is None or experience.deleted_at is not None:
        raise NotFound("There is no record with that id.")
    return experience
