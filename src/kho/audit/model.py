"""Params and results of the audit trail. A part of those of `audit_log` is in `kernel/audit.py`, because documents show
their part of the trail, too."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from kho.audit.verification import MAX_REMOVALS, Kind, Trail
from kho.kernel.audit import AuditFilters, Outcome
from kho.kernel.params import JSON_LIST, Cursor, Id, Moment, Params, Reason, Result, Time, Whole, of_kind
from kho.kernel.validation import in_words
from kho.lib.dataclass import dataclass

HEAD = in_words(
    r"^.{1,256}:[0-9]{1,18}:[0-9a-f]{64}$", "must be a head as an earlier answer gave it: tenant:place:digest"
)


class AuditLog(AuditFilters):
    slice: Annotated[
        str | None, Field(max_length=64, description="Only of this part of Kho, e.g. documents, memory, devices.")
    ] = None
    subject: Annotated[
        str | None, Field(max_length=512, description="Only about this: the id of a document, conversation, device …")
    ] = None
    document_id: Annotated[
        Annotated[Id, of_kind("doc")] | None,
        Field(description="Only about this document: the same as subject, with slice 'documents'."),
    ] = None
    outcome: Annotated[
        Outcome | None,
        Field(description="'done': it changed something; 'refused': the credential or a limit did not allow it."),
    ] = None


MAX_BREAKS = 20
"""Breaks that an answer names for each trail."""
Tenant = Annotated[str, Field(min_length=1, max_length=256)]


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a tenant's chain, as text that people keep elsewhere: `tenant:place:digest`."""

    tenant: str
    place: int
    digest: bytes

    @classmethod
    def read(cls, text: str) -> Self:
        tenant, place, digest = text.rsplit(":", 2)
        return cls(tenant, int(place), bytes.fromhex(digest))

    @property
    def text(self) -> str:
        return f"{self.tenant}:{self.place}:{self.digest.hex()}"

    def compare(self, trail: Trail) -> None:
        """Add a break to the trail if its chain does not go through this head."""
        if self.place > trail.head.place:
            said = f"The chain ends at place {trail.head.place}: the rows up to the expected head were cut off."
            trail.add("missing", said, self.place)
        elif self.place and self.place < trail.beginning.place:
            said = "The expected head has left with old rows, so it says nothing any more: keep a newer one."
            trail.add("missing", said, self.place)
        elif self.place and trail.places.get(self.place) != self.digest:
            trail.add("unlinked", "The chain does not go through the expected head: it was remade.", self.place)


class VerifyAudit(Params):
    tenant: Annotated[
        Tenant | None,
        Field(description="Only this tenant's trail. Without it every trail that the caller may verify."),
    ] = None
    expect_heads: Annotated[
        list[Annotated[str, StringConstraints(pattern=HEAD)]],
        JSON_LIST,
        Field(
            max_length=1_000,
            description="Heads from earlier answers, kept elsewhere: each chain must still go through its own.",
        ),
    ] = []  # noqa: RUF012 (pydantic copies it)


class AuditBreak(Result):
    kind: Kind
    place: int | None = Field(default=None, description="In the chain.")
    number: int | None = Field(default=None, description="Of the row.")
    message: str


class AuditRemoval(Result):
    at: Time
    rows: int
    before: Time | None = Field(default=None, description="They were from before this time, as the trail says.")
    days: int | None = Field(default=None, description="KHO_AUDIT__KEEP_ROWS_DAYS at that time, as the trail says.")


class VerifiedTrail(Result):
    tenant: str
    whole: bool
    sealed: int = Field(description="Rows that the chain covers.")
    unsealed: int = Field(description="New rows that wait for their link; a running hub makes it within ten seconds.")
    erased: int = Field(description="Sealed rows whose names, ids, reason and details were erased.")
    removed: int = Field(description="Rows that have left by the setting; the chain begins after them.")
    removals: list[AuditRemoval] | None = Field(
        default=None, description=f"When they left, and why: the last {MAX_REMOVALS} times, the newest first."
    )
    head: str = Field(
        description="The end of the chain. Keep it elsewhere, and give it as one of 'expect_heads' later."
    )
    broken: int = Field(description="How many breaks there are.")
    breaks: list[AuditBreak] = Field(description=f"The first {MAX_BREAKS} of them.")


class VerifiedAudit(Result):
    whole: bool = Field(description="False if anything was altered, taken out, added or exchanged.")
    trails: list[VerifiedTrail]


class ExportAudit(Params):
    tenant: Annotated[Tenant | None, Field(description="Whose trail; the caller's own if absent.")] = None
    since: Moment | None = None
    until: Moment | None = None
    format: Annotated[
        Literal["json", "cef"], Field(description="A JSON object for each row, or a line in Common Event Format.")
    ] = "json"
    limit: Annotated[int, Field(ge=1, le=1000), Whole] = 500
    cursor: Cursor | None = None


class ExportedAudit(Result):
    lines: list[dict[str, Any] | str]
    next_cursor: str | None = None


class EraseAudit(Params):
    tenant: Annotated[Tenant | None, Field(description="In whose trail; the caller's own if absent.")] = None
    actor: Annotated[str | None, Field(min_length=1, max_length=256, description="What this caller did.")] = None
    subject: Annotated[
        str | None, Field(min_length=1, max_length=512, description="What was done to this: an id, or an address.")
    ] = None
    until: Annotated[Moment | None, Field(description="Only what is from before this time.")] = None
    reason: Reason = ""

    @model_validator(mode="after")
    def _which(self) -> Self:
        if self.actor is None and self.subject is None and self.until is None:
            raise ValueError("name an actor, a subject or a time: nothing was erased")
        return self


class ErasedAudit(Result):
    tenant: str = Field(description="Whose trail it is.")
    erased: int = Field(description="Rows whose names, ids, reason and details are gone; that they were there stays.")
    left: int = Field(description="Rows that are still to be erased: call again.")
