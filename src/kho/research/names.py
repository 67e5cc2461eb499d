"""Names of collections and projects (normalizing, comparing, suggesting), and publication dates."""

import re
import unicodedata
from collections.abc import Iterable
from datetime import date
from difflib import get_close_matches

from kho.lib.name_key import name_key as key

MAX_NAME = 128
_REFUSED = {"Cc", "Cs", "Co", "Cn", "Zl", "Zp"}
_TURNING = {*"\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"}
"""Bidirectional control characters: with them, two names that look the same could differ."""


def clean(name: str) -> str:
    """Return the normalized name as stored. Raise ValueError with a text that fits after the parameter's name."""
    if len(name) > 100 * MAX_NAME:  # do not scan megabytes character by character
        raise ValueError(f"must have 1 to {MAX_NAME} characters")
    name = unicodedata.normalize("NFC", name).strip()
    if any(unicodedata.category(sign) in _REFUSED or sign in _TURNING for sign in name):
        raise ValueError("must not contain control characters")
    name = " ".join(name.split())
    if not 1 <= len(name) <= MAX_NAME:
        raise ValueError(f"must have 1 to {MAX_NAME} characters")
    return name


def similar(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """Return up to `most` known names that may be meant."""
    by_key = {key(one): one for one in known}
    wanted = key(name)
    within = sorted((one for one in by_key if wanted in one or one in wanted), key=len)
    close = get_close_matches(wanted, by_key, most, 0.6)
    return [by_key[one] for one in dict.fromkeys([*close, *within])][:most]


def did_you_mean(found: Iterable[str]) -> str:
    """Return a "Did you mean …?" sentence, or an empty string."""
    named = [f"'{name}'" for name in found]
    if not named:
        return ""
    listed = named[0] if len(named) == 1 else f"{', '.join(named[:-1])} or {named[-1]}"
    return f"Did you mean {listed}? "


_FORM = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?", re.ASCII)


def published(text: str) -> str:
    """Return the date as stored. Raise ValueError with a text that fits after the parameter's name."""
    form = _FORM.fullmatch(text.strip())
    if form is None:
        raise ValueError("must be a date like 2026-07-28, a month like 2026-07 or a year like 2026")
    year, month, day = (int(part) if part else 1 for part in form.groups())
    try:
        date(year, month, day)
    except ValueError:
        raise ValueError(f"must be a day of the calendar, which {form[0]} is not") from None
    return form[0]
