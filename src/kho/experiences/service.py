"""Operations on experience records, and their rules."""

import uuid
from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import field, replace

from cachetools import TTLCache

from kho.experiences import errors, markdown, model, review
from kho.experiences.contract import EXPERIENCES, SOME_RECORD
from kho.experiences.errors import Invalid, InvalidKeywords
from kho.experiences.ranking import Candidate, ranked
from kho.experiences.settings import ExperienceSettings
from kho.experiences.store import SPACE, Experience, Store, gist, prepared
from kho.kernel.background import Background
from kho.kernel.call import Call
from kho.kernel.command import Command
from kho.kernel.errors import Conflict, DatabaseError, NotFound
from kho.kernel.ports import Database, SearchFilter, Tx
from kho.lib.clock import Clock
from kho.lib.dataclass import dataclass
from kho.lib.sql import full_id
from kho.lib.tenancy import for_all_tenants
from kho.search.indexing.index import Prepared
from kho.search.indexing.minhash import likeness
from kho.search.query.searcher import Searcher

MAX_RANKINGS, RANKING_TTL = 256, 120.0
"""Size of the cache of ranked lists, and seconds until an entry expires and the next page is ranked again."""
COUNT_INTERVAL = 0.5
"""Seconds between writes of usage counts; a crash loses at most the counts of this interval."""
COUNT_RETRIES = 5
_ID = {"id": "550e8400-e29b-41d4-a716-446655440000"}


def _rankings() -> TTLCache[Hashable, list[Candidate]]:
    return TTLCache(MAX_RANKINGS, RANKING_TTL)


@dataclass(frozen=True, slots=True)
class Limits:
    max_ranked: int = 1_200
    """Maximum number of matches that are ranked; no page reaches beyond it."""
    duplicate: float = 0.8
    """Word overlap (0..1) from which the reply to a submission names a record as similar."""


@dataclass(slots=True)
class UsageCounter:
    """Counts how often records are returned: in batches, after the answer was sent, each return once."""

    db: Database
    store: Store
    background: Background
    clock: Clock
    waiting: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    flushing: bool = False

    def add(self, tenant: str, ids: Iterable[str]) -> None:
        self.waiting.update((tenant, id) for id in ids)
        if self.waiting and not self.flushing:
            self.flushing = True
            self.background.add(for_all_tenants(self._flush))

    async def _flush(self) -> None:
        failures = 0
        try:
            while self.waiting and failures < COUNT_RETRIES:
                await self.background.pause(COUNT_INTERVAL)
                taken, self.waiting = self.waiting, Counter()
                try:
                    uses = [(tenant, id, times) for (tenant, id), times in taken.items()]
                    await self.db.write(lambda tx, uses=uses: self.store.count_uses(tx, uses, self.clock()))
                except DatabaseError:
                    failures += 1
                    self.waiting.update(taken)
        finally:
            self.flushing = False


