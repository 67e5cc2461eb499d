"""The rules of experience records."""

import uuid
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any

from cachetools import TTLCache
from pydantic import ValidationError

from kho.experiences import errors, markdown, model
from kho.experiences.errors import Invalid, InvalidKeywords, NotSanitized
from kho.experiences.ranking import Candidate, ranked
from kho.experiences.settings import ExperienceSettings
from kho.experiences.store import FIELDS, SPACE, Experience, Store, gist, prepared
from kho.experiences.usage_counter import Usage
from kho.kernel import paging
from kho.kernel.call import Call
from kho.kernel.command import Command
from kho.kernel.contract import Contract
from kho.kernel.errors import Conflict, InvalidParams, NotFound
from kho.kernel.ports import Database, SearchFilter, Tx
from kho.lib.clock import Clock, from_iso
from kho.sanitizer import policy
from kho.search.indexing.index import Prepared
from kho.search.indexing.minhash import likeness
from kho.search.query.searcher import Searcher

MAX_RANKINGS, RANKING_TTL = 256, 120.0
"""Ranked lists that are kept, and the seconds after which a reader who turns the page gets a fresh one."""
EXPERIENCES = Contract(
    "experiences",
    read_scope="exp:read",
    write_scope="exp:write",
    shape=errors.success,
    shape_error=errors.failure,
    envelope_schema=errors.envelope_schema,
    invalid=errors.invalid,
)
_ID = {"id": "550e8400-e29b-41d4-a716-446655440000"}
_RECORD = {
    "title": "React useState not updating state",
    "problem_description": "State variable not updating after setState call in React 18",
    "solution": "Use the functional form: setState(prev => prev + 1)",
    "keywords": ["react", "hooks", "state"],
}


def _rankings() -> TTLCache[Hashable, list[Candidate]]:
    return TTLCache(MAX_RANKINGS, RANKING_TTL)


@dataclass(frozen=True, slots=True)
class Limits:
    max_ranked: int = 1_200
    """Matches that are ranked; what lies beyond could be reached by no reader."""
    duplicate: float = 0.8
    """Share of common words from which the submit reply mentions a near-duplicate."""


