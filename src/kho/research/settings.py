"""The settings of research collections."""

from pydantic import Field

from kho.kernel.section import Section


class ResearchSettings(Section):
    roots: list[str] = Field(default_factory=list[str])
    """Folders that this machine's user may ingest from; the working directory and the home when empty."""
    shared_roots: list[str] = Field(default_factory=list[str])
    """Folders of this machine that callers with a key may ingest from. None by default: they send their texts."""
    wait: float = Field(default=50.0, ge=0, le=600)
    """Seconds that a call waits for its ingest; then it answers with a job that goes on."""
    simple_timeout: float = Field(default=5.0, gt=0, le=60)
    """Seconds for what is only looked up or stored."""
    query_timeout: float = Field(default=30.0, gt=0, le=600)
    """Seconds for a question."""
    max_file: int = Field(default=50 * 1024 * 1024, ge=1024)
    """Bytes of a file that is read."""
    duplicate: float = Field(default=0.85, gt=0, le=1)
    """The likeness from which a text counts as one that is there already."""
