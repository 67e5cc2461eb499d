"""Wires the devices slice into the hub."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

from kho.devices import INSTRUCTIONS, store
from kho.devices.calls.queue import Queue
from kho.devices.calls.service import DeviceCalls
from kho.devices.connections.boards import ConnectedBoards
from kho.devices.connections.forwarding import UnixForwarding
from kho.devices.connections.forwarding_postgres import PostgresForwarding
from kho.devices.contract import ADMIN, DEVICES
from kho.devices.directory import TIMEOUT, Directory
from kho.devices.events import SCOPE, Events
from kho.devices.http.vision import Seer
from kho.devices.integrity import UPKEEP
from kho.devices.management import Management
from kho.devices.mqtt.board import MqttHub
from kho.devices.mqtt.config import MqttServed
from kho.devices.notifications import Notifications
from kho.devices.pairing.registrations import Approving, Registrations
from kho.devices.pairing.tokens import Tokens
from kho.devices.routes import served
from kho.devices.settings import Approval, DeviceSettings
from kho.devices.tools.mcp_tools import BoardTools
from kho.devices.transfer import DeviceTransfer
from kho.kernel.capability import Announcements, Capability, Gauge, Transfer
from kho.kernel.limits.limiter import Limiter
from kho.kernel.limits.settings import LimitSettings
from kho.lib.dataclass import dataclass
from kho.search.core import Core

MIGRATIONS = Path(__file__).parent / "migrations"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The services of the slice."""

    events: Events
    announcements: Announcements
    notifications: Notifications
    queue: Queue
    live: ConnectedBoards
    registrations: Registrations
    tokens: Tokens
    directory: Directory
    calls: DeviceCalls
    management: Management
    transfer: DeviceTransfer
    board_tools: BoardTools


def described(
    directory: Directory | type[Directory] = Directory,
    calls: DeviceCalls | type[DeviceCalls] = DeviceCalls,
    management: Management | type[Management] = Management,
    transfer: DeviceTransfer | type[DeviceTransfer] = DeviceTransfer,
) -> Capability:
    """Return the capability's description; with the classes instead of services, for help texts."""
    return Capability(
        "devices",
        "devices-server",
        (*DEVICES.bind(directory, calls, management), *ADMIN.bind(management, transfer)),
        "Devices: boards that are connected, and their tools.",
        instructions=INSTRUCTIONS,
        transfers=(
            Transfer(
                "devices",
                "export_devices",
                "import_devices",
                told={"imported": "imported", "unchanged": "existed already"},
            ),
        ),
    )


def assemble(
    core: Core,
    settings: DeviceSettings,
    *,
    sockets: Path,
    database_url: str | None,
    tenant: str,
    approval: Approving,
    limits: LimitSettings,
) -> Parts:
    """Build the services. Processes forward calls to each other through unix sockets in the folder `sockets`, or
    through PostgreSQL if `database_url` is set. `tenant` owns the boards that are approved automatically."""
    db, background, clock, process = core.db, core.background, core.clock, core.leases.holder
    events, announcements = Events(), Announcements(scope=SCOPE)
    notifications = Notifications(
        db=db, background=background, clock=clock, events=events, announcements=announcements, process=process
    )
    queue = Queue(db=db, background=background, clock=clock, events=events, process=process)
    live = ConnectedBoards(
        db=db,
        background=background,
        clock=clock,
        events=events,
        notifications=notifications,
        queue=queue,
        forwarding=UnixForwarding(sockets, process)
        if database_url is None
        else PostgresForwarding(db, clock, database_url, process),
        process=process,
        frames=limits.frames,
    )
    read_only = frozenset(settings.read_only_tools)
    calls = DeviceCalls(db=db, clock=clock, events=events, live=live, queue=queue, read_only_tools=read_only)
    board_tools = BoardTools(db=db, background=background, clock=clock, settings=settings, on_tool=calls.on_tool)
    live.on_change = board_tools.nudge
    registrations = Registrations(db=db, clock=clock, approval=approval, tenant=tenant)
    return Parts(
        events=events,
        announcements=announcements,
        notifications=notifications,
        queue=queue,
        live=live,
        registrations=registrations,
        tokens=Tokens(registrations),
        directory=Directory(db=db, clock=clock, live=live, settings=settings),
        calls=calls,
        management=Management(db=db, clock=clock, events=events, live=live, quotas=core.quotas),
        transfer=DeviceTransfer(db=db, clock=clock, quotas=core.quotas, timeout=TIMEOUT, on_change=board_tools.nudge),
        board_tools=board_tools,
    )


def capability(
    core: Core,
    settings: DeviceSettings,
    *,
    sockets: Path,
    database_url: str | None,
    tenant: str,
    shared: Callable[[], Awaitable[bool]],
    limits: LimitSettings,
    seer: Seer | None = None,
    stop: Sequence[Callable[[], Awaitable[None]]] = (),
) -> Capability:
    """Build the capability. `shared` returns True if the hub serves others than the local user. `seer` describes photos
    of boards; without one, boards get an answer that says so. `stop` closes it."""

    async def approval() -> Approval:
        return settings.approval or ("code" if await shared() else "auto")

    parts = assemble(
        core, settings, sockets=sockets, database_url=database_url, tenant=tenant, approval=approval, limits=limits
    )
    live, registrations, tokens = parts.live, parts.registrations, parts.tokens
    hub = MqttHub(live=live, registrations=registrations, tokens=tokens, public_url=settings.public_url.rstrip("/"))
    mqtt = MqttServed(hub, settings, core.leases, core.background)
    return replace(
        described(parts.directory, parts.calls, parts.management, parts.transfer),
        sources=(parts.board_tools,),
        presence=parts.board_tools,
        announcements=parts.announcements,
        absent=parts.board_tools.absent,
        migrations=MIGRATIONS,
        upkeep=UPKEEP,
        start=(live.run, parts.board_tools.run, parts.notifications.run),
        serve=mqtt.work,
        stop=(live.close, *stop),
        gauges=(
            Gauge("kho_boards", "Boards that are approved.", store.known_count),
            Gauge(
                "kho_boards_connected",
                "Approved boards that are connected.",
                lambda tx: store.connected_count(tx, core.clock()),
            ),
        ),
        web=served(
            registrations,
            tokens,
            live,
            parts.events,
            seer=seer,
            public_url=settings.public_url,
            mqtt=mqtt.told,
            limiter=Limiter(limits),
        ),
    )
