"""What may be stored: secrets never, personal data only on a hub that nobody else reads."""

import asyncio
from typing import Any, cast

from kho.experiences.errors import NotSanitized
from kho.experiences.sanitize import Finding, mask, scan

LONG = 4_000
"""Characters from which scanning leaves the event loop to others."""


async def passed(fields: dict[str, Any], *, shared: bool, offer: bool = False) -> list[str]:
    """Refuses what must not be stored with NotSanitized, and gives back what is worth a warning.

    With `offer`, the refusal carries the masked text for the caller to confirm.
    """
    texts = _texts(fields)
    if sum(map(len, texts.values())) > LONG:
        return await asyncio.to_thread(check, texts, shared=shared, offer=offer)
    return check(texts, shared=shared, offer=offer)


def check(texts: dict[str, str], *, shared: bool, offer: bool = False) -> list[str]:
    found = {name: scan(text) for name, text in texts.items()}
    listed = [(name, finding) for name, findings in found.items() for finding in findings]
    refused = [(name, finding) for name, finding in listed if finding.tier == "secret" or shared]
    if offer and listed:
        raise NotSanitized(
            "Nothing was stored. 'details.sanitized' holds the masked text: check it and submit it again.",
            [_problem(name, finding) for name, finding in refused or listed],
            sanitized={name: _masked(texts[name]) for name, findings in found.items() if findings},
        )
    if refused:
        raise NotSanitized(problems=[_problem(name, finding) for name, finding in refused])
    kinds = sorted({finding.kind for _, finding in listed})
    return [f"Note: the text seems to hold personal data or internal addresses ({', '.join(kinds)})"] if kinds else []


def _texts(fields: dict[str, Any]) -> dict[str, str]:
    """Every text that would be stored, under the name that the caller knows it by."""
    texts: dict[str, str] = {}
    for name, value in fields.items():
        if isinstance(value, str):
            texts[name] = value
        elif isinstance(value, list) and scan("\n".join(words := cast(list[str], value))):
            # Keywords are scanned at one go; one by one only to tell which it was.
            texts.update({f"{name}[{index}]": word for index, word in enumerate(words)})
    return texts


def _masked(text: str) -> str:
    # Twice: a placeholder is shorter than what it stands for, and may bring a neighbour within a rule's reach.
    for _ in range(2):
        text = mask(text, scan(text))
    return text


def _problem(field: str, finding: Finding) -> dict[str, Any]:
    """Names field, kind and position; never the value."""
    return {
        "field": field,
        "message": f"contains {finding.kind} at characters {finding.start}-{finding.end}",
        "kind": finding.kind,
        "start": finding.start,
        "end": finding.end,
    }
