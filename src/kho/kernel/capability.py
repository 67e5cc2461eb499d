"""A capability: everything that one slice contributes to the hub, as `app` plugs it in."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Literal, Protocol

from kho.kernel.access import Scope
from kho.kernel.call import Call
from kho.kernel.operation import Operation
from kho.kernel.ports import Tx
from kho.kernel.searchable import Searchable
from kho.kernel.toolset import Instructions
from kho.kernel.upkeep.defect import Finding, Progress
from kho.kernel.web import Served
from kho.lib.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Argument:
    name: str
    description: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class Prompt:
    """An MCP prompt. `render` returns the user message."""

    name: str
    description: str
    render: Callable[[dict[str, str], Call], Awaitable[Any]]
    arguments: Sequence[Argument] = ()
    scope: Scope = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class Resource:
    uri: str
    name: str
    description: str = ""
    mime_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class ResourceContent:
    uri: str
    mime_type: str
    text: str | None = None
    blob: bytes | None = None


class ResourceProvider(Protocol):
    """Resources that a client can list and read by URI. Only called for callers that have its scope."""

    @property
    def scope(self) -> Scope: ...

    @property
    def templates(self) -> Sequence[Resource]:
        """URI templates, for resources that are too many to list."""
        ...

    async def page(self, call: Call, cursor: str | None) -> tuple[Sequence[Resource], str | None]: ...

    async def read(self, call: Call, uri: str) -> ResourceContent | None:
        """Return None if the URI is not one of these, or not visible to the caller."""
        ...

    async def complete(self, call: Call, uri: str, argument: str, value: str) -> Sequence[str]: ...


class Changes:
    """Notifies subscribers in this process which tenant's resources changed."""

    def __init__(self, *, scope: Scope) -> None:
        self.scope: Scope = scope
        self._listeners: list[Callable[[str, str | None], None]] = []

    def subscribe(self, changed: Callable[[str, str | None], None]) -> None:
        """Call `changed` with the tenant and the URI; the URI is None if the list itself changed."""
        self._listeners.append(changed)

    def tell(self, tenant: str, uri: str | None = None) -> None:
        for changed in self._listeners:
            changed(tenant, uri)


Level = Literal["info", "warning"]


class Announcements:
    """Notifies subscribers in this process of events that a tenant's clients may want to know at once."""

    def __init__(self, *, scope: Scope) -> None:
        self.scope: Scope = scope
        self._listeners: list[Callable[[str, Level, str, Any], None]] = []

    def subscribe(self, announced: Callable[[str, Level, str, Any], None]) -> None:
        """Call `announced` with the tenant, the severity, the name of the sender, and the event as JSON."""
        self._listeners.append(announced)

    def tell(self, tenant: str, level: Level, speaker: str, what: Any) -> None:
        for announced in self._listeners:
            announced(tenant, level, speaker, what)


class Source(Protocol):
    """Operations that come and go while the hub runs, such as the tools of connected boards."""

    def operations(self) -> Sequence[Operation]: ...

    def subscribe(self, changed: Callable[[], None]) -> None: ...


class Presence(Protocol):
    """Tenants that have what a capability's tools act on, such as a board. One of its sources notifies of changes."""

    async def ready(self) -> None:
        """Return once it is known: a client that lists the tools right after the start does not ask again."""
        ...

    def tenants(self) -> Collection[str]: ...


@dataclass(frozen=True, slots=True)
class Transfer:
    """CLI commands `GROUP export` and `GROUP import`, which copy everything to and from a file, a line for each item:
    JSON, or text as it is."""

    group: str
    """Command words before `export` and `import`."""
    export: str
    """Method that returns a page, with `next_cursor` if there are more."""
    import_: str = ""
    """Empty if there is nothing to import."""
    items: str = "lines"
    """Name of the field that holds the lines, in both methods."""
    told: Mapping[str, str] = field(default_factory=dict[str, str])
    """Counts in the answer to an import, and the text for each: as 'one|several' if the plural differs."""
    what: str = ""
    """What is exported, for the help; all of the capability if empty."""
    complete: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Parameters with which the export leaves nothing out: the command sets them."""
    words: tuple[str, str] = ("export", "import")
    """Names of the two commands."""


class Upkeep(Protocol):
    """Consistency checks of a slice's rows and their index entries, for `kho verify` and `kho doctor`."""

    def quick_findings(self, tx: Tx) -> Iterable[Finding]:
        """Yield what is wrong as far as the database alone can tell, for `kho doctor`."""
        ...

    def findings(self, tx: Tx, progress: Progress) -> Iterable[Finding]:
        """Yield what is wrong with the rows of all tenants: reads every one."""
        ...

    def index_findings(self, tx: Tx, progress: Progress) -> Iterable[Finding]:
        """Yield what is wrong with what is indexed of them."""
        ...

    def strays(self, tx: Tx) -> Iterable[tuple[str, str, str, str]]:
        """Yield space, tenant, collection and key of what is indexed and is not there."""
        ...

    def settle(self, tx: Tx) -> None:
        """Let rows that were read out of a damaged SQLite file stand without those that are lost."""
        ...


@dataclass(frozen=True, slots=True)
class Gauge:
    """A figure for /metrics that is read when asked for: it belongs to the store, not to one of several workers."""

    name: str
    help: str
    read: Callable[[Tx], float]


@dataclass(frozen=True, slots=True)
class Capability:
    name: str
    server: str
    """Name at /servers and before its methods at /jsonrpc."""
    operations: Sequence[Operation]
    summary: str = ""
    """One line for people."""
    instructions: Instructions = field(default=Instructions(), kw_only=True)
    prompts: Sequence[Prompt] = ()
    resources: ResourceProvider | None = None
    announcements: Announcements | None = None
    """Sends events that no call asked for: MCP clients that use the handshake protocol get them as log messages."""
    sources: Sequence[Source] = ()
    presence: Presence | None = None
    """Set if the tools that its toolsets list are of use only to some tenants: only these then see them."""
    absent: Callable[[str, str], Awaitable[Operation | None]] | None = None
    """Finds, by tool name and tenant, a tool that the sources do not offer now: calling it explains why."""
    migrations: Path | None = None
    start: Sequence[Callable[[], Awaitable[None]]] = ()
    """Background work that starts with the hub, also with one that is read-only: upkeep of what Kho itself keeps, such
    as indexes."""
    follow: Sequence[Callable[[], Awaitable[None]]] = ()
    """Same, but changes what callers keep or sends it out, such as deletions with a date and webhooks; so not in a hub
    that is read-only."""
    serve: Sequence[Callable[[], Awaitable[None]]] = ()
    """Same, but only in a hub that others reach (`kho serve`), not in a short-lived command or a read-only hub."""
    stop: Sequence[Callable[[], Awaitable[None]]] = ()
    """Cleanup when the hub stops, after all background work."""
    lists_tools: bool = True
    """True if /servers lists its tools: contract 002 shows a memory server without any."""
    transfers: Sequence[Transfer] = ()
    upkeep: Upkeep | None = None
    gauges: Sequence[Gauge] = ()
    web: Sequence[Served] = ()
    """What it serves over HTTP in addition to its operations."""
    resource_changes: Changes | None = None
    """Notifies of changed resources, after the commit."""
    searchable: Sequence[Searchable] = ()
    """What `search`, `fetch` and `recent` can find of it."""
    finish: Callable[["Capability", Sequence["Capability"]], "Capability"] | None = None
    """Called once all slices are open, for one that reads them all: adds what depends on them, such as its scope."""
