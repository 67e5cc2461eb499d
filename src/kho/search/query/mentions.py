"""What a query over conversations names beside what it is about: who said it, and on which day."""

from datetime import UTC, date, datetime

from kho.lib.clock import SECOND
from kho.lib.dataclass import dataclass
from kho.search.query.parsed_query import ParsedQuery
from kho.search.query.speakers import SPEAKER, SpeakerNames
from kho.search.text.days import Day
from kho.search.text.speech import asks_for_questions, has_content, is_about_speech


@dataclass(frozen=True, slots=True)
class Mentions:
    tags: frozenset[str] = frozenset()
    """Tags of the speakers."""
    days: tuple[Day, ...] = ()
    newest: date = date.min
    """Day of the newest passage: a day without a year is the latest up to it."""
    is_all: bool = False
    """True if the query asks for nothing else."""
    of_speech: bool = False
    """True if it speaks of saying something."""
    questions: bool = False
    """True if it wants to know what was asked."""

    def __bool__(self) -> bool:
        return bool(self.tags or self.days)

    def periods(self) -> list[tuple[int, int]]:
        """The days by the clocks of the places where it was said."""
        return [period for day in self.days if (period := day.period(self.newest))]


NOTHING = Mentions()


def mentions(asked: ParsedQuery, names: SpeakerNames, now: int, newest: int) -> Mentions:
    """`now` and `newest`, the time of the newest passage, by the clock where that was said."""
    text = asked.typed or asked.beginning
    found, others = names.named_in(asked.days.rest)
    return Mentions(
        frozenset(f"{SPEAKER}{name}" for name in found),
        tuple(asked.days.resolved(_date(now), _date(newest))),
        _date(newest),
        not asked.phrases and not has_content(others, asked.language == "vi"),
        is_about_speech(text),
        asks_for_questions(text),
    )


def _date(moment: int) -> date:
    return datetime.fromtimestamp(moment // SECOND, UTC).date()
