"""`kho connect` and `kho disconnect`, for every client, scope and shape of file."""

import json
import os
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.processes import Hub as OwnHub
from tests.acceptance.processes import Place
from tests.doors.connect.conftest import Machine

from kho.doors.cli import confirmation
from kho.doors.connect import json_edit, launch, plan
from kho.doors.connect.clients import CLIENTS, Client, Places, Scope
from kho.kernel import api_keys
from kho.kernel.api_keys import ApiKey
from kho.kernel.hub import Hub

KHO = launch.program("")
EACH = [(name, scope) for name, client in CLIENTS.items() for scope in client.files]
SHAPES: dict[str, bytes | None] = {
    "missing": None,
    "empty": b"",
    "blank": b"\n",
    "braces": b"{}",
    "lines": b"{\n}\n",
    "no parent": b'{\n    "theme": "dark"\n}\n',
    "empty parent": b'{\n  "PARENT": {}\n}\n',
    "others": b'{\n\t"PARENT": {\n\t\t"x": {"command": "x"}\n\t},\n\t"theme": "dark"\n}',
    "one line": b'{"theme": "dark", "PARENT": {"x": {"command": "x"}}}',
    "minified": b'{"theme":"dark","PARENT":{"x":{}}}\n',
    "comments": b'// first\n{\n  /* c */ "PARENT": { // here\n    // "kho": {}\n    "x": {}, // x\n  }, // end\n}\n// last\n',
    "windows": b'{\r\n  "PARENT": {\r\n    "x": {}\r\n  }\r\n}\r\n',
    "marked": b'\xef\xbb\xbf{\n  "PARENT": {}\n}\n',
    "own entry": b'{\n  "PARENT": {\n    "kho": {"command": "/old/kho", "timeout": 5}, // mine\n    "x": {}\n  }\n}\n',
}
TOML: dict[str, bytes | None] = {
    "missing": None,
    "empty": b"",
    "others": b'# mine\nmodel = "x" # y\n\n[PARENT.x]\ncommand = "x"\n\n[tui]\ntheme = "dark"\n',
    "no end": b'model = "x"',
    "windows": b'model = "x"\r\n\r\n[tui]\r\ntheme = "dark"\r\n',
    "inline": b'PARENT = { x = { command = "x" } }\n',
    "dotted": b'PARENT.x.command = "x"\n[tui]\n',
    "own entry": b'[PARENT.kho] # mine\ncommand = "/old/kho" # old\nargs = []\ntimeout = 5\n\n[tui]\ntheme = "dark"\n',
    "marked": b'\xef\xbb\xbfmodel = "x"\n',
}


def file_of(machine: Machine, client: Client, scope: Scope) -> Path:
    return client.file(Places("linux", machine.home, machine.project, machine.environment), scope)


def entries(client: Client, content: bytes) -> dict[str, Any]:
    text = content.decode("utf-8-sig")
    whole = tomllib.loads(text) if client.format == "toml" else json_edit.parse(text).value
    return whole[client.parent]


def cases() -> list[Any]:
    found: list[Any] = []
    for name, scope in EACH:
        shapes = TOML if CLIENTS[name].format == "toml" else SHAPES
        found += [pytest.param(name, scope, shape, id=f"{name}-{scope}-{shape}") for shape in shapes]
    return found


def written(client: Client, shape: str) -> bytes | None:
    content = (TOML if client.format == "toml" else SHAPES)[shape]
    return content and content.replace(b"PARENT", client.parent.encode())


