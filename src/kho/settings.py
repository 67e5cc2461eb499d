"""All settings. The only module that reads the environment and the settings file.

`KHO_HOME`, `KHO_DATABASE_URL` and `KHO_CONFIG` are top-level; the others are nested, e.g. `KHO_HTTP__PORT=9000`, or in
the TOML file that `KHO_CONFIG` names:

    [http]
    port = 9000

An empty variable counts as not set.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Self, cast, get_origin
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator

from kho import __version__
from kho.audit.settings import AuditSettings
from kho.devices.settings import DeviceSettings
from kho.documents.settings import DocumentSettings
from kho.experiences.settings import ExperienceSettings
from kho.facts.settings import FactSettings
from kho.kernel import validation
from kho.kernel.access import ADMIN, METRICS
from kho.kernel.call import Principal
from kho.kernel.errors import KhoError
from kho.kernel.limits.settings import LimitSettings
from kho.kernel.section import HostName, Interval, Network, Origin, Section, WebAddress
from kho.kernel.validation import Problem
from kho.lib.merge import merged
from kho.memory.settings import MemorySettings
from kho.models.settings import Embedding, LlmSettings, Reranking, VisionSettings
from kho.research.settings import ResearchSettings
from kho.sanitizer.settings import SanitizerSettings
from kho.toolbox.settings import ToolboxSettings

DATABASE = "kho.db"
"""File name of the embedded database, in `home`."""
SOCKETS = "run"
"""Folder in `home` for the unix sockets between processes of this machine."""
MODELS = "models"
"""Folder in `home` for models that no package brings."""
BACKUPS = "backups"
"""Folder in `home` for backups that are not given another place."""


class InvalidSettings(KhoError):
    """The settings are invalid; the message says why, in a sentence."""

    code = "INVALID_SETTINGS"


class Http(Section):
    host: str = "127.0.0.1"
    port: int = Field(default=8001, ge=0, le=65535)
    workers: int = Field(default=1, ge=1, le=64)
    max_body: int = Field(default=8 * 1024 * 1024, ge=1024)
    header_timeout: float = Field(default=10.0, gt=0)
    body_timeout: float = Field(default=30.0, gt=0)
    allowed_hosts: list[HostName] = Field(default_factory=list[HostName])
    """Host names of the hub besides the loopback ones, e.g. 'kho.example.org'."""
    allowed_origins: list[Origin] = Field(default_factory=list[Origin])
    """Allowed origins besides the loopback ones, e.g. 'https://kho.example.org'."""
    public_url: WebAddress = ""
    """Address of the hub in links, e.g. 'https://kho.example.org'; made of host and port if empty."""
    other_accounts: bool = False
    """Without keys, also answer programs of this machine's other accounts, where the hub can tell (Linux)."""
    trusted_proxies: list[Network] = Field(default_factory=list[Network])
    """Addresses or networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are believed, e.g. '127.0.0.1'."""
    tls_cert: Path | None = None
    """Certificate in PEM form, with those that it is signed by; with `tls_key` the hub speaks HTTPS."""
    tls_key: Path | None = None
    """Its private key in PEM form, without a password."""

    @model_validator(mode="after")
    def _both_or_neither(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key need each other: name both, or neither")
        return self

    @property
    def address(self) -> str:
        """Address for links."""
        return self.public_url.rstrip("/") or self.local_address

    @property
    def local_address(self) -> str:
        """Address for programs on this machine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host.strip("[]"))
        scheme = "http" if self.tls_cert is None else "https"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"


class Local(Section):
    """Identity of this machine's user."""

    sub: str = "local"
    tenant: str = "local"


class VectorIndex(Section):
    """Where vectors are stored: in the database itself, or in a Qdrant server fed from it."""

    engine: Literal["database", "qdrant"] = "database"
    qdrant_url: WebAddress = ""
    """e.g. 'http://127.0.0.1:6333'"""
    qdrant_api_key: SecretStr = SecretStr("")


class Search(Section):
    timeout: float = Field(default=10.0, gt=0)
    patience: float = Field(default=2.5, gt=0)
    """Seconds that an answer waits for the model; then only keyword search answers, and the answer says so."""
    embedder: Embedding = Field(default_factory=Embedding)
    reranker: Reranking = Field(default_factory=Reranking)
    vectors: VectorIndex = Field(default_factory=VectorIndex)


class Mcp(Section):
    tools: list[str] = Field(default_factory=list[str])
    """Tools that MCP clients list: sets (minimal, default, all), capabilities and names of tools; default if empty."""
    page_size: int = Field(default=200, ge=1, le=1000)
    """Tools and resources on a page. All tools fit on one by default: not every client requests the next."""


class JsonRpcSettings(Section):
    answer_without_id: bool = False
    """Answer requests at /jsonrpc that have no `id` as if it were null, for clients that send none and read the reply.
    JSON-RPC 2.0 calls such a request a notification, which gets no answer."""


class Observe(Section):
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    log_format: Literal["auto", "json", "text"] = "auto"
    """'auto' is a readable line on a terminal and JSON elsewhere."""
    otlp_endpoint: WebAddress | None = None
    """Where OpenTelemetry spans are sent, e.g. 'http://127.0.0.1:4318/v1/traces'. Needs the extra otel."""


class BackupSettings(Section):
    every: Interval = ""
    """How often `kho serve` makes a backup, e.g. '1d'; empty: never."""
    keep: int = Field(default=7, ge=1, le=10_000)
    """How many of them are kept."""
    folder: Path | None = None
    """Where they are; `backups` in the data folder if absent."""


class Settings(BaseModel):
    """All settings. Arguments override the environment, which overrides the file."""

    model_config = ConfigDict(extra="forbid")

    home: Path = Field(default_factory=lambda: _data_folder())
    database_url: str | None = None
    """'postgresql://…'; a SQLite file in `home` if absent."""
    http: Http = Field(default_factory=Http)
    local: Local = Field(default_factory=Local)
    mcp: Mcp = Field(default_factory=Mcp)
    jsonrpc: JsonRpcSettings = Field(default_factory=JsonRpcSettings)
    facts: FactSettings = Field(default_factory=FactSettings)
    experiences: ExperienceSettings = Field(default_factory=ExperienceSettings)
    research: ResearchSettings = Field(default_factory=ResearchSettings)
    memory: MemorySettings = Field(default_factory=MemorySettings)
    documents: DocumentSettings = Field(default_factory=DocumentSettings)
    devices: DeviceSettings = Field(default_factory=DeviceSettings)
    toolbox: ToolboxSettings = Field(default_factory=ToolboxSettings)
    audit: AuditSettings = Field(default_factory=AuditSettings)
    sanitizer: SanitizerSettings = Field(default_factory=SanitizerSettings)
    llm: LlmSettings = Field(default_factory=LlmSettings)
    vision: VisionSettings = Field(default_factory=VisionSettings)
    search: Search = Field(default_factory=Search)
    observe: Observe = Field(default_factory=Observe)
    limits: LimitSettings = Field(default_factory=LimitSettings)
    backup: BackupSettings = Field(default_factory=BackupSettings)
    database_timeout: float = Field(default=10.0, gt=0, le=600)
    """Seconds to wait for the database: for another process that writes (SQLite), for a connection or for a row that
    another transaction has locked (PostgreSQL)."""
    migrate: Literal["auto", "ask"] | None = None
    """Whether a start brings a database of an earlier version up to date ('auto'), or leaves that to 'kho migrate
    --apply' ('ask'). Left out: 'auto' on SQLite, which is copied first, and 'ask' on PostgreSQL."""
    read_only: bool = False
    """Answer, but change nothing, whoever asks; boards cannot connect."""

    @property
    def fingerprint(self) -> str:
        """Digest of the version and the settings that affect answers: equal for two processes that would answer the
        same."""
        decisive = self.model_dump_json(exclude={"http", "mcp", "observe", "devices", "vision", "migrate", "backup"})
        return hashlib.blake2b(f"{__version__} {self.http.public_url} {decisive}".encode(), digest_size=16).hexdigest()

    @model_validator(mode="after")
    def _known_by_our_links(self) -> Self:
        """Allow the hosts of the URLs that boards are configured with and that links have."""
        for url in (self.devices.public_url, self.http.public_url):
            host = urlsplit(url).netloc
            if host and host not in self.http.allowed_hosts:
                self.http.allowed_hosts.append(host)
        return self

    @model_validator(mode="after")
    def _models_with_the_data(self) -> Self:
        """Here and not where it is read, because `kho eval` has a store in another place and the same model."""
        self.search.embedder.folder = self.search.embedder.folder or self.home / MODELS
        return self

    @model_validator(mode="before")
    @classmethod
    def _from_outside(cls, given: dict[str, Any]) -> dict[str, Any]:
        return merged(_file(), merged(_environment(cls), given))


PREFIX = "kho_"


def _environment(model: type[BaseModel]) -> dict[str, Any]:
    """Return the variables that name a setting. A list is written as JSON or separated by commas, a whole section as
    JSON. A misspelt section is returned as well, so that it is refused: nobody notices a setting that has no effect."""
    found: dict[str, Any] = {}
    for name, text in os.environ.items():
        path = name.lower().removeprefix(PREFIX).split("__")
        if not text or not name.lower().startswith(PREFIX) or path == ["config"]:
            continue
        if (
            path[0] not in model.model_fields
            and len(path) == 1
            and not _similar(path[0], [*model.model_fields, "config"])
        ):
            continue  # a variable of another program: Kubernetes sets KHO_PORT and others for a service named kho
        value: Any = text
        kind = _kind(model, path)
        if get_origin(kind) is list and text.lstrip()[0] not in "[{":
            value = [part.strip() for part in text.split(",") if part.strip()]
        elif get_origin(kind) in {list, dict} or _is_section(kind):
            value = _json(name.upper(), text, kind)
        for part in reversed(path):
            value = {part: value}
        found = merged(found, value)
    return found


def _json(name: str, text: str, kind: Any) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        if get_origin(kind) is list:
            told = f'A list is written as {name}=\'["one", "two"]\' or {name}=one,two.'
        else:
            told = "A section is written as JSON, a single setting as KHO_HTTP__PORT=9000."
        raise InvalidSettings(f"{name} is not JSON. {told}") from None


def _kind(model: type[BaseModel], path: Sequence[str]) -> Any:
    """Return the type of a setting or section; None if there is none at that path."""
    kind: Any = model
    for part in path:
        field = kind.model_fields.get(part) if _is_section(kind) else None
        if field is None:
            return None
        kind = field.annotation
    return kind


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _data_folder() -> Path:
    import platformdirs  # only if KHO_HOME is not set

    return Path(platformdirs.user_data_dir("kho", appauthor=False))


def _file() -> dict[str, Any]:
    name = os.environ.get("KHO_CONFIG")
    if not name:
        return {}
    import tomllib  # most installations have no file

    try:
        return tomllib.loads(Path(name).read_text("utf-8"))
    except OSError:
        raise InvalidSettings(f"KHO_CONFIG names {name}, which is not a file.") from None
    except ValueError as problem:
        raise InvalidSettings(f"{name} is not valid TOML: {problem}") from None


def load() -> Settings:
    """Load the settings of this process. Errors do not show the values, which may be secrets."""
    try:
        return Settings()
    except ValidationError as failure:
        told = [f"{_place(problem.field.split('.'))}: {_told(problem)}" for problem in validation.found(failure)]
        raise InvalidSettings("; ".join(told)) from None


def _place(path: Sequence[str]) -> str:
    """Return the name of a setting where it was set: its variable, or its place in the settings file."""
    path = [part for part in path if not part.isdigit()]  # of an item in a list, the list
    variable = f"KHO_{'__'.join(path)}".upper()
    if set_ := [name.upper() for name in os.environ if name.upper() == variable]:
        return set_[0]
    if set_ := sorted(name.upper() for name in os.environ if name.upper().startswith(f"{variable}__")):
        return set_[0] if _kind(Settings, path) is None else variable
    return variable if _at(_file(), path) is None else f"{'.'.join(path)} in {os.environ['KHO_CONFIG']}"


def _at(values: Any, path: Sequence[str]) -> Any:
    for part in path:
        values = cast(dict[str, Any], values).get(part) if isinstance(values, dict) else None
    return values


def _told(problem: Problem) -> str:
    path = problem.field.split(".")
    if problem.kind == "extra_forbidden":
        section = _kind(Settings, path[:-1])
        known = [*section.model_fields, *(["config"] if section is Settings else [])]
        place = _place(path)
        if similar := _similar(path[-1], known):
            own, right = (path[-1], similar) if place.startswith(path[0]) else (path[-1].upper(), similar.upper())
            return f"there is no such setting. Did you mean {place.replace(own, right, 1)}?"
        return f"there is no such setting. There are: {', '.join(known)}"
    if problem.kind == "model_type":
        return "is a section, not a value. Its settings are written as KHO_HTTP__PORT, or below [http] in a file"
    return problem.message


def _similar(name: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches  # only for a name that is not known

    return next(iter(get_close_matches(name, known, 1, 0.7)), "")


MASKED = "********"


def effective(settings: Settings) -> list[dict[str, Any]]:
    """Return every setting with the value in force and where it comes from. Secrets are masked."""
    return [
        {"name": ".".join(path), "value": _unmasked(value), "source": _source(path)}
        for path, value in _leaves(settings, [])
    ]


def _leaves(section: BaseModel, path: Sequence[str]) -> Iterator[tuple[list[str], Any]]:
    for name in type(section).model_fields:
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            yield from _leaves(value, [*path, name])
        else:
            yield [*path, name], value


def _unmasked(value: Any) -> Any:
    """Return the value in JSON form, without secrets: also without those of an address."""
    match value:
        case SecretStr():
            return MASKED if value.get_secret_value() else ""
        case str() if "://" in value:
            return _SECRET_PARAMETER.sub(rf"\1{MASKED}", _USERINFO.sub(_user, value))
        case list() | tuple() | set() | frozenset():
            return [_unmasked(one) for one in cast(list[Any], value)]
        case dict():
            return {str(key): _unmasked(one) for key, one in cast(dict[str, Any], value).items()}
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)


_USERINFO = re.compile(r"(?<=://)[^/?#\s]*@")
_USER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}")
_SECRET_NAME = r"[^=&;#\s]*(?:pass|pwd|secret|token|key|auth|cred|sig)[^=&;#\s]*"
_SECRET_PARAMETER = re.compile(rf"([?&;#]{_SECRET_NAME}=)[^&;#\s]*", re.I)
"""A parameter of an address that is named like a secret, such as `password` or `api_key`."""


