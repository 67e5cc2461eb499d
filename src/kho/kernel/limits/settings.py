"""Every limit on what one caller, tenant, board or document may take: its setting, its default, what it protects."""

from typing import Annotated

from pydantic import Field

from kho.kernel.section import Section
from kho.lib.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Limit:
    """Says of a setting what it counts, whose it is, and what it protects."""

    counts: str
    """What is counted, e.g. 'requests in a minute'."""
    of: str
    """Whose limit it is, e.g. 'key'."""
    protects: str
    refusal: str = "429 RATE_LIMITED"
    """What happens to what is over it."""
    shared_only: bool = True
    """True if this machine's user has no such limit."""


class LimitSettings(Section):
    """Limits on each caller, tenant and board. 0 switches a limit off."""

    requests: Annotated[
        int,
        Limit("requests in a minute", "key", "the others' share of a process: a flood is refused before it is read"),
    ] = Field(default=6_000, ge=0)
    writes: Annotated[int, Limit("writes in a minute", "key", "the one writer of the database")] = Field(
        default=1_200, ge=0
    )
    embedding: Annotated[
        int, Limit("passages for the embedding model in a minute", "key", "the model, which does a few dozen a second")
    ] = Field(default=6_000, ge=0)
    model_calls: Annotated[
        int,
        Limit(
            "calls of a language or vision model in a minute", "key or board", "the model's server, and what it costs"
        ),
    ] = Field(default=60, ge=0)
    calls_at_once: Annotated[
        int, Limit("calls under way", "tenant", "the other tenants' calls", refusal="the call waits for its turn")
    ] = Field(default=32, ge=0)
    calls_waiting: Annotated[int, Limit("calls waiting for their turn", "tenant", "memory, and patience")] = Field(
        default=128, ge=0
    )
    calls_patience: Annotated[
        float, Limit("seconds that a call waits for its turn", "call", "callers, who would rather know")
    ] = Field(default=10.0, gt=0)
    items: Annotated[
        int, Limit("documents, facts, messages and records", "tenant", "the store", refusal="429 QUOTA_REACHED")
    ] = Field(default=1_000_000, ge=0)
    bytes: Annotated[
        int,
        Limit("bytes of indexed text and of documents' revisions", "tenant", "the store", refusal="429 QUOTA_REACHED"),
    ] = Field(default=10 * 2**30, ge=0)
    boards: Annotated[int, Limit("approved boards", "tenant", "connections", refusal="429 QUOTA_REACHED")] = Field(
        default=1_000, ge=0
    )
    jobs: Annotated[int, Limit("jobs that run or wait", "tenant", "the queue of jobs", refusal="429 QUOTA_REACHED")] = (
        Field(default=20, ge=0)
    )
    frames: Annotated[
        int,
        Limit(
            "frames in a second (five times as many at once)",
            "board",
            "the other boards, and the database",
            refusal="is read no faster; nothing is lost",
            shared_only=False,
        ),
    ] = Field(default=100, ge=0)
    passages: Annotated[
        int,
        Limit(
            "passages",
            "document",
            "the indexes and the model: 1 MB of headings would be 250,000 passages",
            refusal="413 TOO_MANY_PASSAGES",
            shared_only=False,
        ),
    ] = Field(default=20_000, ge=0)
    sessions: Annotated[
        int,
        Limit(
            "sessions of MCP",
            "key",
            "the 1,000 sessions of a process",
            refusal="served without a session",
        ),
    ] = Field(default=64, ge=0)
    call_seconds: Annotated[
        float, Limit("seconds that a call may take", "call", "the tenant's other calls", refusal="504 TIMEOUT")
    ] = Field(default=900.0, ge=0)
    bodies: Annotated[
        int,
        Limit(
            "bytes of request bodies held at once (beyond 64 KB of each)",
            "tenant",
            "memory, of which a body that does not end takes its share",
        ),
    ] = Field(default=64 * 2**20, ge=0)
    all_bodies: Annotated[
        int,
        Limit(
            "bytes of request bodies held at once (beyond 64 KB of each)",
            "process",
            "memory",
            shared_only=False,
        ),
    ] = Field(default=256 * 2**20, ge=0)
    streams: Annotated[
        int, Limit("event streams and subscriptions open", "key", "connections, which a process has 20,000 of")
    ] = Field(default=64, ge=0)
