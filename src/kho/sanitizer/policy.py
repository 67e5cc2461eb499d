"""Decides which findings keep a text from being stored: secrets always, personal data on a shared hub."""

import asyncio
from dataclasses import field
from typing import Any, cast

from kho.lib.dataclass import dataclass
from kho.sanitizer.scan import Finding, mask, scan

LONG = 4_000
"""Characters from which a text is scanned in a thread, so as not to block the event loop."""


@dataclass(frozen=True, slots=True)
class Review:
    """Outcome of a check. A text with `problems` must not be stored."""

    problems: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Field, kind and position of each finding; never the value."""
    masked: dict[str, str] = field(default_factory=dict[str, str])
    """Fields with findings, masked, for the caller to confirm."""
    warnings: list[str] = field(default_factory=list[str])


async def review(fields: dict[str, Any], *, shared: bool, offer: bool = False) -> Review:
    """Check every text of `fields`. On a `shared` hub personal data is a problem, otherwise a warning. With `offer`,
    any finding is a problem, and the masked text is offered."""
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
    """Return every text that would be stored, under the name that the caller knows it by."""
    texts: dict[str, str] = {}
    for name, value in fields.items():
        if isinstance(value, str):
            texts[name] = value
        elif isinstance(value, list) and scan("\n".join(words := cast(list[str], value))):
            # Keywords are scanned together; one by one only to find out which it was.
            texts.update({f"{name}[{index}]": word for index, word in enumerate(words)})
    return texts


def _masked(text: str) -> str:
    # Twice: a placeholder is shorter than what it replaces, and may bring adjacent text within a rule's reach.
    for _ in range(2):
        text = mask(text, scan(text))
    return text


def mask_secrets(text: str) -> str:
    """The text without its secrets, for what is stored without anybody to ask. Personal data stays."""
    for _ in range(2):
        text = mask(text, [finding for finding in scan(text) if finding.tier == "secret"])
    return text


def _problem(field: str, finding: Finding) -> dict[str, Any]:
    """Describe field, kind and position; never the value."""
    return {
        "field": field,
        "message": f"contains {finding.kind} at characters {finding.start}-{finding.end}",
        "kind": finding.kind,
        "start": finding.start,
        "end": finding.end,
    }