@dataclass(slots=True, kw_only=True)
class ExperienceService:
    db: Database
    store: Store
    searcher: Searcher
    usage: UsageCounter
    clock: Clock
    settings: ExperienceSettings
    limits: Limits = Limits()
    rankings: TTLCache[Hashable, list[Candidate]] = field(default_factory=_rankings)
    """Cache of ranked lists for paging: the next page is cut from the list of the first page, although counts and ages
    have changed since. On a miss (another process ranked it, or it has expired) the list is ranked again."""

    @EXPERIENCES.read(
        "query_experiences",
        title="Find solved problems",
        toolset="default",
        explained=("ids",),
        cli=Command("experiences query", positional=("keywords",), sentence=True, names={"keywords": "words"}),
        example={"keywords": "React useState hook not updating", "limit": 10},
        text=markdown.found,
        invalid=errors.invalid_query,
    )
    async def query(self, params: model.QueryExperiences, call: Call) -> model.ExperiencePage:
        """Find experience records by words, best first.

        Look here before solving a problem: finds problems that were solved before, by error message, keywords or a
        sentence in any language.
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
        return model.ExperiencePage(
            experiences=[model.ExperienceHit.of(e, relevance_score=round(relevance[e.id], 4)) for e in shown],
            total=len(listed),
            limit=params.limit,
            offset=params.offset,
        )

    @EXPERIENCES.write(
        "submit_experience",
        title="Record a solved problem",
        toolset="default",
        explained=("sanitize",),
        cli=Command("experiences submit"),
        example=SOME_RECORD,
        invalid=errors.invalid_record,
    )
    async def submit(self, params: model.SubmitExperience, call: Call) -> model.Submitted:
        """Record a solved problem; it can be found at once.

        After solving a problem that others may meet, record it: what happened, with the exact error message, why, and
        what solved it. Mask secrets and personal data: text that holds them is refused.
        """
        fields = {name: getattr(params, name) for name in model.FIELDS}
        warnings = _sentences(call)
        fields["keywords"] = model.normalised(fields["keywords"] or [])
        now = self.clock()
        experience = Experience(
            id=str(uuid.uuid4()),
            **fields,
            created_by=call.principal.sub,
            created_at=now,
            updated_at=now,
            changed_at=now,
        )
        entry = prepared(self.store.index, call.tenant, experience)

        def work(tx: Tx) -> model.Submitted:
            close = self._similar(tx, experience, entry)
            if review.applies(self.settings, call):
                review.put(tx, call.tenant, experience)
                call.audit(tx, experience.id, at=now, waiting=True)
                said = "It waits for an approval; until then only you and reviewers see it"
                return model.Submitted(id=experience.id, status="waiting", message=". ".join([said, *close, *warnings]))
            self.store.insert(tx, call.tenant, experience, entry)
            call.audit(tx, experience.id, at=now)
            message = ". ".join(["Experience record created and published successfully", *close, *warnings])
            return model.Submitted(id=experience.id, message=message)

        return await call.commit(self.db, work)

    @EXPERIENCES.read("get_experience", title="Read a record", cli=Command("experiences get", ("id",)), example=_ID)
    async def get(self, params: model.GetExperience, call: Call) -> model.Record:
        """Read one record, or an earlier revision of it.

        Use it to read a record in full by its id, or an earlier revision of it.
        """

        def work(tx: Tx) -> Experience | review.Submission:
            found = self.store.get(tx, call.tenant, full_id(tx, "experiences", call.tenant, params.id))
            if found is None and (waiting := review.visible(tx, call, params.id)) is not None:
                return waiting
            experience = _known(found)
            if params.revision is None or params.revision == experience.revision:
                return experience
            earlier = self.store.revision(tx, call.tenant, experience.id, params.revision)
            if earlier is None:
                raise NotFound(f"There is no revision {params.revision} of this record.", latest=experience.revision)
            return replace(experience, **earlier, revision=params.revision)

        found = await self.db.read(work, timeout=call.remaining(self.settings.query_timeout))
        return found.shown() if isinstance(found, review.Submission) else model.Record.of(found)

    @EXPERIENCES.write(
        "update_experience",
        cli=Command("experiences update", ("id",)),
        example={**_ID, "expected_revision": 1, "root_cause": "setState is batched in React 18"},
        invalid=errors.invalid_record,
    )
    async def update(self, params: model.UpdateExperience, call: Call) -> model.Changed:
        """Change fields of a record that you have read.

        Use it when a record is incomplete or out of date: changes the fields that you send. Read it first, and send its
        revision.
        """
        changes = {name: getattr(params, name) for name in model.FIELDS if name in params.model_fields_set}
        changes = {name: value for name, value in changes.items() if value is not None or name in model.CLEARABLE}
        if not changes:
            raise Invalid("Name at least one field to change.")
        review.check_reviewer(self.settings, call)
        warnings = _sentences(call)
        if "keywords" in changes:
            changes["keywords"] = model.normalised(changes["keywords"] or [])
        now = self.clock()

        def work(tx: Tx) -> model.Changed:
            old = _known(self._locked(tx, call, params.id))
            if old.revision != params.expected_revision:
                raise Conflict(
                    "The record changed meanwhile. Read it again and apply your change to what is there now.",
                    expected_revision=params.expected_revision,
                    actual_revision=old.revision,
                )
            new = self.store.edit(tx, call.tenant, old, changes, call.principal.sub, now)
            call.audit(tx, new.id, at=now, before=old.revision, after=new.revision)
            return model.Changed.of(new, message=". ".join(["Updated", *warnings]))

        return await call.commit(self.db, work)

    @EXPERIENCES.write("rate_experience", cli=Command("experiences rate", ("id",)), example={**_ID, "helpful": True})
    async def rate(self, params: model.RateExperience, call: Call) -> model.Rated:
        """Say whether a record helped; it affects the ranking.

        Call it after you tried a record's solution: say whether it helped. It affects the ranking.
        """
        now = self.clock()

        def work(tx: Tx) -> model.Rated:
            id = _known(self._locked(tx, call, params.id)).id
            self.store.rate(tx, call.tenant, id, call.principal.sub, params.helpful, params.note, now)
            call.audit(tx, id, at=now, helpful=params.helpful)
            rated = _known(self.store.get(tx, call.tenant, id))
            return model.Rated.of(rated, message="Thank you. It affects the ranking.")

        return await call.commit(self.db, work)

    def _locked(self, tx: Tx, call: Call, id: str) -> Experience | None:
        """The record with this id, or with the one id that begins so; nobody else changes it meanwhile."""
        return self.store.lock(tx, call.tenant, full_id(tx, "experiences", call.tenant, id))

    @EXPERIENCES.destroy(
        "delete_experience", cli=Command("experiences delete", ("id",)), example={**_ID, "reason": "superseded"}
    )
    async def delete(self, params: model.DeleteExperience, call: Call) -> model.Changed:
        """Hide a record from every query; it can be restored.

        Use it when a record is wrong: hides it from every query. restore_experience brings it back.
        """
        review.check_reviewer(self.settings, call)
        now = self.clock()

        def work(tx: Tx) -> model.Changed:
            experience = _known(self._locked(tx, call, params.id))
            self.store.set_deleted(tx, call.tenant, experience, now, now)
            call.audit(tx, experience.id, at=now, reason=params.reason)
            return model.Changed.of(experience, message="Deleted. It can be restored.")

        return await call.commit(self.db, work)

    @EXPERIENCES.write("restore_experience", cli=Command("experiences restore", ("id",)), example=_ID)
    async def restore(self, params: model.ExperienceById, call: Call) -> model.Changed:
        """Bring a deleted record back.

        Use it when a record was deleted by mistake.
        """
        review.check_reviewer(self.settings, call)
        now = self.clock()

        def work(tx: Tx) -> model.Changed:
            experience = self._locked(tx, call, params.id)
            if experience is None or experience.deleted_at is None:
                raise NotFound("There is no deleted record with that id.")
            self.store.set_deleted(tx, call.tenant, experience, None, now)
            call.audit(tx, experience.id, at=now)
            return model.Changed.of(experience, message="Restored.")

        return await call.commit(self.db, work)

    def _similar(self, tx: Tx, experience: Experience, entry: Prepared) -> list[str]:
        """Return a sentence that names up to 3 near-duplicates; empty if there are none."""
        words = gist(experience)
        close = [e for e in self.store.similar(tx, entry) if likeness(words, gist(e)) >= self.limits.duplicate]
        return [f"Similar records exist: {', '.join(f'{e.id} ({e.title})' for e in close[:3])}"] if close else []


def _sentences(call: Call) -> list[str]:
    """Return what the sanitizer has to say, for `message`, whose sentences are joined by full stops."""
    return [warning.rstrip(".") for warning in call.take_warnings()]


def _known(experience: Experience | None) -> Experience:
    if experience is None or experience.deleted_at is not None:
        raise NotFound("There is no record with that id.")
    return experience
