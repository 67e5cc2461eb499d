"""Checks of a statement and its parameters, the same for both databases, so that a mistake shows on either."""

import re
from collections.abc import Sequence
from functools import lru_cache

from kho.kernel import errors
from kho.kernel.ports import Value

_PARAMETER = re.compile(r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/ | \$(\d+)""", re.VERBOSE | re.DOTALL)


@lru_cache(maxsize=4096)
def count_params(sql: str) -> int:
    """Return the number of parameters that `sql` takes. SQLite numbers `$n` by first appearance and PostgreSQL by its
    digits, so the two only agree if they first appear as $1, $2, $3 …; anything else raises ValueError."""
    count = 0
    for match in _PARAMETER.finditer(sql):
        number = int(match[1] or 0)
        if number > count + 1:
            raise ValueError(f"Parameters must first appear in ascending order: ${number} came before ${count + 1}.")
        count = max(count, number)
    return count


def check_params(sql: str, params: Sequence[Value]) -> None:
    """Reject a wrong number of parameters, and text that PostgreSQL cannot store."""
    if len(params) != count_params(sql):
        raise ValueError(f"The statement takes {count_params(sql)} parameters; {len(params)} were given.")
    for value in params:
        if isinstance(value, str) and "\0" in value:
            raise unstorable()


def unstorable() -> errors.InvalidParams:
    return errors.InvalidParams(
        "A value cannot be stored: text must be valid Unicode without NUL, and a whole number must fit in 64 bits."
    )