@pytest.mark.parametrize(("name", "scope", "shape"), cases())
def test_there_and_back(machine: Machine, name: str, scope: Scope, shape: str) -> None:
    client = CLIENTS[name]
    path, old = file_of(machine, client, scope), written(client, shape)
    if old is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(old)
    before = machine.files()

    done = machine.run("connect", name, "--scope", scope, "--yes")
    assert done.status == 0, done.err
    entry = entries(client, path.read_bytes())["kho"]
    command = entry["command"] if client.one_list else [entry["command"], *entry["args"]]
    assert command == [*KHO, "stdio"]
    if shape == "own entry":
        assert entry["timeout"] == 5
    if old is not None:
        untouched = [line for line in old.splitlines() if b"old" not in line and line.strip() not in (b"", b"{}", b"}")]
        if len(untouched) > 1:
            assert [line for line in untouched if line not in path.read_bytes().splitlines()] in ([], untouched[1:2])

    left = path.read_bytes()
    again = machine.run("connect", name, "--scope", scope, "--yes")
    assert (again.status, path.read_bytes()) == (0, left)
    assert "already" in again.out

    assert machine.run("disconnect", name).status == 0
    assert machine.files() == before
    assert [*machine.home.iterdir(), *machine.project.iterdir()] == [] or old is not None  # folders go, too
    assert machine.run("disconnect", name).status == 0
    assert machine.files() == before


@pytest.mark.parametrize(("name", "scope"), EACH)
def test_a_file_that_changed_since_loses_our_entry_only(machine: Machine, name: str, scope: Scope) -> None:
    client = CLIENTS[name]
    path, old = file_of(machine, client, scope), written(client, "others")
    assert old is not None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(old)
    assert machine.run("connect", name, "--scope", scope, "--yes").status == 0
    path.write_bytes(path.read_bytes().replace(b"dark", b"light"))
    assert machine.run("disconnect", name).status == 0
    assert path.read_bytes() == old.replace(b"dark", b"light")


@pytest.mark.parametrize("name", ["claude", "codex"])
def test_a_file_that_a_client_wrote_anew_loses_our_entry_only(machine: Machine, name: str) -> None:
    """The client reformatted it, so that no text of ours is left as it was."""
    client = CLIENTS[name]
    path = file_of(machine, client, "user")
    assert machine.run("connect", name, "--yes").status == 0
    if name == "claude":
        held = json.loads(path.read_bytes())
        held["mcpServers"]["x"] = {"command": "x"}
        path.write_text(json.dumps({"numStartups": 1, **held}, indent=4))
    else:
        path.write_text(path.read_text().replace(" = ", "=") + '\n[mcp_servers.x]\ncommand = "x"\n')
    assert machine.run("disconnect", name).status == 0
    assert entries(client, path.read_bytes()) == {"x": {"command": "x"}}


def test_a_file_that_was_made_and_filled_by_the_client_stays(machine: Machine) -> None:
    path = machine.home / ".claude.json"
    assert machine.run("connect", "claude", "--yes").status == 0
    held = json.loads(path.read_bytes())
    path.write_text(json.dumps({**held, "numStartups": 1}))
    assert machine.run("disconnect", "claude").status == 0
    assert json.loads(path.read_bytes()) == {"numStartups": 1}


def test_a_file_that_was_made_and_only_reformatted_goes(machine: Machine) -> None:
    path = machine.home / ".cursor" / "mcp.json"
    assert machine.run("connect", "cursor", "--yes").status == 0
    path.write_text(json.dumps(json.loads(path.read_bytes())))
    assert machine.run("disconnect", "cursor").status == 0
    assert not path.parent.exists()


def test_connecting_anew_after_a_change_still_leads_back(machine: Machine) -> None:
    path = machine.home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text('{\n  "mcpServers": {\n    "x": {}\n  }\n}\n')
    assert machine.run("connect", "cursor", "--yes").status == 0
    path.write_text(path.read_text().replace('"x"', '"y"'))
    assert machine.run("connect", "cursor", "--tools", "minimal", "--yes").status == 0
    assert entries(CLIENTS["cursor"], path.read_bytes())["kho"]["args"] == ["stdio", "--tools", "minimal"]
    assert machine.run("disconnect", "cursor").status == 0
    assert path.read_text() == '{\n  "mcpServers": {\n    "y": {}\n  }\n}\n'


