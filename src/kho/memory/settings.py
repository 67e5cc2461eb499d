"""Settings of conversation memory."""

from pydantic import Field

from kho.kernel.section import Days, Section


class MemorySettings(Section):
    keep_recent_messages: int = Field(default=6, ge=1, le=1_000)
    """Messages in a context when the caller gives no number; older ones are summarised."""
    summarize_threshold: int = Field(default=10, ge=1, le=10_000)
    """Number of unsummarised messages above which a conversation is summarised."""
    summary_max_chars: int = Field(default=8_000, ge=200, le=1_000_000)
    """Maximum length: in a longer summary the oldest paragraphs are condensed into one; their full text is kept."""
    compress_after_summary: bool = True
    """Accepted but without effect: summarising deletes no message."""
    keep_days: Days | None = None
    """After so many days without a message a conversation is deleted for good. None: kept for ever."""
    timeout: float = Field(default=10.0, gt=0)
