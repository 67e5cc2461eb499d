"""What the operations on boards take."""

import unicodedata
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, JsonValue, StringConstraints
from pydantic_core import PydanticCustomError

from kho.kernel.params import Params, Strings, Whole
from kho.lib.clock import DAY, SECOND, from_iso
from kho.lib.lazy_regex import pattern

MOST_DEVICES = 200
"""That one call may name."""
LONGEST_QUEUE = 7 * DAY
_SPAN = pattern(r"(\d{1,6})\s*(s|m|h|d)")
_MAC = pattern(r"[0-9A-Fa-f]{2}([:-][0-9A-Fa-f]{2}){5}")
_UNITS = {"s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND, "d": DAY}


def plain_label(value: str) -> str:
    """In the form in which equal ones are equal."""
    return " ".join(unicodedata.normalize("NFC", value).split())


def _label(value: str) -> str:
    plain = plain_label(value)
    if "," in plain:
        raise PydanticCustomError("comma", "must not hold a comma, which parts names in a list")
    if not plain.isprintable():
        raise PydanticCustomError("unseen", "must not hold characters that nobody sees")
    if _MAC.fullmatch(plain):
        raise PydanticCustomError("mac", "must not look like a device's id; call it what it is, e.g. 'kitchen'")
    return plain


def _span(value: Any) -> Any:
    """'10m' as microseconds."""
    found = _SPAN.fullmatch(value.strip().lower()) if isinstance(value, str) else None
    span = int(found[1]) * _UNITS[found[2]] if found else 0
    if not 0 < span <= LONGEST_QUEUE:
        raise PydanticCustomError("span", "must be a time such as '90s', '10m' or '2h', of 7 days at most")
    return span


def _moment(value: Any) -> Any:
    try:
        return from_iso(value)
    except (TypeError, ValueError):
        raise PydanticCustomError("moment", "must be a time in ISO 8601, e.g. '2026-07-28T09:00:00Z'") from None


def _some(value: str | list[str]) -> str | list[str]:
    if isinstance(value, list) and not 1 <= len(value) <= MOST_DEVICES:
        raise PydanticCustomError("count", "must name 1 to {most} devices", {"most": MOST_DEVICES})
    return value


Named = Annotated[str, StringConstraints(min_length=1, max_length=128)]
Devices = Annotated[
    Named | Strings,
    AfterValidator(_some),
    Field(description="A device's id, a list of ids, or a label: then all devices that have it."),
]
Moment = Annotated[
    int, BeforeValidator(_moment, json_schema_input_type=str), Field(description="Only from this time on (ISO 8601).")
]
Page = Annotated[int, Field(ge=1, le=500), Whole]
Cursor = Annotated[str, Field(max_length=2_000, description="The next_cursor of the page before.")]
Timeout = Annotated[float, Field(ge=1, le=300, description="Seconds to wait for the device.")]


class ListDevices(Params):
    label: Annotated[
        Annotated[Named, AfterValidator(plain_label)] | None, Field(description="Only devices with this label.")
    ] = None
    limit: Annotated[Page, Field(description="How many.")] = 100
    cursor: Cursor | None = None


class OfDevice(Params):
    device: Annotated[Named, Field(description="The device's id, or the label that it alone has.")]


class DeviceCall(Params):
    device: Devices
    tool: Annotated[Named, Field(description="The tool, by its own name or by the alias that device_tools shows.")]
    arguments: Annotated[dict[str, JsonValue] | None, Field(description="What the tool takes, by name.")] = None
    timeout: Timeout = 30.0
    queue_for: Annotated[
        Annotated[int, BeforeValidator(_span, json_schema_input_type=str)] | None,
        Field(description="If the device is offline, keep the call for it this long, e.g. '10m'; 7 days at most."),
    ] = None


class DeviceNotifications(Params):
    device: Annotated[Named | None, Field(description="Only of this device, or of those with this label.")] = None
    method: Annotated[Annotated[str, Field(max_length=200)] | None, Field(description="Only this method.")] = None
    since: Moment | None = None
    limit: Annotated[Page, Field(description="How many, the newest first.")] = 50
    cursor: Cursor | None = None


class DeviceLog(Params):
    device: Annotated[
        Named | None,
        Field(description="Only of this device, also of one that was forgotten; or of those with this label."),
    ] = None
    tool: Annotated[Named | None, Field(description="Only calls of this tool, by its own name.")] = None
    since: Moment | None = None
    limit: Annotated[Page, Field(description="How many, the newest first.")] = 50
    cursor: Cursor | None = None


class ApproveDevice(Params):
    code: Annotated[
        Named,
        Field(description="The six digits that the board shows; or the id or label of a device that is yours, to "
                          "approve it again with its tools as they are now."),
    ]  # fmt: skip
    label: Annotated[Annotated[str, Field(max_length=128), AfterValidator(_label)] | None, Field(
        description="What to call it.")] = None  # fmt: skip


class LabelDevice(OfDevice):
    label: Annotated[
        str,
        Field(max_length=128, description="A name, or a group that several devices share. Empty: none."),
        AfterValidator(_label),
    ]


class ToolArguments(Params):
    """Of a board's own tool: what they must be, its schema says, and is checked before the board hears of it."""

    model_config = ConfigDict(extra="allow", defer_build=True)
