"""`kho connect` and `kho disconnect`: MCP clients of this machine, each by one command."""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from kho.doors.auth.credentials import is_loopback
from kho.doors.cli import output
from kho.doors.cli.confirmation import somebody_is_there
from kho.doors.cli.context import Program, fail, json_option
from kho.doors.cli.terminal import echo
from kho.doors.connect import editors, hooks, launch, plan, rules
from kho.doors.connect.clients import CLIENTS, ENTRY, KEY_VARIABLE, OWN_KEYS, SCOPES, Client, Places, Scope
from kho.doors.connect.errors import CannotConnect
from kho.doors.connect.plan import Change, Ledger
from kho.kernel.api_keys import LOCAL
from kho.kernel.errors import KhoError, Unconfirmed
from kho.kernel.hub import Hub

FOLDER = "connect"
HIDDEN = "…"
"""Below the hub's home: records and copies of what was changed."""
COLOURS = {"+": "green", "-": "red", "@": "cyan"}
CHATGPT = (
    "ChatGPT has no settings file, and it reaches only addresses on the internet with https. So:",
    "1. Run '{name} serve' behind a proxy or tunnel with https, and allow its name, e.g. "
    "KHO_HTTP__ALLOWED_HOSTS='[\"kho.example.org\"]'.",
    "2. ChatGPT sends no API key. Make one with '{name} keys create chatgpt --scope …', with the scopes it may use, "
    "and have the proxy add the header 'Authorization: Bearer …'. Whoever knows the address can then use these scopes: "
    "keep it to yourself.",
    "3. In ChatGPT: Settings, Apps & Connectors, Advanced settings: switch on Developer mode.",
    "4. There, Create: name Kho, MCP server URL https://kho.example.org/mcp{query}, authentication: none.",
    "5. In a chat choose Kho under '+'. It uses 'search' and 'fetch', and the other tools in Developer mode.",
)


def register(group: click.Group, program: Program) -> None:
    group.add_command(_connect(program))
    group.add_command(_disconnect(program))


def _connect(program: Program) -> click.Command:
    summary = "Connect an MCP client to this hub; without a name, list the clients."
    text = f"{summary}\n\nIt shows what it changes in the client's settings, asks, and keeps a copy of the old file."

    @click.command(
        help=program.help(text, "connect", "connect claude", "connect cursor --scope project --rules"),
        short_help=summary,
    )
    @click.argument("client", required=False, type=click.Choice([*CLIENTS]))
    @click.option(
        "--http", is_flag=True, help="Over HTTP, to a hub that is running. Without it: one of its own, by stdio."
    )
    @click.option("--tools", multiple=True, help="Offer only these tools, as in 'kho stdio --tools'; repeatable.")
    @click.option(
        "--scope", type=click.Choice(SCOPES), default="user", show_default=True, help="For you, or this folder."
    )
    @click.option(
        "--rules", "with_rules", is_flag=True, help="Also tell the agent when to remember and when to search."
    )
    @click.option("--hooks", "with_hooks", is_flag=True, help="Also add the session hooks (Claude Code).")
    @click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
    @click.option("--yes", is_flag=True, help="Do not ask.")
    @json_option
    def connect(
        client: str | None,
        http: bool,
        tools: tuple[str, ...],
        scope: Scope,
        with_rules: bool,
        with_hooks: bool,
        dry_run: bool,
        yes: bool,
        json: bool,
    ) -> None:
        if client is None:
            _list(program, json=json)
            return
        chosen, listed = CLIENTS[client], ",".join(tools)
        if client == "chatgpt":
            _steps(program, listed, json=json)
            return
        setup = _Setup(program, chosen, scope, writes=not dry_run)
        try:
            if tools:  # looking at all of them loads every slice
                program.registry(program.slices).select(tools)
            changes = setup.changes(listed, http=http, with_rules=with_rules, with_hooks=with_hooks)
            if any(change.action != "unchanged" for change in changes) and not dry_run:
                changes = _confirmed(changes, json=json, yes=yes)
            elif not json:
                _show(changes)
            if not dry_run:
                for change in changes:
                    plan.carry_out(setup.ledger, change)
            notes = setup.notes(http=http, with_hooks=with_hooks)
        except KhoError as problem:
            raise fail(problem) from None
        if json:
            output.as_json(_told(chosen, scope, changes, written=not dry_run, notes=notes))
            return
        if dry_run:
            echo("Nothing was written (--dry-run).", err=True)
        elif all(change.action == "unchanged" for change in changes):
            echo(f"{chosen.title} is connected already; nothing was changed.")
        else:
            echo(f"{chosen.title} is connected. {chosen.next_step}")
            echo(f"'{program.name} disconnect {client}' puts everything back.")
        for note in notes:
            echo(note, err=True)

    return connect


