"""Answers for people at the command line. What a board says is shown as code, so that it cannot pass for ours."""

from kho.devices import results


def devices(found: results.Devices) -> str:
    listed = "\n".join(_device(one) for one in found.devices) or "There are no devices."
    pending = "\n".join(_device(one) for one in found.pending or ())
    waiting = f"These wait to be approved (`kho devices approve CODE`):\n\n{pending}" if pending else ""
    return _together(listed, waiting, _more(found.next_cursor))


def tools(found: results.Tools) -> str:
    listed = "\n".join(_tool(one) for one in found.tools) or "It offers no tools."
    return _together(f"`{found.device}`, {found.status}, seen {_time(found.as_of)}", listed)


def called(found: results.Called) -> str:
    if found.results is None:
        return _outcome(found)
    return "\n".join(f"- `{one.device}`: {_outcome(one)}" for one in found.results)


def notifications(found: results.Notifications) -> str:
    listed = "\n".join(f"- {_time(one.at)} `{one.device}` `{one.method}` `{one.params}`" for one in found.notifications)
    return _together(listed or "There are no notifications.", _more(found.next_cursor))


def log(found: results.Log) -> str:
    listed = "\n".join(
        f"{one.call}. {_time(one.at)} `{one.device}` `{one.tool}` `{one.arguments}` by {one.caller}: {one.outcome}"
        + (f", {one.ms} ms" if one.ms is not None else "")
        + (f", `{_short(one.message)}`" if one.message else "")
        for one in found.calls
    )
    return _together(listed or "There are no calls.", _more(found.next_cursor))


def _device(one: results.Device) -> str:
    parts = [
        one.status,
        *([f"{one.name} {one.version or ''}".strip()] if one.name else []),
        *([f"{one.tools} tools"] if one.tools is not None else []),
        *([f"{len(one.changed_tools)} not as approved"] if one.changed_tools else []),
        *([f"{one.queued_calls} calls wait"] if one.queued_calls else []),
        f"seen {_time(one.last_seen)}",
    ]
    return f"- `{one.device}`{f' **{one.label}**' if one.label else ''}: {', '.join(parts)}"


def _tool(one: results.Tool) -> str:
    marks = [*(["for people"] if one.user_only else []), *(["not as approved"] if one.warning else [])]
    takes = ", ".join(one.input_schema.get("properties", {}))
    return f"- `{one.name}({takes})`{f' ({chr(44).join(marks)})' if marks else ''}: `{one.description or '-'}`"


def _outcome(one: results.Called | results.Outcome) -> str:
    if one.status == "queued":
        return f"queued until {_time(one.expires_at or '')} (call {one.call})"
    if isinstance(one, results.Outcome) and one.error is not None:
        return f"{one.error.message} ({one.error.code})"
    more = [str(block.get("type")) for block in one.content or () if block.get("type") != "text"]
    return _together(f"`{one.text}`" if one.text else "done", f"(and {', '.join(more)}: see --json)" if more else "")


def _together(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


def _more(cursor: str | None) -> str:
    return f"There are more: `--cursor {cursor}`" if cursor else ""


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 80 else line[:79] + "…"


def _time(iso: str) -> str:
    """To the minute: 2026-07-28 09:00."""
    return f"{iso[:10]} {iso[11:16]}"