def test_an_entry_of_ones_own_comes_back(machine: Machine) -> None:
    """Also in a file that was changed since."""
    path = machine.home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text('{"mcpServers": {"kho": {"command": "/my/kho"}, "x": {}}}')
    assert machine.run("connect", "cursor", "--yes").status == 0
    path.write_text(path.read_text().replace('"x"', '"y"'))
    assert machine.run("disconnect", "cursor").status == 0
    assert json.loads(path.read_text()) == {"mcpServers": {"kho": {"command": "/my/kho"}, "y": {}}}


def test_an_entry_without_a_record_is_removed_by_force_and_kept(machine: Machine) -> None:
    """The hub's home may be another one now, or somebody wrote it by hand."""
    path = machine.home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text('{"mcpServers": {"kho": {"command": "/my/kho"}, "x": {}}}')
    assert "--force" in machine.run("disconnect", "cursor").out
    assert "/my/kho" in path.read_text()
    assert machine.run("disconnect", "cursor", "--force").status == 0
    assert path.read_text() == '{"mcpServers": {"x": {}}}'
    [kept] = (machine.hub / "connect").glob("*.removed")
    assert b"/my/kho" in kept.read_bytes()


@pytest.mark.parametrize(
    "content", [b"{", b'{"mcpServers": []}', b"\xff\xfe{\x00}\x00", b"null", b'{"mcpServers": {"kho": 1}}']
)
def test_a_file_that_is_not_valid_is_left_alone(machine: Machine, content: bytes) -> None:
    path = machine.home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_bytes(content)
    refused = machine.run("connect", "cursor", "--yes", "--json")
    assert refused.status == 1
    assert str(path) in json.loads(refused.out)["error"]["message"]
    assert machine.files() == {str(path): content}
    assert not machine.hub.exists()


def test_toml_that_is_not_valid_is_left_alone(machine: Machine) -> None:
    path = machine.home / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_bytes(b"a = \n")
    refused = machine.run("connect", "codex", "--yes")
    assert refused.status == 1
    assert f"{path}: it is not valid TOML" in refused.err
    assert path.read_bytes() == b"a = \n"


def test_nobody_to_ask_is_a_refusal(machine: Machine) -> None:
    refused = machine.run("connect", "claude")
    assert refused.status == 1
    assert "--yes" in refused.err
    assert "+++" in refused.out
    as_json = machine.run("connect", "claude", "--json")
    assert json.loads(as_json.out)["error"]["code"] == "CONFIRMATION_NEEDED"
    assert machine.files() == {}


def test_a_dry_run_writes_nothing(machine: Machine) -> None:
    shown = machine.run("connect", "claude", "--hooks", "--rules", "--dry-run", "--json")
    told = json.loads(shown.out)
    assert [one["kind"] for one in told["files"]] == ["server", "rules", "hooks"]
    assert all(one["action"] == "created" and one["difference"] for one in told["files"])
    assert machine.files() == {}
    machine.run("connect", "claude", "--yes")
    held = machine.files()
    assert "---" in machine.run("disconnect", "claude", "--dry-run").out
    assert machine.files() == held


@pytest.mark.parametrize(
    ("answer", "kinds"), [("n\n", []), ("y\nn\n", ["server", "rules"]), ("y\ny\n", ["server", "rules", "hooks"])]
)
def test_at_a_terminal_it_asks_and_hooks_by_themselves(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, answer: str, kinds: list[str]
) -> None:
    monkeypatch.setattr("kho.doors.cli.connect.somebody_is_there", lambda: True)
    assert confirmation.somebody_is_there() is False  # the runner is no terminal
    done = machine.run("connect", "claude", "--hooks", "--rules", stdin=answer.encode())
    assert ("Nothing was written." in done.err) == (answer == "n\n")
    names = {"server": ".claude.json", "rules": ".claude/CLAUDE.md", "hooks": ".claude/settings.json"}
    assert machine.files().keys() == {str(machine.home / names[kind]) for kind in kinds}


