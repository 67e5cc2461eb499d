"""Base class and field types for settings. Each slice owns its section; `settings.py` composes them."""

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from kho.lib.addresses import Allowed


class Section(BaseModel):
    """Settings under one heading. An unknown name is an error, so that a typo does not go unnoticed."""

    model_config = ConfigDict(extra="forbid")


Days = Annotated[int, Field(ge=1, le=36_500)]
"""After which something leaves."""


def _in_form(form: str, words: str) -> AfterValidator:
    """Validator: empty, or a full match of `form`. The error says `words`, with an example, not the regular
    expression."""
    expected = re.compile(form)

    def check(value: str) -> str:
        if value and not expected.fullmatch(value):
            raise ValueError(words)
        return value

    return AfterValidator(check)


WebAddress = Annotated[str, _in_form(r"https?://[^/\s]+\S*", "must be an address such as 'http://192.168.1.20:8001'")]
ModelUrl = Annotated[str, _in_form(r"https?://[^/\s]+\S*", "must be an address such as 'http://127.0.0.1:11434/v1'")]
BrokerUrl = Annotated[
    str, _in_form(r"mqtts?://[^/\s]+/?", "must be a broker's address such as 'mqtt://kho:secret@127.0.0.1:1883'")
]
Listening = Annotated[
    str, _in_form(r"\S+:\d{1,5}", "must be an address and a port to listen on, such as '127.0.0.1:1883'")
]
HostName = Annotated[
    str,
    _in_form(
        r"([\w.-]+|\[[\da-fA-F:.]+\])(:(\d{1,5}|\*))?",
        "must be a name or an address without http://, such as 'kho.example.org' or '192.168.1.20:8001'",
    ),
]
Network = Annotated[
    str, _in_form(r"[\da-fA-F:.]+(/\d{1,3})?", "must be an address or a network, such as '127.0.0.1' or '10.0.0.0/8'")
]
Origin = Annotated[
    str, _in_form(r"[a-zA-Z][\w+.-]*://[^/\s*]+(:\*)?", "must be an origin such as 'https://kho.example.org'")
]

Interval = Annotated[
    str, _in_form(r"[1-9]\d{0,4}[mhd]", "must be minutes, hours or days, such as '30m', '12h' or '1d'")
]


def microseconds(interval: str) -> int:
    """Return how long an `Interval` is."""
    return int(interval[:-1]) * {"m": 60, "h": 3_600, "d": 86_400}[interval[-1]] * 1_000_000


def _host_or_network(value: str) -> str:
    try:
        Allowed.of([value])
    except ValueError:
        raise ValueError("must be a host such as 'hooks.internal', or a network such as '10.1.0.0/16'") from None
    return value


HostOrNetwork = Annotated[str, AfterValidator(_host_or_network)]
