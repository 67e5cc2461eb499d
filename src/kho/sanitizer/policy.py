"""Decides what becomes of a text with a secret in it: each slice's policy is refuse, warn or off.

The registry asks before every operation that stores something, at every door; what reads files in the background asks
by itself. The value is in no answer, no log line and no audit row: those name the field and the kind.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from kho.kernel.call import Call
from kho.kernel.errors import KhoError, NotSanitized
from kho.kernel.operation import Operation
from kho.kernel.ports import Policy
from kho.lib.dataclass import dataclass
from kho.sanitizer.scan import Finding, mask, scan
from kho.sanitizer.texts import NamedText, look, texts_of

T = TypeVar("T")
Found = Sequence[tuple[NamedText, Finding]]
log = logging.getLogger("kho.sanitizer")

LONG = 4_000
"""Characters from which a text is scanned in a thread, so as not to block the event loop."""
QUOTED, MOST_QUOTED = 2_000, 1_000
"""Characters of an argument that an error may quote, and how many are looked at."""
NAMED = 20
"""Places that a warning or an audit row names at most."""
_THREADS = ThreadPoolExecutor(2, "kho-sanitizer")
"""A pool of its own: many long texts at once must not use up the threads that everything else needs."""


@dataclass(frozen=True, slots=True)
class Sanitizer:
    """The port `Screen` of the kernel."""

    policies: Mapping[str, Policy]
    """By slice."""

    async def screen(self, operation: Operation, params: Any, call: Call) -> None:
        policy = self.policies.get(operation.capability, "warn")
        # A board's tool stores nothing; the log of calls masks arguments itself.
        if operation.effect == "read" or operation.tenant:
            return
        if policy == "off":
            call.masked = mask_secrets  # the audit trail has no secrets all the same
            return
        texts = texts_of(params)
        personal = operation.personal == "refused" or (operation.personal == "told" and call.shared)
        found = await _threaded(sum(len(one.text) for one in texts), lambda: look(texts, personal=personal))
        if not found:
            return
        call.masked = mask_secrets
        offer = policy == "refuse" and bool(getattr(params, "sanitize", False))
        if policy == "refuse":
            hard = call.shared and operation.personal == "refused"
            refused = [one for one in found if one[1].tier == "secret" or hard]
            if offer or refused:
                problems = [_problem(*one) for one in refused or found]
                raise operation.not_sanitized(problems, _offered(found) if offer else {})
        if secrets := _places(one for one in found if one[1].tier == "secret"):
            self.tell(call, secrets)
            fields = {"request_id": call.request_id, "operation": operation.name, "tenant": call.tenant}
            log.info("secret stored", extra={"fields": {**fields, "found": call.sightings}})
        if kinds := sorted({one.kind for _, one in found if one.tier == "personal"}):
            call.warnings.append(
                f"Note: the text seems to hold personal data or internal addresses ({', '.join(kinds)})."
            )

    async def screen_file(self, capability: str, name: str, content: Any, *, stored: bool = True) -> list[str]:
        policy = self.policies.get(capability, "warn")
        if policy == "off":
            return []
        texts = texts_of(content)
        found = await _threaded(sum(len(one.text) for one in texts), lambda: look(texts, personal=False))
        kinds = sorted({one.kind for _, one in found})
        if kinds and policy == "refuse":
            raise NotSanitized(f"It holds what looks like a secret ({', '.join(kinds)}).")
        if kinds and stored:
            fields = {"capability": capability, "file": mask_secrets(name), "found": kinds}
            log.info("secret stored", extra={"fields": fields})
        return [f"{mask_secrets(name)} ({kind})" for kind in kinds]

    async def redact(self, error: KhoError, arguments: Any) -> None:
        short = [one for one in texts_of(arguments) if len(one.text) <= QUOTED][:MOST_QUOTED]
        found = await _threaded(sum(len(one.text) for one in short), lambda: look(short, personal=False))
        masks = {text.text[one.start : one.end]: f"<{one.kind}>" for text, one in found}
        if masks:
            error.mask(lambda said: _replaced(said, masks))
        # An error also quotes what was no argument, or too long to be looked at above.
        texts = texts_of([error.message, error.guidance, error.details])
        length = sum(len(one.text) for one in texts)
        if await _threaded(length, lambda: look(texts, personal=False)):
            await _threaded(length, lambda: error.mask(mask_secrets))

    def mask(self, text: str) -> str:
        return mask_secrets(text)

    def tell(self, call: Call, places: Sequence[str]) -> None:
        if not places:
            return
        call.masked, call.sightings = mask_secrets, _first(list(dict.fromkeys([*call.sightings, *places])))
        call.warnings.append(
            f"It was stored as sent, but this looks like a secret: {', '.join(_first(places))}. Whoever may read it"
            " sees it: replace it by a placeholder."
        )


async def _threaded(length: int, work: Callable[[], T]) -> T:
    return work() if length <= LONG else await asyncio.get_running_loop().run_in_executor(_THREADS, work)


def _places(found: Iterable[tuple[NamedText, Finding]]) -> list[str]:
    """Return `field (kind)` of each; the name of a field may itself hold the secret."""
    return list(dict.fromkeys(f"{mask_secrets(text.name)[:200]} ({one.kind})" for text, one in found))


def _first(places: Sequence[str]) -> list[str]:
    return [*places] if len(places) <= NAMED else [*places[:NAMED], f"{len(places) - NAMED:,} more"]


def _replaced(said: str, masks: Mapping[str, str]) -> str:
    for secret, shown in masks.items():
        said = said.replace(secret, shown)
    return said


def _offered(found: Found) -> dict[str, str]:
    """Return the fields with findings, masked, for the caller to confirm."""
    return {text.name: _masked(text.text, personal=True) for text, _ in found}


def _masked(text: str, *, personal: bool) -> str:
    # Twice: a placeholder is shorter than what it replaces, and may bring adjacent text within a rule's reach.
    for _ in range(2):
        text = mask(text, scan(text, personal=personal))
    return text


def mask_secrets(text: str) -> str:
    """Return the text without its secrets, for what is stored without anybody to ask. Personal data stays."""
    return _masked(text, personal=False)


async def without_secrets(text: str) -> str:
    """The same, off the event loop if the text is long."""
    return await _threaded(len(text), lambda: mask_secrets(text))


def _problem(text: NamedText, finding: Finding) -> dict[str, Any]:
    """Describe field, kind and position; never the value."""
    return {
        "field": mask_secrets(text.name),
        "message": f"contains {finding.kind} at characters {finding.start}-{finding.end}",
        "kind": finding.kind,
        "start": finding.start,
        "end": finding.end,
    }
