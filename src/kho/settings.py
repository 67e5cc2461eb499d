"""Every setting, in one place: the only reader of the environment and of the settings file.

`KHO_HOME`, `KHO_DATABASE_URL` and `KHO_CONFIG` stand alone; the others are nested, e.g. `KHO_HTTP__PORT=9000`,
or in the TOML file that `KHO_CONFIG` names:

    [http]
    port = 9000

A variable that is empty counts as one that is not set.
"""

import os
import tomllib
from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

import platformdirs
from pydantic import Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource
from pydantic_settings.exceptions import SettingsError

from kho.devices.settings import DeviceSettings
from kho.documents.settings import DocumentSettings
from kho.experiences.settings import ExperienceSettings
from kho.kernel.section import Section, WebAddress
from kho.memory.settings import MemorySettings
from kho.models.settings import Embedding, Llm, Reranking, Vision
from kho.research.settings import ResearchSettings
from kho.toolbox.settings import ToolboxSettings


class InvalidSettings(Exception):
    """What is wrong with the settings, in a sentence."""


class Http(Section):
    host: str = "127.0.0.1"
    port: int = Field(default=8001, ge=0, le=65535)
    workers: int = Field(default=1, ge=1, le=64)
    max_body: int = Field(default=8 * 1024 * 1024, ge=1024)
    header_timeout: float = Field(default=10.0, gt=0)
    body_timeout: float = Field(default=30.0, gt=0)
    allowed_hosts: list[str] = Field(default_factory=list[str])
    """Names under which the hub is reached besides the loopback ones, e.g. 'kho.example.org'."""
    allowed_origins: list[str] = Field(default_factory=list[str])
    """Origins that the guard lets through besides the loopback ones, e.g. 'https://kho.example.org'."""


class Local(Section):
    """Who the user of this machine is."""

    sub: str = "local"
    tenant: str = "local"


class VectorIndex(Section):
    """Where vectors are kept: in the database itself, or in a Qdrant server fed from it."""

    engine: Literal["database", "qdrant"] = "database"
    qdrant_url: WebAddress = ""
    """e.g. 'http://127.0.0.1:6333'"""
    qdrant_api_key: SecretStr = SecretStr("")


class Search(Section):
    timeout: float = Field(default=10.0, gt=0)
    patience: float = Field(default=2.5, gt=0)
    """Seconds that an answer waits for the model; then the words answer alone, and the answer says so."""
    embedder: Embedding = Field(default_factory=Embedding)
    reranker: Reranking = Field(default_factory=Reranking)
    vectors: VectorIndex = Field(default_factory=VectorIndex)


class Mcp(Section):
    tools: list[str] = Field(default_factory=list[str])
    """Capabilities whose tools are offered over MCP; all when empty."""
    page_size: int = Field(default=200, ge=1, le=1000)
    """Tools and resources on a page. All tools fit on one by default: not every client asks for the next."""


class Observe(Section):
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    log_format: Literal["auto", "json", "text"] = "auto"
    """'auto' is a readable line on a terminal and JSON elsewhere."""
    otlp_endpoint: WebAddress | None = None
    """Where OpenTelemetry spans go, e.g. 'http://127.0.0.1:4318/v1/traces'. Needs kho[otel]."""


class Settings(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix="KHO_", env_nested_delimiter="__", env_ignore_empty=True, extra="ignore"
    )

    home: Path = Field(default_factory=lambda: Path(platformdirs.user_data_dir("kho", appauthor=False)))
    database_url: str | None = None
    """'postgresql://…'; a SQLite file in `home` when absent."""
    http: Http = Field(default_factory=Http)
    local: Local = Field(default_factory=Local)
    mcp: Mcp = Field(default_factory=Mcp)
    experiences: ExperienceSettings = Field(default_factory=ExperienceSettings)
    research: ResearchSettings = Field(default_factory=ResearchSettings)
    memory: MemorySettings = Field(default_factory=MemorySettings)
    documents: DocumentSettings = Field(default_factory=DocumentSettings)
    devices: DeviceSettings = Field(default_factory=DeviceSettings)
    toolbox: ToolboxSettings = Field(default_factory=ToolboxSettings)
    llm: Llm = Field(default_factory=Llm)
    vision: Vision = Field(default_factory=Vision)
    search: Search = Field(default_factory=Search)
    observe: Observe = Field(default_factory=Observe)

    @model_validator(mode="after")
    def _known_to_boards(self) -> Self:
        """Boards address the hub as they were told to: that name is allowed, too."""
        host = urlsplit(self.devices.public_url).netloc
        if host and host not in self.http.allowed_hosts:
            self.http.allowed_hosts.append(host)
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        file = os.environ.get("KHO_CONFIG")
        if not file:
            return init_settings, env_settings
        if not Path(file).is_file():
            raise InvalidSettings(f"KHO_CONFIG names {file}, which is not a file.")
        try:
            return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, Path(file))
        except tomllib.TOMLDecodeError as problem:
            raise InvalidSettings(f"{file} is not valid TOML: {problem}") from None


def _told(kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        return "there is no such setting"
    return message.removeprefix("Value error, ").replace("Input should be", "must be")


def load() -> Settings:
    """The settings of this process. What is wrong with them is told without the values, which may be secrets."""
    try:
        return Settings()
    except ValidationError as failure:
        problems = [
            f"KHO_{'__'.join(map(str, error['loc'])).upper()}: {_told(error['type'], error['msg'])}"
            for error in failure.errors(include_url=False, include_input=False, include_context=False)
        ]
        raise InvalidSettings("; ".join(problems)) from None
    except SettingsError as failure:
        raise InvalidSettings(
            f"{failure}. A list is written as JSON, e.g. KHO_MCP__TOOLS='[\"experiences\"]'."
        ) from None
