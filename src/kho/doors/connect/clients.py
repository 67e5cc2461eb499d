"""The MCP clients that can be connected, as data: their settings files, the form of an entry, their rules files."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Literal

from kho.doors.connect.errors import CannotConnect
from kho.lib.dataclass import dataclass

Scope = Literal["user", "project"]
SCOPES: tuple[Scope, ...] = ("user", "project")
ENTRY = "kho"
"""The name under which clients know this hub."""
KEY_VARIABLE = "KHO_API_KEY"
"""The variable that holds the key of a client that speaks HTTP. A key itself is never written, only the token of this
machine's user, which is good on this machine alone."""
OWN_KEYS = frozenset(
    "type command args env environment url serverUrl headers enabled bearer_token_env_var http_headers".split()
)
"""Members of an entry that `kho connect` writes. Others that somebody added stay."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where this machine keeps the settings of other programs."""

    platform: str
    """As in `sys.platform`."""
    home: Path
    project: Path
    environment: Mapping[str, str]

    def path(self, template: str) -> Path:
        """The path of `{root}/further/names`."""
        root, _, rest = template.partition("/")
        return self._root(root.strip("{}")) / rest

    def program(self, names: Sequence[str]) -> str | None:
        """The first of the programs that can be started by its name."""
        path = self.environment.get("PATH", "")
        return next((found for name in names if (found := shutil.which(name, path=path))), None)

    def _root(self, name: str) -> Path:
        config = self._set("XDG_CONFIG_HOME") or self.home / ".config"
        match name:
            case "project":
                return self.project
            case "config":
                return config
            case "applications" if self.platform == "darwin":
                return self.home / "Library" / "Application Support"
            case "applications" if self.platform == "win32":
                return self._set("APPDATA") or self.home / "AppData" / "Roaming"
            case "applications":
                return config
            case "claude":
                return self._set("CLAUDE_CONFIG_DIR") or self.home / ".claude"
            case "claude-state":
                return self._set("CLAUDE_CONFIG_DIR") or self.home
            case "codex":
                return self._set("CODEX_HOME") or self.home / ".codex"
            case "zed":
                return self._root("applications") / "Zed" if self.platform == "win32" else config / "zed"
            case _:
                return self.home

    def _set(self, variable: str) -> Path | None:
        value = self.environment.get(variable)
        return Path(value) if value else None


