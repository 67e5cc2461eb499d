"""The settings of experience records."""

from pydantic import Field

from kho.kernel.section import Section


class ExperienceSettings(Section):
    query_timeout: float = Field(default=5.0, gt=0)
    """Seconds before a query is given up with TIMEOUT."""
    floor: float = Field(default=0.15, ge=0, le=1)
    """The least relevance that counts as a match."""
    public_tenant: str | None = None
    """On a shared hub, callers without a key may read this tenant's records. Nobody may by default."""
