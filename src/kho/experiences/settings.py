"""Settings of experience records."""

from pydantic import Field

from kho.kernel.section import Section


class ExperienceSettings(Section):
    query_timeout: float = Field(default=5.0, gt=0)
    """Seconds after which a query fails with TIMEOUT."""
    floor: float = Field(default=0.0, ge=0, le=1)
    """Minimum relevance of a match; 0 for all that is found."""
    review: bool = False
    """On a shared hub, records wait until somebody with the scope exp:review (or an admin) approves them; until then
    only their submitter and the reviewers see them."""
    public_tenant: str | None = None
    """Tenant whose records callers without a key may read on a shared hub. None (the default): no tenant."""
