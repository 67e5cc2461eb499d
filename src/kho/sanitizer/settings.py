"""Settings of the sanitizer."""

from collections.abc import Mapping

from kho.kernel.ports import Policy
from kho.kernel.section import Section


class SanitizerSettings(Section):
    """What becomes of a text with a secret in it, by the slice that would store it: `refuse`, `warn` (it is stored, and
    the answer, the log and the audit trail say so) or `off`."""

    facts: Policy = "refuse"
    experiences: Policy = "refuse"
    documents: Policy = "warn"
    memory: Policy = "warn"
    research: Policy = "warn"
    devices: Policy = "warn"
    toolbox: Policy = "warn"
    administration: Policy = "warn"
    audit: Policy = "warn"

    @property
    def policies(self) -> Mapping[str, Policy]:
        return {name: getattr(self, name) for name in type(self).model_fields}