def test_hooks_are_offered_and_not_installed(machine: Machine) -> None:
    done = machine.run("connect", "claude", "--yes")
    assert "--hooks" in done.err
    assert machine.files().keys() == {str(machine.home / ".claude.json")}


def test_the_mode_and_a_link_stay(machine: Machine) -> None:
    real = machine.home / "dotfiles" / "mcp.json"
    real.parent.mkdir()
    real.write_text("{}")
    real.chmod(0o640)
    link = machine.home / ".cursor" / "mcp.json"
    link.parent.mkdir()
    link.symlink_to(real)
    assert machine.run("connect", "cursor", "--yes").status == 0
    assert link.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert "kho" in real.read_text()
    assert machine.run("disconnect", "cursor").status == 0
    assert link.is_symlink()
    assert real.read_text() == "{}"
    assert [path.name for path in real.parent.iterdir()] == ["mcp.json"]


def test_a_failed_write_leaves_the_old_file(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    path = machine.home / ".claude.json"
    path.write_text("{}")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    refused = machine.run("connect", "claude", "--yes")
    assert refused.status == 1
    assert "No space left" in refused.err
    assert [file.name for file in machine.home.iterdir()] == [".claude.json"]
    assert path.read_text() == "{}"


def test_a_file_that_changes_while_it_asks_is_not_overwritten(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = machine.home / ".claude.json"
    path.write_text("{}")

    def meanwhile(question: str, **more: Any) -> bool:
        path.write_text('{"a": 1}')
        return True

    monkeypatch.setattr("kho.doors.cli.connect.somebody_is_there", lambda: True)
    monkeypatch.setattr("click.confirm", meanwhile)
    refused = machine.run("connect", "claude")
    assert refused.status == 1
    assert "meanwhile" in refused.err
    assert path.read_text() == '{"a": 1}'


def test_copies_are_for_the_owner_only(machine: Machine) -> None:
    path = machine.home / ".claude.json"
    path.write_text('{"secret": 1}')
    machine.run("connect", "claude", "--yes")
    [copy] = (machine.hub / "connect").glob("*.old")
    assert copy.read_text() == '{"secret": 1}'
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert [stat.S_IMODE(one.stat().st_mode) for one in (copy.parent, machine.hub)] == [0o700, 0o700]


def test_the_settings_of_this_shell_go_along(machine: Machine) -> None:
    machine.environment |= {"KHO_HOME": str(machine.hub), "KHO_CONFIG": "kho.toml", "KHO_LLM__API_KEY": "sk-secret"}
    done = machine.run("connect", "claude", "--scope", "project", "--yes")
    entry = json.loads((machine.project / ".mcp.json").read_text())["mcpServers"]["kho"]
    assert entry["env"] == {"KHO_HOME": str(machine.hub), "KHO_CONFIG": str(machine.project / "kho.toml")}
    assert "KHO_LLM__API_KEY" in done.err
    assert not any(b"sk-secret" in content for content in machine.files().values())


HTTP = {
    "claude": {"type": "http", "url": "U", "headers": {"Authorization": "Bearer ${KHO_API_KEY}"}},
    "cursor": {"url": "U", "headers": {"Authorization": "Bearer ${env:KHO_API_KEY}"}},
    "vscode": {"type": "http", "url": "U", "headers": {"Authorization": "Bearer ${env:KHO_API_KEY}"}},
    "codex": {"url": "U", "bearer_token_env_var": "KHO_API_KEY"},
    "gemini": {"type": "http", "url": "U", "headers": {"Authorization": "Bearer ${KHO_API_KEY}"}},
    "opencode": {
        "type": "remote",
        "url": "U",
        "headers": {"Authorization": "Bearer {env:KHO_API_KEY}"},
        "enabled": True,
    },
    "windsurf": {"serverUrl": "U", "headers": {"Authorization": "Bearer ${env:KHO_API_KEY}"}},
    "zed": {"url": "U"},
}
STDIO: dict[str, dict[str, Any]] = {
    "claude": {"type": "stdio", "command": "C", "args": ["stdio"], "env": {}},
    "claude-desktop": {"command": "C", "args": ["stdio"]},
    "cursor": {"command": "C", "args": ["stdio"]},
    "vscode": {"type": "stdio", "command": "C", "args": ["stdio"]},
    "codex": {"command": "C", "args": ["stdio"]},
    "gemini": {"command": "C", "args": ["stdio"]},
    "opencode": {"type": "local", "command": ["C", "stdio"], "enabled": True},
    "windsurf": {"command": "C", "args": ["stdio"]},
    "zed": {"command": "C", "args": ["stdio"]},
}


@pytest.mark.parametrize(("name", "scope"), EACH)
def test_the_entry_has_the_form_that_the_client_reads(machine: Machine, name: str, scope: Scope) -> None:
    client = CLIENTS[name]
    assert machine.run("connect", name, "--scope", scope, "--yes").status == 0
    assert len(KHO) == 1
    shown = json.dumps(entries(client, file_of(machine, client, scope).read_bytes())["kho"])
    assert json.loads(shown.replace(json.dumps(KHO[0]), '"C"')) == STDIO[name]


async def make_key(hub: Hub) -> None:
    id, _, digest = api_keys.mint()
    await hub.keys.add(ApiKey(id, "somebody", "local", ("*",), digest, hub.clock()))


@pytest.mark.parametrize("name", HTTP)
@pytest.mark.parametrize("scope", ["user", "project"])
def test_over_http_a_key_is_a_reference_and_the_token_of_this_machine_s_user_is_only_in_this_user_s_files(
    machine: Machine, name: str, scope: Scope
) -> None:
    client = CLIENTS[name]
    if scope not in client.files:
        assert machine.run("connect", name, "--http", "--scope", scope, "--yes").status == 1
        return
    machine.program.run(make_key)
    done = machine.run("connect", name, "--http", "--tools", "minimal", "--tools", "docs", "--scope", scope, "--yes")
    assert done.status == 0, done.err
    token = (machine.hub / "local.token").read_text() if scope == "user" else ""
    assert ("The hub wants a key" in done.err) is (scope == "project")
    assert token == "" or token not in done.out
    address = "http://127.0.0.1:8001/mcp?tools=minimal,docs"
    expected = json.loads(json.dumps(HTTP[name]).replace('"U"', json.dumps(address)))
    if scope == "user":
        header = {"Authorization": f"Bearer {token}"}
        named = {"http_headers": header} if name == "codex" else {"headers": header}
        expected = {key: value for key, value in expected.items() if key != "bearer_token_env_var"} | named
    assert entries(client, file_of(machine, client, scope).read_bytes())["kho"] == expected


def test_a_new_file_with_the_token_is_for_its_owner_alone(machine: Machine) -> None:
    assert machine.run("connect", "claude", "--http", "--yes").status == 0
    assert stat.S_IMODE((machine.home / ".claude.json").stat().st_mode) == 0o600


def test_over_http_the_token_is_written_before_there_are_keys(machine: Machine) -> None:
    machine.settings.http.host, machine.settings.http.port = "::1", 9000
    assert machine.run("connect", "claude", "--yes").status == 0
    assert machine.run("connect", "claude", "--http", "--yes").status == 0
    entry = json.loads((machine.home / ".claude.json").read_text())["mcpServers"]["kho"]
    token = (machine.hub / "local.token").read_text()
    assert stat.S_IMODE((machine.hub / "local.token").stat().st_mode) == 0o600
    assert stat.S_IMODE((machine.home / ".claude.json").stat().st_mode) == 0o644, "it was there before"
    header = {"Authorization": f"Bearer {token}"}
    assert entry == {"type": "http", "url": "http://[::1]:9000/mcp", "headers": header}
    assert machine.run("disconnect", "claude").status == 0
    assert not (machine.home / ".claude.json").exists()


def test_an_address_beyond_this_machine_without_encryption_is_warned_of(machine: Machine) -> None:
    for host, warned in (("192.0.2.7", True), ("kho.example.org", True), ("127.0.0.1", False), ("0.0.0.0", False)):
        machine.settings.http.host = host
        for scope in ("user", "project"):
            said = machine.run("connect", "cursor", "--http", "--scope", scope, "--yes").err
            assert ("its credential too, is not encrypted" in said) == warned, (host, scope)
    machine.settings.http.host, machine.settings.http.tls_cert = "192.0.2.7", Path("hub.pem")
    assert "not encrypted" not in machine.run("connect", "cursor", "--http", "--yes").err


def test_tools_that_do_not_exist_are_refused(machine: Machine) -> None:
    """The entry would not start."""
    refused = machine.run("connect", "cursor", "--tools", "bogus", "--yes")
    assert refused.status == 1
    assert "There is no toolset, capability or tool called bogus." in refused.err
    assert machine.files() == {}


def test_over_http_the_address_is_that_of_the_running_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was started with a port of its own, which no setting names."""
    monkeypatch.setenv("HOME", str(tmp_path))
    place = Place(tmp_path / "home")
    connect = ("connect", "cursor", "--http", "--dry-run", "--json")
    with OwnHub(place) as hub:
        hub.ready()
        [file] = json.loads(place.run(*connect).stdout)["files"]
        assert f"http://127.0.0.1:{hub.port}/mcp" in file["difference"]
        assert b"No hub is running" not in place.run(*connect[:-1]).stderr
    [file] = json.loads(place.run(*connect).stdout)["files"]
    assert "http://127.0.0.1:8001/mcp" in file["difference"]
    assert b"No hub is running" in place.run(*connect[:-1]).stderr


@pytest.mark.parametrize(
    "words",
    ["claude-desktop --http", "claude-desktop --scope project", "codex --scope project", "windsurf --scope project",
     "claude-desktop --rules", "cursor --rules", "codex --hooks", "nobody"],
)  # fmt: skip
def test_what_a_client_cannot_do_is_a_sentence(machine: Machine, words: str) -> None:
    refused = machine.run("connect", *words.split(), "--yes")
    assert refused.status in (1, 2)
    assert refused.err
    assert machine.files() == {}


def test_chatgpt_gets_steps(machine: Machine) -> None:
    shown = machine.run("connect", "chatgpt")
    assert shown.status == 0
    assert "https://" in shown.out
    assert len(json.loads(machine.run("connect", "chatgpt", "--json").out)["steps"]) == 6
    assert machine.run("disconnect", "chatgpt").status == 1


def test_the_list_says_who_is_here_and_who_is_connected(machine: Machine) -> None:
    (machine.home / ".cursor").mkdir()
    (machine.home / ".cursor" / "mcp.json").write_text("not json")
    programs = machine.home / "bin"
    programs.mkdir()
    (programs / "codex").write_text("")
    (programs / "codex").chmod(0o755)
    machine.environment["PATH"] = str(programs)
    machine.run("connect", "zed", "--yes")
    machine.run("connect", "claude", "--http", "--scope", "project", "--yes")
    found = {one["name"]: one for one in json.loads(machine.run("connect", "--json").out)["clients"]}
    assert [*found] == [*CLIENTS]
    assert {name for name, one in found.items() if one["here"]} == {"cursor", "codex", "zed"}
    assert {name: [(c["scope"], c["transport"]) for c in one["connected"]] for name, one in found.items() if one["connected"]} == {
        "zed": [("user", "stdio")],
        "claude": [("project", "http")],
    }  # fmt: skip
    people = machine.run("connect").out
    assert "zed             connected" in people
    assert "gemini          not found" in people


def test_the_file_that_is_there_is_taken(machine: Machine) -> None:
    folder = machine.home / ".config" / "opencode"
    folder.mkdir(parents=True)
    (folder / "opencode.jsonc").write_text('{\n  // mine\n  "theme": "dark",\n}\n')
    assert machine.run("connect", "opencode", "--yes").status == 0
    assert [path.name for path in folder.iterdir()] == ["opencode.jsonc"]
    assert machine.run("disconnect", "opencode").status == 0
    assert (folder / "opencode.jsonc").read_text() == '{\n  // mine\n  "theme": "dark",\n}\n'


@pytest.mark.parametrize(
    ("platform", "name", "expected"),
    [
        ("linux", "vscode", "me/.config/Code/User/mcp.json"),
        ("darwin", "vscode", "me/Library/Application Support/Code/User/mcp.json"),
        ("win32", "vscode", "roaming/Code/User/mcp.json"),
        ("darwin", "claude-desktop", "me/Library/Application Support/Claude/claude_desktop_config.json"),
        ("win32", "claude-desktop", "roaming/Claude/claude_desktop_config.json"),
        ("linux", "claude-desktop", "me/.config/Claude/claude_desktop_config.json"),
        ("linux", "zed", "me/.config/zed/settings.json"),
        ("darwin", "zed", "me/.config/zed/settings.json"),
        ("win32", "zed", "roaming/Zed/settings.json"),
        ("win32", "opencode", "me/.config/opencode/opencode.json"),
        ("win32", "codex", "me/.codex/config.toml"),
        ("darwin", "windsurf", "me/.codeium/windsurf/mcp_config.json"),
        ("win32", "gemini", "me/.gemini/settings.json"),
        ("win32", "claude", "me/.claude.json"),
    ],
)
def test_each_system_keeps_settings_elsewhere(platform: str, name: str, expected: str) -> None:
    places = Places(platform, Path("me"), Path("here"), {"APPDATA": "roaming"})
    assert CLIENTS[name].file(places, "user").as_posix() == expected


def test_variables_of_the_clients_move_their_files() -> None:
    variables = {"CODEX_HOME": "a", "CLAUDE_CONFIG_DIR": "b", "XDG_CONFIG_HOME": "c"}
    places = Places("linux", Path("me"), Path("here"), variables)
    paths = [CLIENTS[name].file(places, "user").as_posix() for name in ("codex", "claude", "opencode", "zed", "cursor")]
    assert paths == [
        "a/config.toml",
        "b/.claude.json",
        "c/opencode/opencode.json",
        "c/zed/settings.json",
        "me/.cursor/mcp.json",
    ]


@pytest.mark.parametrize("name", ["kho", "research-agent"])
def test_the_program_is_named_with_its_full_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    folder = tmp_path / "with blank"
    folder.mkdir()
    (folder / "kho").write_text("")
    (folder / "kho").chmod(0o755)
    (folder / "research-agent").write_text("")
    (folder / "research-agent").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(folder))
    full = [str(folder / "kho")]
    assert launch.program(str(folder / name)) == full
    assert launch.program(f"with blank/{name}") == full
    assert launch.program(name) == full
    assert launch.program("/usr/lib/x/__main__.py", "/nowhere/python") == ["/nowhere/python", "-m", "kho"]
    assert launch.program("/nowhere/kho", "/nowhere/python") == ["/nowhere/python", "-m", "kho"]


def test_a_record_is_written_before_the_file(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash between the two leaves a file that can still be put back."""
    path = machine.home / ".claude.json"
    path.write_text("{ }")
    write = plan.write

    def crash(target: Path, content: bytes, mode: int | None = None) -> None:
        write(target, content, mode)
        if target == path:
            raise KeyboardInterrupt

    monkeypatch.setattr(plan, "write", crash)
    assert machine.run("connect", "claude", "--yes").status == 1
    monkeypatch.undo()
    monkeypatch.chdir(machine.project)
    assert "kho" in path.read_text()
    assert machine.run("disconnect", "claude").status == 0
    assert path.read_text() == "{ }"
