"""The settings of conversations."""

from pydantic import Field

from kho.kernel.section import Section


class MemorySettings(Section):
    keep_recent_messages: int = Field(default=6, ge=1, le=1_000)
    """Messages that a context has when nobody says how many; what is older is summarised."""
    summarize_threshold: int = Field(default=10, ge=1, le=10_000)
    """More messages than this that no summary covers are summarised."""
    summary_max_chars: int = Field(default=8_000, ge=200, le=1_000_000)
    """A longer summary has its oldest paragraphs folded into a shorter one; what they said stays readable."""
    compress_after_summary: bool = True
    """Accepted, and without effect: summarising deletes no message."""
    timeout: float = Field(default=10.0, gt=0)