@dataclass(slots=True, kw_only=True)
class Service:
    db: Database
    store: Store
    searcher: Searcher
    usage: Usage
    clock: Clock
    settings: ExperienceSettings
    limits: Limits = Limits()
    rankings: TTLCache[Hashable, list[Candidate]] = field(default_factory=_rankings)
    """Lists that are being paged through: the next page is cut from the list of the first one, although counts and
    ages have moved on since. One that is not here (another process ranked it, or it was long ago) is made again."""

    @EXPERIENCES.read(
        "query_experiences",
        cli=Command("experiences query", positional=("keywords",), sentence=True),
        example={"keywords": "React useState hook not updating", "limit": 10},
        text=markdown.found,
        invalid=errors.invalid_query,
    )
    async def query(self, params: model.QueryExperiences, call: Call) -> model.Found:
        """Find experience records by words, best first.

        Look here before solving a problem: finds records of problems that were solved before, by keywords, an error
        message or a sentence in any language. Ranked by relevance, use and freshness.
        """
        if params.ids is None and params.keywords is None:
            raise InvalidKeywords
        tenant, now = call.tenant, self.clock()
        page = slice(params.offset, params.offset + params.limit)
        asked = (tenant, call.principal.sub, params.keywords, params.sort)
        known = self.rankings.get(asked) if params.offset else None

        deadline = call.remaining(self.settings.query_timeout)
        scores: dict[str, float] = {}
        if params.ids is None and known is None:
            found = await self.searcher.ranking(
                SearchFilter(SPACE, tenant),
                params.keywords or "",
                depth=self.limits.max_ranked,
                per_key=True,
                timeout=deadline,
            )
            scores = {one.key: one.score for one in found.ranked if one.score >= self.settings.floor}

        def work(tx: Tx) -> tuple[list[Candidate], list[Experience]]:
            if params.ids is not None:
                records = self.store.get_many(tx, tenant, params.ids)
                return [Candidate(e.id, 1.0, e.query_count, e.created_at) for e in records], records[page]
            listed = known or ranked(self.store.candidates(tx, tenant, scores), params.sort, now)
            return listed, self.store.get_many(tx, tenant, [c.id for c in listed[page]])

        listed, shown = await self.db.read(work, timeout=deadline)
        if params.ids is None and len(listed) > params.limit:
            self.rankings[asked] = listed
        relevance = {candidate.id: candidate.relevance for candidate in listed}
        ids = [experience.id for experience in shown]

        async def count() -> None:
            self.usage.add(tenant, ids)

        call.after(count)
        return model.Found(
            experiences=[_hit(e, relevance[e.id]) for e in shown],
            total=len(listed),
            limit=params.limit,
            offset=params.offset,
        )

    @EXPERIENCES.write(
        "submit_experience", cli=Command("experiences submit"), example=_RECORD, invalid=errors.invalid_record
    )
    async def submit(self, params: model.SubmitExperience, call: Call) -> model.Submitted:
        """Record a solved problem; it can be found at once.

        Record a problem that was solved: what happened, why, and what solved it. Write in your user's language. Mask
        secrets and personal data first: text that holds them is refused.
        """
        fields = {name: getattr(params, name) for name in FIELDS}
        warnings = await _sanitized(fields, shared=call.shared, offer=params.sanitize)
        fields["keywords"] = model.normalised(fields["keywords"] or [])
        now = self.clock()
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
            self.store.insert(tx, call.tenant, experience, entry)
            call.audit(tx, experience.id, at=now)
            message = ". ".join(["Experience record created and published successfully", *close, *warnings])
            return model.Submitted(id=experience.id, message=message)

        return await call.commit(self.db, work)

    @EXPERIENCES.read("get_experience", cli=Command("experiences get", ("id",)), example=_ID)
    async def get(self, params: model.GetExperience, call: Call) -> model.Record:
        """Read one record, or an earlier revision of it."""

        def work(tx: Tx) -> Experience:
            experience = _known(self.store.get(tx, call.tenant, params.id))
            if params.revision is None or params.revision == experience.revision:
                return experience
            earlier = self.store.revision(tx, call.tenant, params.id, params.revision)
            if earlier is None:
                raise NotFound(f"There is no revision {params.revision} of this record.", latest=experience.revision)
            return replace(experience, **earlier, revision=params.revision)

        return model.Record.model_validate(
            await self.db.read(work, timeout=call.remaining(self.settings.query_timeout))
        )

    @EXPERIENCES.write(
        "update_experience",
        cli=Command("experiences update", ("id",)),
        example={**_ID, "expected_revision": 1, "root_cause": "setState is batched in React 18"},
        invalid=errors.invalid_record,
    )
    async def update(self, params: model.UpdateExperience, call: Call) -> model.Changed:
        """Change fields of a record that you have read."""
        changes = {name: getattr(params, name) for name in FIELDS if name in params.model_fields_set}
        changes = {name: value for name, value in changes.items() if value is not None or name in CLEARABLE}
        if not changes:
            raise Invalid("Name at least one field to change.")
        warnings = await _sanitized(changes, shared=call.shared)
        if "keywords" in changes:
            changes["keywords"] = model.normalised(changes["keywords"] or [])
        now = self.clock()

        def work(tx: Tx) -> model.Changed:
            old = _known(self.store.lock(tx, call.tenant, params.id))
            if old.revision != params.expected_revision:
                raise Conflict(
                    "The record changed meanwhile. Read it again and apply your change to what is there now.",
                    expected_revision=params.expected_revision,
                    actual_revision=old.revision,
                )
            new = self.store.edit(tx, call.tenant, old, changes, call.principal.sub, now)
            call.audit(tx, new.id, at=now, before=old.revision, after=new.revision)
            return model.Changed(id=new.id, revision=new.revision, message=". ".join(["Updated", *warnings]))

        return await call.commit(self.db, work)

    @EXPERIENCES.write("rate_experience", cli=Command("experiences rate", ("id",)), example={**_ID, "helpful": True})
    async def rate(self, params: model.RateExperience, call: Call) -> model.Rated:
        """Say whether a record helped; it counts in the rank."""
        if params.note is not None:
            await _sanitized({"note": params.note}, shared=call.shared)
        now = self.clock()

        def work(tx: Tx) -> model.Rated:
            _known(self.store.lock(tx, call.tenant, params.id))
            self.store.rate(tx, call.tenant, params.id, call.principal.sub, params.helpful, params.note, now)
            call.audit(tx, params.id, at=now, helpful=params.helpful)
            rated = _known(self.store.get(tx, call.tenant, params.id))
            return model.Rated(
                id=rated.id,
                helpful=rated.helpful,
                unhelpful=rated.unhelpful,
                message="Thank you. It counts in the rank.",
            )

        return await call.commit(self.db, work)

    @EXPERIENCES.destroy(
        "delete_experience", cli=Command("experiences delete", ("id",)), example={**_ID, "reason": "superseded"}
    )
    async def delete(self, params: model.DeleteExperience, call: Call) -> model.Changed:
        """Hide a record from every query; it can be restored."""
        now = self.clock()

        def work(tx: Tx) -> model.Changed:
            experience = _known(self.store.lock(tx, call.tenant, params.id))
            self.store.set_deleted(tx, call.tenant, experience, now, now)
            call.audit(tx, experience.id, at=now, reason=params.reason)
            return model.Changed(id=experience.id, revision=experience.revision, message="Deleted. It can be restored.")

        return await call.commit(self.db, work)

    @EXPERIENCES.write("restore_experience", cli=Command("experiences restore", ("id",)), example=_ID)
    async def restore(self, params: model.ById, call: Call) -> model.Changed:
        """Bring a deleted record back."""
        now = self.clock()

        def work(tx: Tx) -> model.Changed:
            experience = self.store.lock(tx, call.tenant, params.id)
            if experience is None or experience.deleted_at is None:
                raise NotFound("There is no deleted record with that id.")
            self.store.set_deleted(tx, call.tenant, experience, None, now)
            call.audit(tx, experience.id, at=now)
            return model.Changed(id=experience.id, revision=experience.revision, message="Restored.")

        return await call.commit(self.db, work)

    @EXPERIENCES.read("export_experiences", tool=False, example={"limit": 100})
    async def export(self, params: model.ExportExperiences, call: Call) -> model.Exported:
        """All records, a page at a time, in the form that import takes."""
        try:
            [after] = paging.place(params.cursor or None, str) or ("",)
        except InvalidParams as problem:
            raise Invalid(problem.message) from None

        def work(tx: Tx) -> list[Experience]:
            return self.store.page(tx, call.tenant, after, params.limit + 1, params.include_deleted)

        rows = await self.db.read(work, timeout=call.remaining(60.0))
        page, more = paging.cut(rows, params.limit, lambda last: [last.id])
        return model.Exported(experiences=[model.Record.model_validate(e) for e in page], next_cursor=more)

    @EXPERIENCES.write("import_experiences", tool=False, example={"experiences": [_RECORD]})
    async def import_(self, params: model.ImportExperiences, call: Call) -> model.Imported:
        """Take records that export gave; those that are here already stay as they are."""
        experiences = [await self._from_export(number, line, call) for number, line in enumerate(params.experiences, 1)]

        def work(tx: Tx) -> model.Imported:
            new = [e for e in experiences if self.store.get(tx, call.tenant, e.id) is None]
            for experience in {e.id: e for e in new}.values():
                self.store.insert(tx, call.tenant, experience, prepared(call.tenant, experience))
            count = len({e.id for e in new})
            if count:
                call.audit(tx, "", at=self.clock(), imported=count)
            unchanged = len(experiences) - count
            return model.Imported(
                imported=count, unchanged=unchanged, message=f"{count} imported, {unchanged} were here already."
            )

        return await call.commit(self.db, work)

    async def _from_export(self, number: int, line: dict[str, Any], call: Call) -> Experience:
        try:
            written = model.SubmitExperience.model_validate({name: line.get(name) for name in FIELDS})
            kept = model.Kept.model_validate({k: v for k, v in line.items() if k not in FIELDS})
            created = from_iso(kept.created_at) if kept.created_at else self.clock()
            updated = from_iso(kept.updated_at) if kept.updated_at else created
            deleted = from_iso(kept.deleted_at) if kept.deleted_at else None
        except ValidationError as failure:
            problem = failure.errors(include_url=False, include_input=False)[0]
            raise Invalid(f"Record {number}: '{problem['loc'][0]}' {problem['msg']}.") from None
        except ValueError:
            raise Invalid(f"Record {number}: a time is not in ISO 8601 form.") from None
        fields = {name: getattr(written, name) for name in FIELDS}
        named = {f"experiences[{number - 1}].{name}": value for name, value in fields.items()}
        await _sanitized(named, shared=call.shared)
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
        close = [e for e in self.store.similar(tx, entry) if likeness(words, gist(e)) >= self.limits.duplicate]
        return [f"Similar records exist: {', '.join(f'{e.id} ({e.title})' for e in close[:3])}"] if close else []


async def _sanitized(fields: dict[str, Any], *, shared: bool, offer: bool = False) -> list[str]:
    """The warnings for the caller. Raises NotSanitized for what must not be stored; with `offer`, it carries the masked
    text for the caller to confirm."""
    review = await policy.review(fields, shared=shared, offer=offer)
    if review.masked:
        raise NotSanitized(
            "Nothing was stored. 'details.sanitized' holds the masked text: check it and submit it again.",
            review.problems,
            sanitized=review.masked,
        )
    if review.problems:
        raise NotSanitized(problems=review.problems)
    return review.warnings


CLEARABLE = ("root_cause", "context", "keywords")


def _hit(experience: Experience, relevance: float) -> model.Hit:
    """The record with its relevance, as a query shows it."""
    record = model.Record.model_validate(experience)
    return model.Hit(**record.model_dump(), relevance_score=round(relevance, 4))


def _known(experience: Experience | None) -> Experience:
    if experience is None or experience.deleted_at is not None:
        raise NotFound("There is no record with that id.")
    return experience
