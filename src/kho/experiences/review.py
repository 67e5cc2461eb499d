"""Review: on a shared hub records may wait for an approval before others find them.

A waiting record is in a table of its own until it is approved, so no query, search, export or count can show it. Its
submitter and the reviewers see it.
"""

from typing import Any

from kho.experiences import errors, markdown, model
from kho.experiences.contract import EXPERIENCES, REVIEW
from kho.experiences.settings import ExperienceSettings
from kho.experiences.store import Experience, Store, prepared
from kho.kernel import paging
from kho.kernel.call import Call
from kho.kernel.command import Command
from kho.kernel.errors import InvalidParams, NotFound
from kho.kernel.ports import Database, Tx
from kho.lib.clock import Clock
from kho.lib.dataclass import dataclass
from kho.lib.sql import Table, delete, full_id, update

_ID = {"id": "550e8400-e29b-41d4-a716-446655440000"}


@dataclass(frozen=True, slots=True)
class Submission:
    id: str
    record: dict[str, Any]
    submitted_by: str
    submitted_at: int

    def shown(self) -> model.WaitingRecord:
        return model.WaitingRecord.model_validate(
            {**self.record, "submitted_by": self.submitted_by, "submitted_at": self.submitted_at}
        )


SUBMISSIONS = Table("experience_submissions", Submission, json=("record",))


def applies(settings: ExperienceSettings, call: Call) -> bool:
    """True if what the caller submits has to wait."""
    return settings.review and call.shared


def check_reviewer(settings: ExperienceSettings, call: Call) -> None:
    """Raise Forbidden if the caller would change, without a review, what others find."""
    if applies(settings, call):
        call.need(REVIEW)


def put(tx: Tx, tenant: str, experience: Experience) -> None:
    record = {"id": experience.id, **experience.fields()}
    waiting = Submission(experience.id, record, experience.created_by, experience.created_at)
    SUBMISSIONS.insert(tx, waiting, tenant=tenant)


def visible(tx: Tx, call: Call, id: str) -> Submission | None:
    """Return a waiting record if the caller may see it."""
    found = SUBMISSIONS.find(tx, tenant=call.tenant, id=id)
    if found is None or not (found.submitted_by == call.principal.sub or call.principal.allows(REVIEW)):
        return None
    return found


@dataclass(slots=True, kw_only=True)
class Review:
    db: Database
    store: Store
    clock: Clock
    settings: ExperienceSettings

    @EXPERIENCES.read(
        "list_waiting_experiences",
        scope=frozenset({EXPERIENCES.write_scope}) | REVIEW,
        cli=Command("experiences waiting"),
        example={"limit": 20},
        text=markdown.waiting,
    )
    async def waiting(self, params: model.ListWaiting, call: Call) -> model.WaitingPage:
        """List records that wait for an approval, oldest first.

        Use it to see what is to be approved or rejected: reviewers see all of them, everybody else their own.
        """
        try:
            place = paging.place(params.cursor or None, int, str) or (-1, "")
        except InvalidParams as problem:
            raise errors.Invalid(problem.message) from None

        def work(tx: Tx) -> list[Submission]:
            mine, values = "", [call.tenant, *place]
            if not call.principal.allows(REVIEW):
                mine, values = " AND submitted_by = $4", [*values, call.principal.sub]
            after = "tenant = $1 AND (submitted_at > $2 OR (submitted_at = $2 AND id > $3))"
            order = f"ORDER BY submitted_at, id LIMIT ${len(values) + 1}"
            return SUBMISSIONS.all(tx, f"{after}{mine} {order}", *values, params.limit + 1)

        rows = await self.db.read(work, timeout=call.remaining(self.settings.query_timeout))
        page, more = paging.cut(rows, params.limit, lambda last: [last.submitted_at, last.id])
        return model.WaitingPage(experiences=[one.shown() for one in page], next_cursor=more)

    @EXPERIENCES.write("approve_experience", scope=REVIEW, cli=Command("experiences approve", ("id",)), example=_ID)
    async def approve(self, params: model.ExperienceById, call: Call) -> model.Changed:
        """Publish a record that waits.

        Use it when a waiting record is right and free of secrets: from now on everybody of the tenant finds it.
        """
        now = self.clock()

        def work(tx: Tx) -> model.Changed:
            found = _taken(tx, call, params.id)
            fields = {name: found.record[name] for name in model.FIELDS}
            experience = Experience(
                id=found.id,
                **fields,
                created_by=found.submitted_by,
                created_at=found.submitted_at,
                updated_at=now,
                changed_at=now,
            )
            self.store.insert(tx, call.tenant, experience, prepared(self.store.index, call.tenant, experience))
            call.audit(tx, found.id, at=now, submitted_by=found.submitted_by)
            return model.Changed.of(experience, message="Approved. Everybody finds it now.")

        return await call.commit(self.db, work)

    @EXPERIENCES.destroy(
        "reject_experience",
        scope=REVIEW,
        cli=Command("experiences reject", ("id",)),
        example={**_ID, "reason": "known already"},
    )
    async def reject(self, params: model.DeleteExperience, call: Call) -> model.Changed:
        """Remove a record that waits.

        Use it when a waiting record is wrong or known already. It was never published, and cannot be restored.
        """
        now = self.clock()

        def work(tx: Tx) -> model.Changed:
            found = _taken(tx, call, params.id)
            call.audit(tx, found.id, at=now, reason=params.reason, submitted_by=found.submitted_by)
            return model.Changed(id=found.id, revision=1, message="Rejected and removed.")

        return await call.commit(self.db, work)


def _taken(tx: Tx, call: Call, id: str) -> Submission:
    """Remove a waiting record and return it. Of two reviewers at once, one finds it gone."""
    id = full_id(tx, SUBMISSIONS.name, call.tenant, id)
    # A no-op UPDATE takes the row lock on both databases.
    update(tx, SUBMISSIONS.name, {"id": id}, tenant=call.tenant, id=id)
    found = SUBMISSIONS.find(tx, tenant=call.tenant, id=id)
    if found is None:
        raise NotFound("There is no waiting record with that id.")
    delete(tx, SUBMISSIONS.name, tenant=call.tenant, id=id)
    return found
