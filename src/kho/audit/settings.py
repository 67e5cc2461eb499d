"""Settings of the audit trail."""

from typing import Annotated

from pydantic import Field

from kho.kernel.section import Section

Days = Annotated[int, Field(ge=1, le=36_500)]


class AuditSettings(Section):
    keep_text_days: Days | None = None
    """After so many days the personal text of a row is erased: names, ids, reasons, details. What was done and when
    stays, and the chain still verifies. None: kept for ever."""
    keep_rows_days: Days | None = None
    """After so many days a row leaves the trail; the chain then begins later, and says so. None: kept for ever."""
