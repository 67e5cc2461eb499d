"""Devices, as the hub plugs them in."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kho.devices.calls.queue import Queue
from kho.devices.calls.service import DeviceCalls
from kho.devices.connections.boards import ConnectedBoards
from kho.devices.connections.forwarding import UnixForwarding
from kho.devices.connections.forwarding_postgres import PostgresForwarding
from kho.devices.contract import DEVICES
from kho.devices.events import SCOPE, Events
from kho.devices.http.vision import Seer
from kho.devices.management import Service
from kho.devices.mqtt.config import MqttServed
from kho.devices.notifications import Notifications
from kho.devices.pairing.registrations import Approving, Registrations
from kho.devices.pairing.tokens import Tokens
from kho.devices.routes import served
from kho.devices.settings import Approval, DeviceSettings
from kho.devices.tools.mcp_tools import BoardTools
from kho.kernel.capability import Announcements, Capability
from kho.search.core import Core

MIGRATIONS = Path(__file__).parent / "migrations"


@dataclass(frozen=True, slots=True)
class Parts:
    """What the doors of boards work with."""

    approval: Approving
    events: Events
    registrations: Registrations
    live: ConnectedBoards
    queue: Queue
    notifications: Notifications
    offering: BoardTools
    service: Service
    calling: DeviceCalls
    announcements: Announcements
    tokens: Tokens


def described(
    service: Service | type[Service] = Service, calling: DeviceCalls | type[DeviceCalls] = DeviceCalls
) -> Capability:
    """What it offers; with the classes themselves, for help texts."""
    listed, tools, *management = DEVICES.bind(service)
    return Capability(
        "devices",
        "devices-server",
        (listed, tools, *DEVICES.bind(calling), *management),
        "Devices: boards that are connected, and their tools.",
        instructions="devices_list names the user's boards, and device_tools says what each can do; have them do it "
        "with device_call, or with the tools that come and go with the boards.",
    )


def assemble(
    core: Core, settings: DeviceSettings, *, home: Path, database_url: str | None, tenant: str, approval: Approving
) -> Parts:
    """`home` is where processes of this machine meet, `database_url` the PostgreSQL in which they meet instead;
    `tenant` owns the boards that nobody has to approve."""
    db, background, clock, process = core.db, core.background, core.clock, core.leases.holder
    events, announcements = Events(), Announcements(scope=SCOPE)
    forwarding = (
        UnixForwarding(home / "run", process)
        if database_url is None
        else PostgresForwarding(db, clock, database_url, process)
    )
    said = Notifications(
        db=db, background=background, clock=clock, events=events, announcements=announcements, process=process
    )
    queue = Queue(db=db, background=background, clock=clock, events=events, process=process)
    live = ConnectedBoards(
        db=db,
        background=background,
        clock=clock,
        events=events,
        said=said,
        queue=queue,
        forwarding=forwarding,
        process=process,
    )
    calling = DeviceCalls(db=db, clock=clock, events=events, live=live, waiting=queue)
    offering = BoardTools(db=db, background=background, clock=clock, settings=settings, on_tool=calling.on_tool)
    live.on_change = offering.nudge
    service = Service(db=db, clock=clock, events=events, live=live, settings=settings)
    registrations = Registrations(db=db, clock=clock, approval=approval, tenant=tenant)
    tokens = Tokens(registrations)
    return Parts(approval, events, registrations, live, queue, said, offering, service, calling, announcements, tokens)


def capability(
    core: Core,
    settings: DeviceSettings,
    *,
    home: Path,
    database_url: str | None,
    tenant: str,
    shared: Callable[[], Awaitable[bool]],
    seer: Seer | None = None,
    stop: Sequence[Callable[[], Awaitable[None]]] = (),
) -> Capability:
    """`shared` says whether the hub serves others than this machine's user. `seer` says what a board's photos show;
    without one, boards are told that there is none. `stop` lets go of it."""

    async def approval() -> Approval:
        return settings.approval or ("code" if await shared() else "auto")

    parts = assemble(core, settings, home=home, database_url=database_url, tenant=tenant, approval=approval)
    mqtt = MqttServed(core, settings, parts.live, parts.registrations, parts.tokens, approval)
    return replace(
        described(parts.service, parts.calling),
        sources=(parts.offering,),
        announcements=parts.announcements,
        absent=parts.offering.absent,
        migrations=MIGRATIONS,
        start=(parts.live.run, parts.offering.run, parts.notifications.run),
        serve=mqtt.work,
        stop=(parts.live.close, *stop),
        web=served(
            parts.registrations,
            parts.live,
            parts.events,
            parts.tokens,
            core.clock,
            approval,
            seer=seer,
            public_url=settings.public_url,
            mqtt=mqtt.told,
        ),
    )
