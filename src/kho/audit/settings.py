"""Settings of the audit trail."""

from kho.kernel.section import Days, Section


class AuditSettings(Section):
    keep_text_days: Days | None = None
    """After so many days the personal text of a row is erased: names, ids, reasons, details. What was done and when
    stays, and the chain still verifies. None: kept for ever."""
    keep_rows_days: Days | None = None
    """After so many days a row leaves the trail; the chain then begins later, and says so. None: kept for ever."""
