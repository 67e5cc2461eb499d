"""What somebody at the command line reads of boards."""

from typing import Any

import pytest

from kho.devices import markdown, model

AT = "2026-07-28T09:00:05.123456Z"
MAC = "02:4b:00:00:00:01"


def tool(**schema: Any) -> model.ToolEntry:
    return model.ToolEntry(
        name="self.volume", alias="board_volume", description="Sets it.", input_schema=schema, user_only=False
    )


def shown(*tools: model.ToolEntry) -> str:
    return markdown.tools(model.ToolList(device=MAC, status="connected", as_of=AT, tools=list(tools)))


@pytest.mark.parametrize(
    ("part", "required", "words"),
    [
        ({"type": "integer", "minimum": 0, "maximum": 100}, True, "a whole number from 0 to 100, required"),
        ({"type": "boolean"}, False, "true or false, may be left out"),
        ({"type": "integer", "default": 80}, False, "a whole number, 80 unless given"),
        ({"type": "string", "enum": ["dark", "light"]}, True, 'one of "dark", "light", required'),
        ({"type": "string", "description": "Where to."}, True, "a text, required (Where to.)"),
        ({}, True, "anything, required"),
    ],
)
def test_a_tool_says_what_it_takes(part: dict[str, Any], required: bool, words: str) -> None:
    text = shown(tool(type="object", properties={"x": part}, required=["x"] if required else []))
    assert text.splitlines()[2:] == ["- `self.volume`: `Sets it.`", f"  - `x: {words}`"]


def test_what_a_board_says_cannot_pass_for_ours() -> None:
    text = shown(tool(type="object", properties={"a`**b**": {"type": "string", "description": "x\n# y"}}))
    assert text.splitlines()[-1] == "  - ``a`**b**: a text, may be left out (x # y)``"


def test_a_list_says_how_each_board_is() -> None:
    def device(id: str, **more: Any) -> model.DeviceEntry:
        return model.DeviceEntry(device=id, last_seen=AT, **more)

    found = model.DeviceList(
        devices=[
            device("a", status="connected", name="kho-sim", version="2.4.2", tools=1, label="hall", connected_since=AT),
            device("b", status="never_connected"),
            device("c", status="revoked", shows_code=True, queued_calls=2),
        ],
        pending=[device("d", status="pending")],
    )
    assert markdown.devices(found).splitlines() == [
        "- `a` **hall**: connected, kho-sim 2.4.2, 1 tool, since 2026-07-28 09:00 UTC",
        "- `b`: never connected, seen 2026-07-28 09:00 UTC",
        "- `c`: revoked, shows a code to be approved again, 2 calls waiting, seen 2026-07-28 09:00 UTC",
        "",
        "These wait to be approved (`kho devices approve CODE`):",
        "",
        "- `d`: pending, seen 2026-07-28 09:00 UTC",
    ]


def test_notifications_and_calls_are_a_line_each() -> None:
    said = model.NotificationEntry(device=MAC, at=AT, method="notifications/state", params={"on": True, "by": "An\nBé"})
    plain = model.NotificationEntry(device=MAC, at=AT, method="ping")
    assert markdown.notifications(model.NotificationList(notifications=[said, plain])).splitlines() == [
        f'- 2026-07-28 09:00:05 UTC `{MAC}` `notifications/state` `{{"on":true,"by":"An\\nBé"}}`',
        f"- 2026-07-28 09:00:05 UTC `{MAC}` `ping`",
    ]
    entry: dict[str, Any] = {"device": MAC, "at": AT, "tool": "self.volume", "caller": "local", "request_id": "r"}
    calls = [
        model.CallLogEntry(call=2, arguments={"volume": 37}, door="cli", outcome="ok", message="true", ms=4, **entry),
        model.CallLogEntry(call=1, arguments={}, door="cli", outcome="DEVICE_FAILED", message="x" * 300, **entry),
    ]
    first, second = markdown.log(model.CallLog(calls=calls)).splitlines()
    assert first == f'2. 2026-07-28 09:00:05 UTC `{MAC}` `self.volume` `{{"volume":37}}` by local: ok, 4 ms, `true`'
    assert second.startswith(f"1. 2026-07-28 09:00:05 UTC `{MAC}` `self.volume` by local: DEVICE_FAILED, `xxx")
    assert second.endswith("…`")


def test_what_a_board_answers() -> None:
    one = model.Called(tool="t", status="ok", text="line one\nline two")
    assert markdown.called(one) == "```text\nline one\nline two\n```"
    image: dict[str, Any] = {"type": "image", "data": "", "mimeType": "image/jpeg"}
    several = model.Called(
        tool="t",
        status="partly",
        results=[
            model.DeviceOutcome(device="a", status="ok", text="x\ny", content=[image]),
            model.DeviceOutcome(
                device="b", status="failed", error=model.CallProblem(code="DEVICE_OFFLINE", message="Off.")
            ),
        ],
    )
    assert markdown.called(several).splitlines() == [
        "- `a`: `x y` (and image: see --json)",
        "- `b`: Off. (DEVICE_OFFLINE)",
    ]


@pytest.mark.parametrize(
    ("status", "label", "text"),
    [
        ("approved", "hall", f"`{MAC}` (hall) is approved."),
        ("labelled", "hall", f"`{MAC}` is called hall now."),
        ("labelled", None, f"`{MAC}` has no label now."),
        ("revoked", None, f"`{MAC}` is blocked. `kho devices approve {MAC}` approves it again."),
        ("forgotten", None, f"`{MAC}` is forgotten. If it connects again, it is a new board; `revoke` keeps one out."),
    ],
)
def test_what_became_of_a_board(status: Any, label: str | None, text: str) -> None:
    assert markdown.changed(model.DeviceChange(device=MAC, status=status, label=label)) == text