def _disconnect(program: Program) -> click.Command:
    @click.command(
        help=program.help(
            "Take Kho out of a client's settings again: entry, rules and hooks. A file that nobody has changed since "
            "gets its old bytes back, and one that Kho made is deleted.",
            "disconnect claude",
        ),
        short_help="Take Kho out of a client's settings again.",
    )
    @click.argument("client", type=click.Choice([*CLIENTS]))
    @click.option("--scope", type=click.Choice(SCOPES), help="Only for you, or only in this folder. Without it: both.")
    @click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
    @click.option("--force", is_flag=True, help="Also remove what this hub has no record of, such as your own entry.")
    @click.option("--yes", is_flag=True, hidden=True, help="Accepted: it only undoes, so it never asks.")
    @json_option
    def disconnect(client: str, scope: Scope | None, dry_run: bool, force: bool, yes: bool, json: bool) -> None:
        chosen = CLIENTS[client]
        if not chosen.files:
            raise fail(f"{chosen.title} has no settings file: remove Kho in its own settings.")
        changes: list[Change] = []
        try:
            for one in (scope,) if scope else SCOPES:
                setup = _Setup(program, chosen, one)
                for change in setup.undone(force=force):
                    if not json:
                        _show([change])
                    if not dry_run:
                        plan.carry_out(setup.ledger, change)
                    changes.append(change)
        except KhoError as problem:
            raise fail(problem) from None
        if json:
            output.as_json(_told(chosen, scope, changes, written=bool(changes) and not dry_run, notes=[]))
        elif dry_run:
            echo("Nothing was written (--dry-run).", err=True)
        else:
            echo(f"{chosen.title} is disconnected." if changes else _nothing_to_undo(program, chosen))

    return disconnect


def _nothing_to_undo(program: Program, client: Client) -> str:
    left = _state(client, places(program))["connected"]
    if not left:
        return f"{client.title} is not connected."
    return f"{left[0]['path']} has an entry that was not made from here. --force removes it, too."