def _user(found: re.Match[str]) -> str:
    """Mask what stands before the host, but for a plain user name beside its password: alone, it may be a token."""
    name, _, password = found[0].removesuffix("@").partition(":")
    return f"{name}:{MASKED}@" if password and _USER_NAME.fullmatch(name) else f"{MASKED}@"


def _source(path: Sequence[str]) -> str:
    """Return 'default', the variable that sets it (its own or that of its section), or its place in the file."""
    own = [f"{PREFIX}{'__'.join(path[:length])}".upper() for length in range(len(path), 0, -1)]
    set_ = {name.upper() for name, text in os.environ.items() if text}
    if found := next((name for name in own if name in set_), ""):
        return found
    return "default" if _at(_file(), path) is None else f"{os.environ['KHO_CONFIG']}"


def local_principal(settings: Settings, *, admin: bool = False) -> Principal:
    """Return the principal of this machine's user. Only the command line, which could open the database anyway, is an
    admin."""
    scopes = frozenset({"*", METRICS, ADMIN} if admin else {"*", METRICS})
    return Principal(settings.local.sub, settings.local.tenant, scopes)


def whereabouts(settings: Settings) -> str:
    """Return where the data is, without the password."""
    if settings.database_url is None:
        return str(settings.home / DATABASE)
    address = urlsplit(settings.database_url)
    return f"PostgreSQL at {address.hostname or 'this machine'}{address.path}"
