"""Export and import of records as JSON lines, with what belongs to them: earlier revisions, verdicts and records that
wait."""

import uuid
from collections.abc import Iterable
from typing import Any

from kho.experiences import model, review
from kho.experiences.contract import EXPERIENCES, SOME_RECORD
from kho.experiences.errors import Invalid
from kho.experiences.review import SUBMISSIONS, Submission
from kho.experiences.settings import ExperienceSettings
from kho.experiences.store import EARLIER, VERDICTS, Earlier, Experience, Store, Verdict, prepared
from kho.kernel import paging, transfer
from kho.kernel.call import Call
from kho.kernel.errors import InvalidParams
from kho.kernel.ports import Database, Tx
from kho.kernel.transfer import Part, Place
from kho.lib.clock import Clock
from kho.lib.dataclass import dataclass
from kho.lib.sql import NOTHING

KINDS = {
    "": model.ExperienceLine,
    "revision": model.EarlierLine,
    "feedback": model.VerdictLine,
    "submission": model.SubmissionLine,
}
TIMEOUT = 60.0


@dataclass(slots=True, kw_only=True)
class ExperienceTransfer:
    db: Database
    store: Store
    clock: Clock
    settings: ExperienceSettings

    @EXPERIENCES.read("export_experiences", tool=False, example={"limit": 100})
    async def export(self, params: model.ExportExperiences, call: Call) -> model.Exported:
        """All records, a page at a time, in the form that import takes."""
        try:
            if params.everything:
                call.need("admin")
                page = await self.db.read(
                    lambda tx: transfer.page(tx, call.tenant, self._parts(), params.cursor or None, params.limit),
                    timeout=call.remaining(TIMEOUT),
                )
                return model.Exported(experiences=[*page.lines], next_cursor=page.next_cursor)
            [after] = paging.place(params.cursor or None, str) or ("",)
        except InvalidParams as problem:
            raise Invalid(problem.message) from None

        def work(tx: Tx) -> list[Experience]:
            return self.store.page(tx, call.tenant, after, params.limit + 1, params.include_deleted)

        rows = await self.db.read(work, timeout=call.remaining(TIMEOUT))
        page, more = paging.cut(rows, params.limit, lambda last: [last.id])
        return model.Exported(experiences=list(map(model.Record.of, page)), next_cursor=more)

    def _parts(self) -> list[Part]:
        def records(tx: Tx, tenant: str, after: Place, limit: int) -> Iterable[tuple[Place, dict[str, Any]]]:
            rows = self.store.page(tx, tenant, str(after[0]) if after else "", limit, include_deleted=True)
            return (([row.id], model.ExperienceLine.of(row)) for row in rows)

        return [
            Part("", (str,), records),
            transfer.part("revision", EARLIER, {"id": str, "revision": int}, model.EarlierLine.of),
            transfer.part("feedback", VERDICTS, {"id": str, "sub": str}, model.VerdictLine.of),
            transfer.part("submission", SUBMISSIONS, {"id": str}, _submission),
        ]

    @EXPERIENCES.write("import_experiences", tool=False, example={"experiences": [SOME_RECORD]})
    async def import_(self, params: model.ImportExperiences, call: Call) -> model.ImportedExperiences:
        """Take records that export gave; those that are here already stay as they are."""
        review.check_reviewer(self.settings, call)
        lines = transfer.parsed(params.experiences, KINDS, _refused, called="Record")
        found = {one.id: one for one in (self._record(line, call) for line in lines if _is_record(line))}
        if not all(map(_is_record, lines)):
            call.need("admin")

        def work(tx: Tx) -> model.ImportedExperiences:
            new = [one for one in found.values() if self.store.get(tx, call.tenant, one.id) is None]
            for one in new:
                self.store.insert(tx, call.tenant, one, prepared(self.store.index, call.tenant, one))
            count = len(new) + sum(self._taken(tx, call.tenant, line) for line in lines)
            if count:
                call.audit(tx, "", at=self.clock(), imported=count)
            unchanged = len(lines) - count
            return model.ImportedExperiences(
                imported=count, unchanged=unchanged, message=f"{count} imported, {unchanged} existed already."
            )

        return await call.commit(self.db, work)

    def _taken(self, tx: Tx, tenant: str, line: transfer.Line) -> bool:
        """Store what belongs to a record. False if it is known, or the line is a record itself."""
        match line:
            case model.EarlierLine():
                return self.store.take_earlier(tx, tenant, Earlier(**line.values("kind")))
            case model.VerdictLine():
                return self.store.take_verdict(tx, tenant, Verdict(**line.values("kind")))
            case model.SubmissionLine() if self.store.get(tx, tenant, line.id) is None:  # not approved meanwhile
                record = {"id": line.id, **line.fields}
                waiting = Submission(line.id, record, line.submitted_by, line.submitted_at)
                return bool(SUBMISSIONS.insert(tx, waiting, conflict=NOTHING, tenant=tenant))
            case _:
                return False

    def _record(self, line: transfer.Line, call: Call) -> Experience:
        assert isinstance(line, model.ExperienceLine)
        created = self.clock() if line.created_at is None else line.created_at
        updated = created if line.updated_at is None else line.updated_at
        named = line.created_by if transfer.keeps_names(call) else None
        row = line.values(
            id=line.id or str(uuid.uuid4()),
            keywords=model.normalised(line.keywords or []),
            created_by=named or call.principal.sub,
            created_at=created,
            updated_at=updated,
            changed_at=updated if line.changed_at is None else line.changed_at,
        )
        return Experience(**row)


def _is_record(line: transfer.Line) -> bool:
    return isinstance(line, model.ExperienceLine)


def _submission(row: Submission) -> dict[str, Any]:
    fields = {name: value for name, value in row.record.items() if name != "id"}
    return model.SubmissionLine.of(row, fields=fields)


def _refused(message: str, field: str) -> Invalid:
    return Invalid(message)
