"""Ranking of what was said in conversations: who searches wants answers rather than questions, and a speaker or a day
that the query names speaks for what was said by them or then."""

import re

from kho.lib.name_key import name_key
from kho.search.indexing.passages import StoredPassage
from kho.search.query.parsed_query import ParsedQuery
from kho.search.text.questions import asks

ASKING = 0.7
"""Weight of a message that asks something."""
NAMED = 1.3
"""Weight of messages of a speaker, or of a day, that the query names."""
SPEAKER = "speaker:"
"""Prefix of the tag that says who said a passage."""


def weight(asked: ParsedQuery, passage: StoredPassage) -> float:
    """Return the factor by which the score of a message counts."""
    found = ASKING if asks(passage.text) else 1.0
    if is_named(asked, passage):
        found *= NAMED
    if any(day.holds(passage.ref.created_at) for day in asked.days):
        found *= NAMED
    return found


def speaker_tag(name: str) -> str:
    return f"{SPEAKER}{name_key(name)}"


def is_named(asked: ParsedQuery, passage: StoredPassage) -> bool:
    """True if a query names who said a passage."""
    names = (tag.removeprefix(SPEAKER) for tag in passage.ref.tags if tag.startswith(SPEAKER))
    return any(_has(asked.as_name, name) for name in names)


def _has(text: str, name: str) -> bool:
    """True if a text has a name as a word. Chinese has no blanks between words."""
    if name not in text:
        return False
    edge = r"\b" if name.isascii() else ""
    return bool(re.search(f"{edge}{re.escape(name)}{edge}", text))
