"""A capability: one slice's whole contribution to the hub, as `app` plugs it in."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from kho.kernel.access import Scope
from kho.kernel.call import Call
from kho.kernel.operation import Operation
from kho.kernel.ports import Tx
from kho.kernel.web import Served


@dataclass(frozen=True, slots=True)
class Argument:
    name: str
    description: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class Prompt:
    """A text that a client's user starts from. `render` gives the user message."""

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
class Content:
    uri: str
    mime_type: str
    text: str | None = None
    blob: bytes | None = None


class Resources(Protocol):
    """Things a client may list and read by URI. It is asked for callers whom its scope lets in, and for no others."""

    @property
    def scope(self) -> Scope: ...

    @property
    def templates(self) -> Sequence[Resource]:
        """URI templates, for what is too many to list."""
        ...

    async def page(self, call: Call, cursor: str | None) -> tuple[Sequence[Resource], str | None]: ...

    async def read(self, call: Call, uri: str) -> Content | None:
        """None when the URI is not one of these, or not the caller's."""
        ...

    async def complete(self, call: Call, uri: str, argument: str, value: str) -> Sequence[str]: ...


class Changes:
    """Tells whoever asked, in this process, whose resources changed."""

    def __init__(self, *, scope: Scope) -> None:
        self.scope: Scope = scope
        self._listeners: list[Callable[[str, str | None], None]] = []

    def subscribe(self, changed: Callable[[str, str | None], None]) -> None:
        """`changed` is called with the tenant, and with the URI unless it is the list that changed."""
        self._listeners.append(changed)

    def tell(self, tenant: str, uri: str | None = None) -> None:
        for changed in self._listeners:
            changed(tenant, uri)


Level = Literal["info", "warning"]


class Announcements:
    """Tells whoever asked, in this process, what happened that a tenant's clients may want to know at once."""

    def __init__(self, *, scope: Scope) -> None:
        self.scope: Scope = scope
        self._listeners: list[Callable[[str, Level, str, Any], None]] = []

    def subscribe(self, announced: Callable[[str, Level, str, Any], None]) -> None:
        """`announced` is called with the tenant, how serious it is, who speaks, and what happened, as JSON."""
        self._listeners.append(announced)

    def tell(self, tenant: str, level: Level, speaker: str, what: Any) -> None:
        for announced in self._listeners:
            announced(tenant, level, speaker, what)


class Source(Protocol):
    """Operations that come and go while the hub runs, such as the tools of connected boards."""

    def operations(self) -> Sequence[Operation]: ...

    def subscribe(self, changed: Callable[[], None]) -> None: ...


@dataclass(frozen=True, slots=True)
class Transfer:
    """Everything out to a file of JSON lines and in again, on the command line: `GROUP export` and `GROUP import`."""

    group: str
    """The words before `export` and `import`."""
    export: str
    """The method that gives a page, with `next_cursor` if there are more."""
    import_: str
    items: str
    """What the lines are called in both."""
    told: Mapping[str, str]
    """Counts in the answer to an import, and how they are told: as 'one|several' where that differs."""


class Upkeep(Protocol):
    """How a slice's rows and what is filed of them fit together, for `kho doctor`."""

    def problems(self, tx: Tx) -> list[str]:
        """What does not, a sentence each."""
        ...

    def mend(self, tx: Tx) -> None:
        """Puts right what filing all rows anew does not."""
        ...


@dataclass(frozen=True, slots=True)
class Capability:
    name: str
    server: str
    """Its name at /servers and before its methods at /jsonrpc."""
    operations: Sequence[Operation]
    summary: str = ""
    """One line for people."""
    instructions: str = field(default="", kw_only=True)
    """What a model should know before it chooses among its tools: a sentence or two."""
    prompts: Sequence[Prompt] = ()
    resources: Resources | None = None
    announcements: Announcements | None = None
    """Says what happens that no call asked for: MCP clients of the handshake era get it as log messages."""
    sources: Sequence[Source] = ()
    absent: Callable[[str, str], Awaitable[Operation | None]] | None = None
    """Finds, by a tool's name and the tenant, one that the sources do not offer now: a call of it then says why."""
    migrations: Path | None = None
    start: Sequence[Callable[[], Awaitable[None]]] = ()
    """Background work that begins when the hub does."""
    serve: Sequence[Callable[[], Awaitable[None]]] = ()
    """The same, but only in a hub that others reach (`kho serve`): a command that is over in a moment has none."""
    stop: Sequence[Callable[[], Awaitable[None]]] = ()
    """What is let go when the hub stops, after all background work."""
    lists_tools: bool = True
    """Whether /servers names its tools: contract 002 shows a memory server that has none."""
    transfers: Sequence[Transfer] = ()
    upkeep: Upkeep | None = None
    web: Sequence[Served] = ()
    """What it serves over HTTP beside its operations."""
    resource_changes: Changes | None = None
    """Says when its resources change. Told after the commit."""