class _Setup:
    """One client at one scope: which of its files get what."""

    def __init__(self, program: Program, client: Client, scope: Scope, *, writes: bool = True) -> None:
        self._program = program
        self._client = client
        self._scope: Scope = scope
        self._places = places(program)
        self._kho = launch.program(sys.argv[0])
        self._writes = writes
        self._needs_key = False
        self._running = ""
        """Address of a running hub."""
        self._address = ""
        """That which the client is given."""
        self.ledger = Ledger(program.home / FOLDER)

    def changes(self, tools: str, *, http: bool, with_rules: bool, with_hooks: bool) -> list[Change]:
        wanted: list[tuple[Path, editors.Kind, editors.Editor]] = []
        wanted.append((self._file, "server", self._server(partial(self._entry, self._new_entry(tools, http=http)))))
        if with_rules:
            if self._rules is None:
                other = "Use --scope project, or leave" if self._scope == "user" and self._client.rules else "Leave"
                raise CannotConnect(f"{self._client.title} has no rules file of this scope. {other} --rules out.")
            wanted.append((self._rules, "rules", editors.Rules(rules.beginning(self._rules))))
        if with_hooks:
            if self._client.name != "claude":
                raise CannotConnect("Only Claude Code has session hooks. Leave --hooks out.")
            wanted.append((self._hooks_file, "hooks", self._hooks))
        return [plan.connection(self.ledger, *one, self._client.name, self._scope) for one in wanted]

    def undone(self, *, force: bool) -> Iterator[Change]:
        """What was done for this client, newest kinds first."""
        found: list[tuple[Path, editors.Kind, editors.Editor]] = []
        if self._client.name == "claude":
            found.append((self._hooks_file, "hooks", self._hooks))
        if self._rules is not None:
            found.append((self._rules, "rules", editors.Rules(rules.beginning(self._rules))))
        for template in self._client.files.get(self._scope, ()):
            found.append((self._places.path(template), "server", self._server(dict)))
        for one in found:
            if change := plan.disconnection(self.ledger, *one, self._client.name, force=force):
                yield change

    def notes(self, *, http: bool, with_hooks: bool) -> list[str]:
        """What the user should know or do."""
        client, found = self._client, list[str]()
        if http and self._scope == "user" and _others_read(self._file):
            found.append(f"Others on this machine can read the token in {self._file}: chmod 600 {self._file}")
        if http and self._needs_key:
            found.append(
                f"The hub wants a key: set {KEY_VARIABLE} where {client.title} is started; "
                f"'{self._program.name} keys create NAME' makes one."
                if client.reference or client.format == "toml"
                else f"The hub wants a key, and {client.title} cannot refer to a variable: add the header "
                '"Authorization": "Bearer …" to the entry yourself (not in a file that others read), or connect it '
                "without --http."
            )
        elif http and not self._running:
            found.append(f"No hub is running: '{self._program.name} serve' starts it.")
        if self._address.startswith("http://") and not is_loopback(urlsplit(self._address).hostname or ""):
            found.append(
                f"What {client.title} sends to {self._address}, its credential too, is not encrypted. "
                f"'{self._program.name} serve --tls-cert FILE --tls-key FILE' changes that."
            )
        if not http and (left := launch.left_out(self._places.environment)):
            found.append(
                f"Set here, but not written into the settings: {', '.join(left)}. Name a settings file in KHO_CONFIG "
                "if the client's server needs them."
            )
        if client.name == "claude" and not with_hooks:
            found.append(
                f"Not installed, but offered: '{self._program.name} connect claude --hooks' shows recent work when a "
                "session starts and keeps its messages. It shows the hooks and asks first."
            )
        return found

    def _new_entry(self, tools: str, *, http: bool) -> dict[str, Any]:
        if not http:
            return self._client.stdio_entry(launch.stdio(self._kho, tools), launch.passed_on(self._places.environment))
        hub = self._program.http
        self._client.http_entry("")  # refused before the hub is opened
        # One that runs may have been given another port on its command line than the settings have.
        self._running = self._program.running_hub()
        self._address = self._running or hub.local_address
        endpoint = launch.endpoint(self._address, tools)
        if self._scope == "user":  # a project's file is shared with others
            return self._client.http_entry(endpoint, token=self._program.run(self._token))
        self._needs_key = self._program.run(_keys_in_use) or not is_loopback(hub.host)
        return self._client.http_entry(endpoint, with_key=self._needs_key)

    async def _token(self, hub: Hub) -> str:
        return hub.local_token.create() if self._writes else f"{LOCAL}{HIDDEN}"

    def _entry(self, new: dict[str, Any], there: Mapping[str, Any]) -> dict[str, Any]:
        """The new entry with what somebody added to the old one: a time limit, say, or further variables."""
        added = {key: value for key, value in there.items() if key not in OWN_KEYS}
        env = there.get(self._client.env)
        if isinstance(env, dict) and "command" in new:
            more = {key: value for key, value in env.items() if key not in launch.PASSED_ON}  # type: ignore[reportUnknownVariableType]
            if more:
                new = {**new, self._client.env: {**more, **new.get(self._client.env, {})}}
        return {**new, **added}

    def _server(self, entry: Any) -> editors.Editor:
        kind = editors.TomlEntry if self._client.format == "toml" else editors.JsonEntry
        return kind((self._client.parent, ENTRY), entry)

    @property
    def _file(self) -> Path:
        return self._client.file(self._places, self._scope)

    @property
    def _rules(self) -> Path | None:
        template = self._client.rules.get(self._scope)
        return self._places.path(template) if template else None

    @property
    def _hooks_file(self) -> Path:
        return self._places.path(hooks.FILES[self._scope])

    @property
    def _hooks(self) -> editors.Hooks:
        return editors.Hooks(hooks.wanted(self._kho, launch.passed_on(self._places.environment)))


