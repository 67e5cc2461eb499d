"""Which findings keep a text from being stored: secrets always, personal data on a hub that others read."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

from kho.sanitizer.scan import Finding, mask, scan

LONG = 4_000
"""Characters from which a text is scanned in a thread, so that the event loop goes on."""


@dataclass(frozen=True, slots=True)
class Review:
    """The outcome of a check. A text with `problems` must not be stored."""

    problems: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Field, kind and position of each finding; never the value."""
    masked: dict[str, str] = field(default_factory=dict[str, str])
    """The fields with findings, masked, for the caller to confirm."""
    warnings: list[str] = field(default_factory=list[str])


async def review(fields: dict[str, Any], *, shared: bool, offer: bool = False) -> Review:
    """Checks every text of `fields`. On a `shared` hub personal data is a problem, elsewhere a warning. With `offer`,
    any finding is a problem, and its masked text is offered."""
    texts = _texts(fields)
    if sum(map(len, texts.values())) > LONG:
        return await asyncio.to_thread(check, texts, shared=shared, offer=offer)
    return check(texts, shared=shared, offer=offer)


def check(texts: dict[str, str], *, shared: bool, offer: bool = False) -> Review:
    found = {name: scan(text) for name, text in texts.items()}
    listed = [(name, finding) for name, findings in found.items() for finding in findings]
    refused = [(name, finding) for name, finding in listed if finding.tier == "secret" or shared]
    if offer and listed:
        problems = [_problem(name, finding) for name, finding in refused or listed]
        return Review(problems, {name: _masked(texts[name]) for name, findings in found.items() if findings})
    if refused:
        return Review([_problem(name, finding) for name, finding in refused])
    kinds = sorted({finding.kind for _, finding in listed})
    noted = f"Note: the text seems to hold personal data or internal addresses ({', '.join(kinds)})"
    return Review(warnings=[noted] if kinds else [])


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
