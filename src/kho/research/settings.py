"""Settings of the research slice."""

from pydantic import Field

from kho.kernel.section import Days, Section


class ResearchSettings(Section):
    roots: list[str] = Field(default_factory=list[str])
    """Folders that the local user may ingest from. Empty: the working directory and the home directory."""
    shared_roots: list[str] = Field(default_factory=list[str])
    """Folders of this machine that callers with a key may ingest from. None by default: such callers send the text
    itself."""
    wait: float = Field(default=50.0, ge=0, le=600)
    """Seconds that a call waits for its ingest; after that it returns a job that continues in the background."""
    simple_timeout: float = Field(default=5.0, gt=0, le=60)
    """Timeout in seconds of short reads and writes."""
    query_timeout: float = Field(default=30.0, gt=0, le=600)
    """Timeout in seconds of a query."""
    max_file: int = Field(default=50 * 1024 * 1024, ge=1024)
    """Maximum file size in bytes."""
    file_timeout: float = Field(default=60.0, gt=0, le=3600)
    """Seconds for reading one file; after that it counts as unreadable."""
    duplicate: float = Field(default=0.85, gt=0, le=1)
    """Minimum similarity (0..1) at which a text counts as a duplicate."""
    keep_history_days: Days | None = None
    """After so many days a question leaves the history. None: only what is older than the newest 1,000 does."""