def places(program: Program) -> Places:
    environment = program.environment
    home = environment.get("USERPROFILE" if sys.platform == "win32" else "HOME")
    return Places(sys.platform, Path(home) if home else Path.home(), Path.cwd(), environment)


async def _keys_in_use(hub: Hub) -> bool:
    return await hub.keys.in_use()


def _confirmed(changes: list[Change], *, json: bool, yes: bool) -> list[Change]:
    """Those that may be made: hooks are asked about by themselves."""
    if yes:
        if not json:
            _show(changes)
        return changes
    if json or not somebody_is_there():
        if not json:
            _show(changes)
        raise Unconfirmed("Nothing was written yet: there is nobody to ask. Add --yes to write it.")
    allowed: list[Change] = []
    for question, kinds in (("Write this?", ("server", "rules")), ("Install these hooks?", ("hooks",))):
        group = [change for change in changes if change.kind in kinds]
        _show(group)
        if all(change.action == "unchanged" for change in group) or click.confirm(question, err=True):
            allowed += group
        elif kinds[0] == "server":
            raise Unconfirmed("Nothing was written.")
    return allowed


def _show(changes: list[Change]) -> None:
    for change in changes:
        for line in _hidden(change.difference()).splitlines():
            echo(line, fg=COLOURS.get(line[:1]))


def _hidden(difference: str) -> str:
    """The difference without the token."""
    return re.sub(rf"{LOCAL}[\w-]+", f"{LOCAL}{HIDDEN}", difference)


def _others_read(path: Path) -> bool:
    return os.name == "posix" and path.exists() and bool(path.stat().st_mode & 0o044)


def _told(
    client: Client, scope: Scope | None, changes: list[Change], *, written: bool, notes: list[str]
) -> dict[str, Any]:
    files = [
        {"path": str(one.path), "kind": one.kind, "action": one.action, "difference": _hidden(one.difference())}
        for one in changes
    ]
    return {"client": client.name, "scope": scope, "written": written, "files": files, "notes": notes}


def _steps(program: Program, tools: str, *, json: bool) -> None:
    query = f"?tools={tools}" if tools else ""
    lines = [line.format(name=program.name, query=query) for line in CHATGPT]
    if json:
        output.as_json({"client": "chatgpt", "written": False, "steps": lines})
    else:
        echo("\n".join(lines))


def _list(program: Program, *, json: bool) -> None:
    where = places(program)
    rows = [_state(client, where) for client in CLIENTS.values()]
    if json:
        output.as_json({"clients": rows})
        return
    for row in rows:
        state = (
            "connected" if row["connected"] else "here" if row["here"] else "not found" if row["files"] else "by hand"
        )
        shown = [f"{one['path']} ({one['scope']}, {one['transport']})" for one in row["connected"]] or row["files"][:1]
        echo(f"{row['name']:<15} {state:<10} {'; '.join(shown)}".rstrip())
    echo(f"\n'{program.name} connect NAME' connects one; it shows what it changes and asks first.")


def _state(client: Client, where: Places) -> dict[str, Any]:
    connected: list[dict[str, str]] = []
    files = [(scope, where.path(one)) for scope in SCOPES for one in client.files.get(scope, ())]
    kind = editors.TomlEntry if client.format == "toml" else editors.JsonEntry
    for scope, path in files:
        try:
            entry = plan.value_in(path, kind((client.parent, ENTRY)))
        except CannotConnect:
            continue  # connecting it says what is wrong
        if entry is not None:
            transport = "http" if {"url", "serverUrl"} & {*entry} else "stdio"
            connected.append({"scope": scope, "path": str(path), "transport": transport})
    return {
        "name": client.name,
        "title": client.title,
        "here": client.is_here(where),
        "connected": connected,
        "files": [str(path) for _, path in files],
    }
