"""The settings of facts."""

from pydantic import Field

from kho.kernel.section import Section


class FactSettings(Section):
    timeout: float = Field(default=10.0, gt=0)
    """Seconds before a read is given up with TIMEOUT."""