@dataclass(frozen=True, slots=True)
class Client:
    name: str
    title: str
    files: Mapping[Scope, Sequence[str]]
    """Templates of its settings files; of several the one that is there is used, or the first."""
    parent: str = "mcpServers"
    """The object that holds the entries of servers."""
    format: Literal["json", "toml"] = "json"
    stdio: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What an entry has beside its command."""
    http: Mapping[str, Any] | None = field(default_factory=dict[str, Any])
    """What an entry has beside its address; None: the client takes no address from its file."""
    enabled: bool = False
    """True if an entry says that it is on."""
    one_list: bool = False
    """True if the program and its arguments are one list."""
    env: str = "env"
    always_env: bool = False
    address: str = "url"
    reference: str | None = None
    """How a value refers to the variable with the key; None: the client knows no such thing."""
    programs: Sequence[str] = ()
    application: str = ""
    """Its name in /Applications on macOS."""
    rules: Mapping[Scope, str] = field(default_factory=dict[Scope, str])
    next_step: str = ""

    def file(self, places: Places, scope: Scope) -> Path:
        """The settings file: the one that is there, or the one to make."""
        templates = self.files.get(scope)
        if not templates:
            raise CannotConnect(f"{self.title} has no settings file of a project. Leave --scope out.")
        paths = [places.path(template) for template in templates]
        return next((path for path in paths if path.exists()), paths[0])

    def is_here(self, places: Places) -> bool:
        """True if its settings or its program are found."""
        found = any(places.path(one).exists() for one in self.files.get("user", ()))
        installed = bool(self.programs) and places.program(self.programs) is not None
        is_mac = places.platform == "darwin" and bool(self.application)
        return found or installed or (is_mac and Path(f"/Applications/{self.application}.app").exists())

    def stdio_entry(self, command: Sequence[str], env: Mapping[str, str]) -> dict[str, Any]:
        entry = dict(self.stdio)
        if self.one_list:
            entry["command"] = [*command]
        else:
            entry |= {"command": command[0], "args": [*command[1:]]}
        if env or self.always_env:
            entry[self.env] = dict(env)
        return entry | ({"enabled": True} if self.enabled else {})

    def http_entry(self, url: str, *, token: str = "", with_key: bool = False) -> dict[str, Any]:
        """`token`: sent as it is. `with_key`: the entry refers to the variable with the key."""
        if self.http is None:
            raise CannotConnect(f"{self.title} takes no address from its settings file. Connect it without --http.")
        entry = {**self.http, self.address: url}
        if token:
            entry["http_headers" if self.format == "toml" else "headers"] = {"Authorization": f"Bearer {token}"}
        elif with_key and self.format == "toml":
            entry["bearer_token_env_var"] = KEY_VARIABLE
        elif with_key and self.reference:
            entry["headers"] = {"Authorization": f"Bearer {self.reference}"}
        return entry | ({"enabled": True} if self.enabled else {})


CLIENTS: dict[str, Client] = {
    one.name: one
    for one in (
        Client(
            "claude",
            "Claude Code",
            {"user": ["{claude-state}/.claude.json"], "project": ["{project}/.mcp.json"]},
            stdio={"type": "stdio"},
            http={"type": "http"},
            always_env=True,
            reference=f"${{{KEY_VARIABLE}}}",
            programs=["claude"],
            rules={"user": "{claude}/CLAUDE.md", "project": "{project}/CLAUDE.md"},
            next_step="Sessions that run already see it after a restart. 'claude mcp list' shows it.",
        ),
        Client(
            "claude-desktop",
            "Claude Desktop",
            {"user": ["{applications}/Claude/claude_desktop_config.json"]},
            http=None,
            programs=["claude-desktop"],
            application="Claude",
            next_step="Quit and open Claude Desktop again.",
        ),
        Client(
            "cursor",
            "Cursor",
            {"user": ["{home}/.cursor/mcp.json"], "project": ["{project}/.cursor/mcp.json"]},
            reference=f"${{env:{KEY_VARIABLE}}}",
            programs=["cursor", "cursor-agent"],
            application="Cursor",
            rules={"project": "{project}/.cursor/rules/kho.mdc"},
            next_step="Cursor asks once whether to enable it: Settings, MCP.",
        ),
        Client(
            "vscode",
            "VS Code",
            {"user": ["{applications}/Code/User/mcp.json"], "project": ["{project}/.vscode/mcp.json"]},
            parent="servers",
            stdio={"type": "stdio"},
            http={"type": "http"},
            reference=f"${{env:{KEY_VARIABLE}}}",
            programs=["code"],
            application="Visual Studio Code",
            rules={"project": "{project}/AGENTS.md"},
            next_step="Start it once in VS Code: 'MCP: List Servers' in the command palette.",
        ),
        Client(
            "codex",
            "Codex",
            {"user": ["{codex}/config.toml"]},
            parent="mcp_servers",
            format="toml",
            programs=["codex"],
            rules={"user": "{codex}/AGENTS.md", "project": "{project}/AGENTS.md"},
            next_step="'codex mcp list' shows it.",
        ),
        Client(
            "gemini",
            "Gemini CLI",
            {"user": ["{home}/.gemini/settings.json"], "project": ["{project}/.gemini/settings.json"]},
            http={"type": "http"},
            reference=f"${{{KEY_VARIABLE}}}",
            programs=["gemini"],
            rules={"user": "{home}/.gemini/GEMINI.md", "project": "{project}/GEMINI.md"},
            next_step="'gemini mcp list' shows it, in folders that Gemini trusts.",
        ),
        Client(
            "opencode",
            "opencode",
            {
                "user": ["{config}/opencode/opencode.json", "{config}/opencode/opencode.jsonc"],
                "project": ["{project}/opencode.json", "{project}/opencode.jsonc"],
            },
            parent="mcp",
            stdio={"type": "local"},
            http={"type": "remote"},
            enabled=True,
            one_list=True,
            env="environment",
            reference=f"{{env:{KEY_VARIABLE}}}",
            programs=["opencode"],
            rules={"user": "{config}/opencode/AGENTS.md", "project": "{project}/AGENTS.md"},
            next_step="'opencode mcp list' shows it.",
        ),
        Client(
            "windsurf",
            "Windsurf",
            {"user": ["{home}/.codeium/windsurf/mcp_config.json"]},
            address="serverUrl",
            reference=f"${{env:{KEY_VARIABLE}}}",
            programs=["windsurf"],
            application="Windsurf",
            rules={"user": "{home}/.codeium/windsurf/memories/global_rules.md", "project": "{project}/AGENTS.md"},
            next_step="Refresh the list of MCP servers in Cascade.",
        ),
        Client(
            "zed",
            "Zed",
            {"user": ["{zed}/settings.json"], "project": ["{project}/.zed/settings.json"]},
            parent="context_servers",
            programs=["zed", "zeditor"],
            application="Zed",
            rules={"project": "{project}/AGENTS.md"},
            next_step="Zed starts it at once; the settings of the Agent Panel show it.",
        ),
        Client("chatgpt", "ChatGPT", {}, http=None),
    )
}
