"""When something was published: a day, a month or a year, as precisely as its author knows it."""

import re
from datetime import date

_FORM = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?", re.ASCII)


def published(text: str) -> str:
    """The date as it is kept. Raises ValueError, in words that fit behind the parameter's name."""
    form = _FORM.fullmatch(text.strip())
    if form is None:
        raise ValueError("must be a date like 2026-07-28, a month like 2026-07 or a year like 2026")
    year, month, day = (int(part) if part else 1 for part in form.groups())
    try:
        date(year, month, day)
    except ValueError:
        raise ValueError(f"must be a day of the calendar, which {form[0]} is not") from None
    return form[0]
