"""What goes in and out of a purge."""

from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from kho.administration.model import TENANT
from kho.kernel.params import ForeignId, Moment, Params, Reason, Result

ELSEWHERE = (
    "Not reached: backups and exports that were made before (a backup that is restored is purged again), folders that "
    "documents were written to, and what other programs have read."
)


class PurgeStore(Params):
    tenant: Annotated[
        str | None,
        StringConstraints(pattern=TENANT),
        Field(description="Of this tenant; everything of it if nothing else is given. The caller's own if absent."),
    ] = None
    subject: Annotated[
        ForeignId | None,
        Field(description="What belongs to this person: a user, a speaker, a caller, or whom a fact is about."),
    ] = None
    before: Annotated[
        Moment | None, Field(description="What is from before this time, of the kinds that age, such as conversations.")
    ] = None
    reason: Reason = ""
    dry_run: Annotated[bool, Field(description="Only say what would leave.")] = False
    wipe: Annotated[
        bool, Field(description="Rewrite the database afterwards, so that no trace is left in its unused parts.")
    ] = True
    confirm: Annotated[bool, Field(description="Do it. Without it the answer says what would leave.")] = False

    @model_validator(mode="after")
    def _which(self) -> Self:
        if self.tenant is None and self.subject is None and self.before is None:
            raise ValueError("name a tenant, a subject or a time: nothing was purged")
        if self.subject is not None and self.subject.casefold() in self.reason.casefold():
            raise ValueError("the reason names the person: it would be kept, so leave the name out")
        return self


class Taken(Result):
    slice: str
    table: str = Field(description="With '(names)' if rows stay and lose a name.")
    rows: int


class PurgedStore(Result):
    id: str | None = Field(default=None, description="Of the purge in the record; absent if there is nothing to take.")
    tenant: str
    spellings: list[str] | None = Field(default=None, description="How the person's name is spelt, of a dry run only.")
    takes: list[Taken] = Field(description="What there was to take when it began.")
    rows: int
    finished: bool = Field(description="False after a dry run, or if the hub stopped: it goes on when one starts.")
    wiped: bool = False
    problem: str | None = Field(default=None, description="Why the database was not rewritten, although requested.")
    left: str | None = Field(default=None, description="Where traces may remain.")
