"""Renders answers for the CLI. Text from boards is shown as code, so that it cannot look like Kho's own."""

from collections.abc import Mapping
from typing import Any, cast

import orjson

from kho.devices import model
from kho.devices.calls.arguments import wanted
from kho.lib.markdown import code, counted, fenced, inline, together
from kho.lib.shown_time import minute, second

MAX_LINE = 120
"""Maximum characters of arguments, parameters and answers in a list line."""


def devices(found: model.DeviceList) -> str:
    listed = "\n".join(_device(one) for one in found.devices) or "There are no devices."
    pending = "\n".join(_device(one) for one in found.pending or ())
    waiting = f"These wait to be approved (`kho devices approve CODE`):\n\n{pending}" if pending else ""
    return together(listed, waiting, _more(found.next_cursor))


def tools(found: model.ToolList) -> str:
    listed = "\n".join(_tool(one) for one in found.tools) or "It offers no tools."
    return together(f"{code(found.device)}, {_words(found.status)}, seen {minute(found.as_of)}", listed)


def called(found: model.Called) -> str:
    if found.results is None:
        return _outcome(found, alone=True)
    return "\n".join(f"- {code(one.device)}: {_outcome(one)}" for one in found.results)


def notifications(found: model.NotificationList) -> str:
    listed = "\n".join(
        f"- {second(one.at)} {code(one.device)} {code(one.method)}{_given(one.params)}" for one in found.notifications
    )
    return together(listed or "There are no notifications.", _more(found.next_cursor))


def log(found: model.CallLog) -> str:
    listed = "\n".join(
        f"{one.call}. {second(one.at)} {code(one.device)} {code(one.tool)}{_given(one.arguments)} "
        f"by {inline(one.caller)}: {one.outcome}"
        + (f", {one.ms} ms" if one.ms is not None else "")
        + (f", {_short(one.message)}" if one.message else "")
        for one in found.calls
    )
    return together(listed or "There are no calls.", _more(found.next_cursor))


def changed(found: model.DeviceChange) -> str:
    device = code(found.device)
    name = f"{device} ({inline(found.label)})" if found.label else device
    match found.status:
        case "approved":
            return f"{name} is approved."
        case "labelled":
            return f"{device} is called {inline(found.label)} now." if found.label else f"{device} has no label now."
        case "revoked":
            return f"{name} is blocked. `kho devices approve {found.device}` approves it again."
        case "forgotten":
            return f"{name} is forgotten. If it connects again, it is a new board; `revoke` keeps one out."


def _device(one: model.DeviceEntry) -> str:
    about = f"{one.name} {one.version or ''}".strip() if one.name else ""
    parts = [
        _words(one.status),
        *(["shows a code to be approved again"] if one.shows_code else []),
        *([inline(about)] if about else []),
        *([counted(one.tools, "tool")] if one.tools is not None else []),
        *([f"{counted(len(one.changed_tools), 'tool')} not as approved"] if one.changed_tools else []),
        *([f"{counted(one.queued_calls, 'call')} waiting"] if one.queued_calls else []),
        f"since {minute(one.connected_since)}" if one.connected_since else f"seen {minute(one.last_seen)}",
    ]
    return f"- {code(one.device)}{f' **{inline(one.label)}**' if one.label else ''}: {', '.join(parts)}"


def _tool(one: model.ToolEntry) -> str:
    marks = [*(["for people"] if one.user_only else []), *(["not as approved"] if one.warning else [])]
    noted = f" ({', '.join(marks)})" if marks else ""
    said = f": {code(one.description)}" if one.description else ""
    properties = cast(Mapping[str, Mapping[str, Any]], one.input_schema.get("properties", {}))
    required = cast(list[str], one.input_schema.get("required", []))
    taken = [f"  - {code(_argument(name, properties.get(name, {}), name in required))}"
             for name in dict.fromkeys([*properties, *required])]  # fmt: skip
    return "\n".join([f"- {code(one.name)}{noted}{said}", *taken])


def _argument(name: str, part: Mapping[str, Any], required: bool) -> str:
    """Describe an argument: `volume: a whole number from 0 to 100, required`."""
    what = wanted(part)
    facts = ["anything" if what == "given" else what]
    if required:
        facts.append("required")
    elif "default" in part:
        facts.append(f"{_json(part['default'])} unless given")
    else:
        facts.append("may be left out")
    said = part.get("description")
    return f"{name}: {', '.join(facts)}" + (f" ({said})" if isinstance(said, str) and said else "")


def _outcome(one: model.Called | model.DeviceOutcome, *, alone: bool = False) -> str:
    if one.status == "queued":
        return f"queued until {minute(one.expires_at or '')} (call {one.call})"
    if isinstance(one, model.DeviceOutcome) and one.error is not None:
        return f"{inline(one.error.message, 1_000)} ({one.error.code})"
    text = one.text or ""
    said = fenced(text) if alone and "\n" in text.strip() else code(text) if text.strip() else "done"
    more = [str(block.get("type")) for block in one.content or () if block.get("type") != "text"]
    rest = f"(and {', '.join(map(inline, more))}: see --json)" if more else ""
    return together(said, rest) if alone else f"{said} {rest}".rstrip()


def _given(value: Any) -> str:
    return f" {_short(_json(value))}" if value not in (None, {}, []) else ""


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


def _short(text: str) -> str:
    line = " ".join(text.split())
    return code(line if len(line) <= MAX_LINE else line[: MAX_LINE - 1] + "…")


def _words(status: model.Status) -> str:
    return status.replace("_", " ")


def _more(cursor: str | None) -> str:
    return f"There are more: `--cursor {cursor}`" if cursor else ""
