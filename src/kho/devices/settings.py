"""The settings of devices."""

from typing import Literal

from kho.kernel.section import BrokerUrl, Listening, Section, WebAddress

Approval = Literal["auto", "code"]
Mode = Literal["grouped", "each", "off"]


class DeviceSettings(Section):
    approval: Approval | None = None
    """Who lets a new board in: 'auto' everybody, 'code' whoever approves the six digits that it shows. When not set,
    'code' as soon as the hub serves others than this machine's user."""
    tools: Mode = "grouped"
    """Tools of connected boards as tools over MCP: one for all boards that have it, one for each board, or none."""
    user_tools: bool = False
    """Whether admins are offered, too, what boards keep for people, such as rebooting."""
    public_url: WebAddress = ""
    """Where boards reach the hub, e.g. 'https://kho.example.org', if that is not the address they ask at."""
    mqtt_url: BrokerUrl = ""
    """A broker whose boards are served too, e.g. 'mqtt://kho:secret@127.0.0.1:1883'. Needs kho[mqtt]."""
    mqtt_boards_url: BrokerUrl = ""
    """The same broker as boards reach it, with a name and password for them; they are told it when they ask for their
    settings. When not set, they are told the WebSocket."""
    mqtt_broker: Listening = ""
    """Where a broker of Kho's own listens, e.g. '127.0.0.1:1883'; boards are told so. Needs kho[mqtt]."""
