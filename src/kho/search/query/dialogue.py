"""Ranking of what was said in conversations: who searches wants answers rather than questions, and a speaker or a day
that the query names speaks for what was said by them or then. Where it names nothing else, that alone decides."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kho.kernel.ports import PassageRef
from kho.lib.clock import SECOND
from kho.search.indexing.passages import StoredPassage
from kho.search.query.mentions import Mentions
from kho.search.query.scoring import Label, RankedPassage, ScoreParts
from kho.search.text.days import Day
from kho.search.text.questions import asks

ASKING = 0.7
"""Weight of a message that asks something; of one that does not, if it is wanted what somebody asked."""
NAMED = 1.3
"""Weight of messages of a speaker, or of a month, that the query names."""
OF_DAY = 2.0
"""Weight of messages of a day that it names."""
ALL_NAMED = 0.95
"""Score of a message that is by the speaker and of the day, if the query names nothing else."""
OTHERS = 0.9
"""Highest score of anything else then."""
_STEP = 1e-5
ZONE = "zone:"
"""Prefix of the tag that says how many minutes the clock was ahead of UTC where a passage was said."""
WIDEST = 14 * 3_600 * SECOND
"""No clock is further from UTC."""


def put_first(
    first: Sequence[StoredPassage], ranked: Sequence[RankedPassage], labels: Mapping[int, Label]
) -> tuple[list[RankedPassage], dict[int, Label]]:
    """Put passages in front of a ranked list, in their order; return the list with the labels of all of them."""
    if not first:
        return [*ranked], {**labels}
    own = {one.ref.seq: (one.ref.space, one.ref.collection, one.key, one.digest) for one in first}
    named = [
        RankedPassage(one.ref.seq, one.key, ALL_NAMED - place * _STEP, ScoreParts(1.0))
        for place, one in enumerate(first)
    ]
    others = [replace(one, score=min(one.score, OTHERS)) for one in ranked if one.seq not in own]
    return [*named, *others], {**labels, **own}


def weight(named: Mentions, passage: StoredPassage) -> float:
    """Return the factor by which the score of a message counts."""
    wanted = asks(passage.text) == named.questions or (named.questions and not named)
    found = 1.0 if wanted else ASKING
    if is_by(named, passage.ref):
        found *= NAMED
    if on := days_of(named, passage.ref):
        found *= OF_DAY if any(day.day for day in on) else NAMED
    return found


def is_by(named: Mentions, ref: PassageRef) -> bool:
    """True if a query names who said a passage."""
    return not named.tags.isdisjoint(ref.tags)


def days_of(named: Mentions, ref: PassageRef) -> list[Day]:
    """Those of the days and months that a query names in which a passage was said."""
    at = local(ref) if named.days else 0
    return [day for day in named.days if day.holds(at)]


def is_all_named(named: Mentions, ref: PassageRef) -> bool:
    """True if a passage is by the speaker and of the day, as far as a query names them."""
    if named.tags and not is_by(named, ref):
        return False
    at = local(ref)
    return not named.days or any(start <= at < end for start, end in named.periods())


def local(ref: PassageRef) -> int:
    """When a passage was said, by the clock of the place."""
    ahead = next((int(tag.removeprefix(ZONE)) for tag in ref.tags if tag.startswith(ZONE)), 0)
    return ref.created_at + ahead * 60 * SECOND


def zone_tag(minutes: int | None) -> tuple[str, ...]:
    return (f"{ZONE}{minutes}",) if minutes else ()
