"""Settings of the devices slice."""

from typing import Literal

from pydantic import Field

from kho.kernel.section import BrokerUrl, Days, Listening, Section, WebAddress

Approval = Literal["auto", "code"]
Mode = Literal["grouped", "each", "off"]


class DeviceSettings(Section):
    approval: Approval | None = None
    """How new boards are approved: 'auto' approves all, 'code' needs somebody to approve the six digits that the board
    shows. Default: 'code' as soon as the hub serves others than the local user, else 'auto'."""
    tools: Mode = "grouped"
    """How tools of connected boards are offered over MCP: one for all boards that have it, one per board, or none."""
    user_tools: bool = False
    """True also offers admins the tools that boards reserve for people, such as rebooting."""
    public_url: WebAddress = ""
    """Address at which boards reach the hub, e.g. 'https://kho.example.org', if it differs from the one they
    request."""
    mqtt_url: BrokerUrl = ""
    """External broker whose boards are served too, e.g. 'mqtt://kho:secret@127.0.0.1:1883'. Needs the extra mqtt."""
    mqtt_boards_url: BrokerUrl = ""
    """Address of the same broker for boards, with user and password; sent to boards that request their settings. When
    not set, boards are sent the WebSocket address."""
    mqtt_broker: Listening = ""
    """Listen address of the embedded broker, e.g. '127.0.0.1:1883'; sent to boards. Needs the extra mqtt."""
    read_only_tools: list[str] = Field(default_factory=lambda: ["self.get_device_status"])
    """Names of tools that change nothing: calls of them are in `device_log` but not in the audit log, which is never
    emptied. Meant for tools that are polled on many boards."""
    keep_notifications_days: Days | None = None
    """After so many days a board's notification is deleted. None: only what is older than its newest 1,000 is."""
    keep_calls_days: Days | None = None
    """After so many days a call leaves the log of calls. None: only what is older than the newest 10,000 does."""
