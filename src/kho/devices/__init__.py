"""Boards that speak the xiaozhi protocol, and the tools that they bring (contract 001)."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from kho.devices.calling import Calling
from kho.devices.events import SCOPE, Events
from kho.devices.faults import FAULTS
from kho.devices.forwarding import Forwarding, UnixForwarding
from kho.devices.forwarding_postgres import PostgresForwarding
from kho.devices.live import Live
from kho.devices.mqtt_served import Brokers, MqttServed
from kho.devices.mqtt_served import need as need_mqtt
from kho.devices.notifications import Notifications
from kho.devices.offering import Mode, Offering
from kho.devices.operations import operations
from kho.devices.queue import Queue
from kho.devices.registrations import Approval, Registrations
from kho.devices.served import served
from kho.devices.service import Service
from kho.devices.tokens import Tokens
from kho.devices.vision import Seer
from kho.kernel.background import Background
from kho.kernel.capability import Announcements, Capability
from kho.kernel.ports import Database
from kho.lib.clock import Clock

__all__ = [
    "FAULTS",
    "MIGRATIONS",
    "Approval",
    "Brokers",
    "Config",
    "Mode",
    "Parts",
    "Seer",
    "assemble",
    "capability",
    "need_mqtt",
]

MIGRATIONS = Path(__file__).parent / "migrations"


@dataclass(frozen=True, slots=True)
class Config:
    home: Path
    """Where processes of this machine meet."""
    database_url: str | None
    """The PostgreSQL in which they meet instead."""
    tenant: str
    """Whose boards are that nobody has to approve."""
    approval: Callable[[], Awaitable[Approval]]
    tools: Mode = "grouped"
    user_tools: bool = False
    public_url: str = ""
    """Where boards reach the hub, if that is not the address they ask at."""
    brokers: Brokers = field(default_factory=Brokers)


@dataclass(frozen=True, slots=True)
class Parts:
    """What the doors of boards work with."""

    events: Events
    registrations: Registrations
    live: Live
    queue: Queue
    notifications: Notifications
    offering: Offering
    service: Service
    calling: Calling
    announcements: Announcements
    tokens: Tokens


def assemble(db: Database, background: Background, clock: Clock, config: Config) -> Parts:
    process, events, announcements = uuid4().hex, Events(), Announcements(scope=SCOPE)
    forwarding: Forwarding = (
        UnixForwarding(config.home / "run", process)
        if config.database_url is None
        else PostgresForwarding(db, clock, config.database_url, process)
    )
    said = Notifications(db, background, clock, events, announcements, process)
    queue = Queue(db, background, clock, events, process)
    live = Live(db, background, clock, events, said, queue, forwarding, process)
    calling = Calling(db, clock, events, live, queue)
    offering = Offering(db, background, clock, config.tools, calling.on_tool, user_tools=config.user_tools)
    live.on_change = offering.nudge
    service = Service(db, clock, events, live, each=config.tools == "each")
    registrations = Registrations(db, clock, config.approval, config.tenant)
    tokens = Tokens(registrations)
    return Parts(events, registrations, live, queue, said, offering, service, calling, announcements, tokens)


def capability(
    db: Database,
    background: Background,
    clock: Clock,
    config: Config,
    seer: Seer | None = None,
    stop: Sequence[Callable[[], Awaitable[None]]] = (),
) -> Capability:
    """`seer` says what a board's photos show; without one, boards are told that there is none. `stop` lets go of it."""
    parts = assemble(db, background, clock, config)
    shared = parts.live, parts.registrations, parts.tokens, config.approval, config.public_url
    mqtt = MqttServed(config.brokers, db, background, clock, *shared)
    web = served(
        parts.registrations,
        parts.live,
        parts.events,
        parts.tokens,
        clock,
        config.approval,
        seer=seer,
        public_url=config.public_url,
        mqtt=mqtt.told,
    )
    return Capability(
        "devices",
        "devices-server",
        operations(parts.service, parts.calling),
        "Devices: boards that are connected, and their tools.",
        sources=(parts.offering,),
        announcements=parts.announcements,
        instructions="devices_list names the user's boards, and device_tools says what each can do; have them do it "
        "with device_call, or with the tools that come and go with the boards.",
        absent=parts.offering.absent,
        migrations=MIGRATIONS,
        start=(parts.live.run, parts.offering.run, parts.notifications.run),
        serve=mqtt.work,
        stop=(parts.live.close, *stop),
        web=web,
    )
