"""How far research may go: what the settings say, in the slice's own words."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    wait: float = 50.0
    """Seconds that a call waits for its ingest; then it answers with a job that goes on."""
    simple_timeout: float = 5.0
    """Seconds for what is only looked up or stored."""
    query_timeout: float = 30.0
    """Seconds for a question."""
    max_file: int = 50 * 2**20
    """Bytes of a file."""
    duplicate: float = 0.85
    """The likeness from which a text counts as one that is there already."""
