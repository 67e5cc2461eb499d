"""Regular expressions that are compiled on first use: compiling them all takes a tenth of the start-up time, and a
client waits for the first answer."""

import re
from typing import Any, cast


class _Pattern:
    def __init__(self, source: str, flags: int) -> None:
        self._asked = source, flags

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(*self._asked)
        for method in ("search", "match", "fullmatch", "findall", "finditer", "sub", "subn", "split"):
            setattr(self, method, getattr(compiled, method))  # later calls bypass __getattr__
        return getattr(compiled, name)


def pattern(source: str, flags: int = 0) -> re.Pattern[str]:
    return cast("re.Pattern[str]", _Pattern(source, flags))
