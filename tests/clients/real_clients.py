"""Agents that people use, after `kho connect` of the installed wheel: they see Kho, and `kho disconnect` leaves no trace.

`make clients` runs this; `make test` does not, because the programs are more than a gigabyte. Each has a home of its own, and
none of the variables of whoever runs this.
"""

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.acceptance.processes import until
from tests.clients.mock_model import Json, Model, serving
from tests.doors.mcp.test_toolsets import CONTRACTS, MINIMAL, TALKS
from tests.packages.clean_environment import ROOT, install, make
from tests.timeouts import PATIENCE

from packages import manifests

VENV = ROOT / ".venv"
NODE = VENV / "clients" / "node_modules"
SILENT = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "GEMINI_CLI_TRUST_WORKSPACE": "true",  # in other folders it starts no server
    "NO_COLOR": "1",
    "TERM": "dumb",
}
"""Nothing is sent home, fetched or coloured."""


@dataclass(frozen=True)
class Agent:
    name: str
    program: str
    """Below node_modules; `*` stands for the platform."""
    version: str
    shown: str
    """What `mcp list` says of a server that it has reached, as a pattern; `{}` is how the server is named there."""
    files: dict[str, bytes | None] = field(default_factory=dict[str, bytes | None])
    """Settings that a user may have before, by path below the home; None: there are none yet."""
    scopes: Sequence[str] = ("user", "project")
    listing: Sequence[str] = ("mcp", "list")

    @property
    def command(self) -> str:
        found = sorted(NODE.glob(self.program))
        if not found:
            pytest.skip(f"{self.name} {self.version} has no package for this platform")
        return str(found[0])


AGENTS = {
    one.name: one
    for one in (
        Agent(
            "claude",
            "@anthropic-ai/claude-code-*/claude",
            "2.1.325",
            r"^{}: .* ✔ Connected$",
            {".claude.json": b'{\n  "numStartups": 3,\n  "mcpServers": {"x": {"command": "true"}}\n}'},
        ),
        Agent(
            "gemini",
            "@google/gemini-cli/bundle/gemini.js",
            "0.61.0",
            r"^✓ {}: .* - Connected$",
            {".gemini/settings.json": b'// mine\n{\n    "ui": {"theme": "GitHub"} /* light */\n}\n'},
        ),
        Agent(
            "opencode",
            "opencode-*/bin/opencode",
            "1.18.33",
            r"✓ {} +connected",
            {".config/opencode/opencode.jsonc": b'{\n\t// mine\n\t"share": "disabled",\n}\n'},
        ),
        Agent(
            "codex",
            "@openai/codex/bin/codex.js",
            "0.166.0",
            r'"name": "{}",\s+"enabled": true',  # it starts servers when a model is asked, and not before
            {".codex/config.toml": b'# mine\nmodel = "x" # y\n\n[tui]\nnotifications = false\n'},
            scopes=("user",),
            listing=("mcp", "list", "--json"),
        ),
    )
}
CASES = [
    pytest.param(agent, scope, before, id=f"{agent.name}-{scope}-{'settings' if before else 'nothing'}")
    for agent in AGENTS.values()
    for scope in agent.scopes
    for before in ((False, True) if scope == "user" else (False,))
]


class Machine:
    """The home of somebody who has installed the wheel and the agents."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.home = folder / "home"
        self.project = folder / "project"
        self.kho = folder / "kho"
        self.home.mkdir()
        self.project.mkdir()
        path = os.pathsep.join([str(programs), str(NODE / ".bin"), "/usr/local/bin", "/usr/bin", "/bin"])
        own = {"HOME": str(self.home), "KHO_HOME": str(self.kho), "PATH": path, "LANG": "C.UTF-8"}
        self.environment = {**own, **SILENT, "KHO_SEARCH__EMBEDDER__PROVIDER": "none"}

    def run(self, *command: str) -> str:
        """What it prints. A server that it has started ends with it."""
        process = subprocess.Popen(
            command,
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            start_new_session=True,
        )
        try:
            out, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, _ = process.communicate()
            raise AssertionError(f"{command} did not end\n{out}") from None
        assert process.returncode == 0, f"{command} ended with {process.returncode}\n{out}"
        return re.sub(r"\x1b\[\d*m", "", out)

    def files(self) -> dict[str, bytes]:
        """Every file of the home and the project, and every folder."""
        paths = [path for root in (self.home, self.project) for path in root.rglob("*")]
        return {str(path): path.read_bytes() if path.is_file() else b"" for path in paths}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clean")
    make("wheel", folder / "dist")
    [wheel] = (folder / "dist").iterdir()
    return install(wheel, folder / "environment")


@pytest.fixture
def machine(tmp_path: Path, programs: Path) -> Machine:
    return Machine(tmp_path, programs)


@pytest.fixture
def hub(machine: Machine, tmp_path: Path) -> Iterator[str]:
    """`kho serve` of the wheel; gives its port."""
    log = tmp_path / "serve.log"
    with log.open("wb") as err:
        process = subprocess.Popen(
            ["kho", "serve", "--port", "0"],
            env=machine.environment,
            cwd=machine.project,
            stdin=subprocess.DEVNULL,
            stdout=err,
            stderr=err,
            start_new_session=True,
        )
    try:
        yield _port(process, log)
    finally:
        process.terminate()
        process.wait(PATIENCE)


def _port(process: "subprocess.Popen[bytes]", log: Path) -> str:
    pattern = re.compile(r"answers at http://127\.0\.0\.1:(\d+)")
    until(lambda: pattern.search(log.read_text()), "the hub's address", process)
    found = pattern.search(log.read_text())
    assert found is not None
    return found[1]


def settings(machine: Machine, agent: Agent, before: bool) -> None:
    for name, content in agent.files.items() if before else ():
        path = machine.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content or b"")


def sees(agent: Agent, shown: str, server: str = "kho") -> bool:
    return re.search(agent.shown.format(re.escape(server)), shown, re.MULTILINE) is not None


def leaves_no_trace(machine: Machine, agent: Agent, scope: str) -> None:
    """The client is not started meanwhile: some write into their settings when they are."""
    old = machine.files()
    machine.run("kho", "connect", agent.name, "--scope", scope, "--yes")
    assert machine.files() != old
    machine.run("kho", "disconnect", agent.name)
    assert machine.files() == old


@pytest.mark.parametrize("agent", AGENTS.values(), ids=AGENTS)
def test_its_version_is_the_pinned_one(machine: Machine, agent: Agent) -> None:
    assert agent.version in machine.run(agent.command, "--version")


@pytest.mark.parametrize(("agent", "scope", "before"), CASES)
def test_it_sees_kho_until_it_is_disconnected(machine: Machine, agent: Agent, scope: str, before: bool) -> None:
    settings(machine, agent, before)
    leaves_no_trace(machine, agent, scope)
    assert not sees(agent, machine.run(agent.command, *agent.listing))
    leaves_no_trace(machine, agent, scope)  # nor in the files that the client has written by itself

    machine.run("kho", "connect", agent.name, "--scope", scope, "--yes")
    shown = machine.run(agent.command, *agent.listing)
    if (agent.name, scope) == ("claude", "project"):
        assert re.search("^kho: .* Pending approval", shown, re.MULTILINE)  # entries of a project wait for a person
    else:
        assert sees(agent, shown), shown
    machine.run("kho", "disconnect", agent.name)
    assert not re.search(r"\bkho\b", machine.run(agent.command, *agent.listing))


@pytest.mark.parametrize("name", ["claude", "gemini", "opencode", "codex"])
def test_it_reaches_a_running_hub(machine: Machine, hub: str, name: str) -> None:
    agent = AGENTS[name]
    machine.environment["KHO_HTTP__PORT"] = hub
    machine.run("kho", "connect", name, "--http", "--yes")
    shown = machine.run(agent.command, *agent.listing)
    assert sees(agent, shown), shown
    assert f"http://127.0.0.1:{hub}/mcp" in shown


# --- an agent at work -------------------------------------------------------------------------------------------------


class Work:
    """Conversations with Claude Code, each a run of the program, whose model is the script of mock_model.py."""

    def __init__(self, machine: Machine, model: Model) -> None:
        self.machine = machine
        self.model = model
        machine.environment |= {
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": "x",
            "HTTP_PROXY": "http://127.0.0.1:9",  # nobody listens there: what it sends to others fails
            "HTTPS_PROXY": "http://127.0.0.1:9",
            "NO_PROXY": "127.0.0.1",
            "ENABLE_TOOL_SEARCH": "false",  # every tool is in the first request, and not only after a search for it
            "MCP_CONNECTION_NONBLOCKING": "false",  # nor is the model asked while the server still starts
            "MCP_TIMEOUT": f"{PATIENCE * 1000:.0f}",
            "MCP_CONNECT_TIMEOUT_MS": f"{PATIENCE * 1000:.0f}",
        }

    def say(self, words: str) -> tuple[str, list[str]]:
        """What the agent answers, and the tools that it has used on the way."""
        self.model.requests.clear()
        allowed = ",".join(f"mcp__kho__{tool}" for tool in ("remember", "search", "fetch"))
        options = ("--output-format", "json", "--allowedTools", allowed)
        said: Json = json.loads(self.machine.run(AGENTS["claude"].command, "-p", words, *options))
        assert (said["is_error"], said["permission_denials"]) == (False, []), said
        replies = [one for one in self.model.requests[-1]["messages"] if one["role"] == "assistant"]
        used = [part["name"] for one in replies for part in one["content"] if part["type"] == "tool_use"]
        return said["result"], used


def test_claude_code_remembers_in_one_conversation_what_the_next_ones_ask(machine: Machine) -> None:
    machine.run("kho", "connect", "claude", "--yes")
    fact = "I prefer pnpm for the web shop."
    with serving() as model:
        work = Work(machine, model)
        assert work.say(f"Remember that {fact}") == (fact, ["mcp__kho__remember"])
        offered = [name.removeprefix("mcp__kho__") for name in model.offered[0] if name.startswith("mcp__kho__")]
        assert sorted(offered) == sorted([*MINIMAL, *CONTRACTS, *TALKS, "more"])
        for question in ("Which package manager do I prefer for the web shop?", "Tôi thích pnpm cho việc gì?"):
            assert work.say(question) == (fact, ["mcp__kho__search", "mcp__kho__fetch"])
            assert fact not in json.dumps(model.requests[0])  # the agent itself knew nothing of it
    stored: Json = json.loads(machine.run("kho", "facts", "list", "--json"))
    assert [one["text"] for one in stored["facts"]] == [fact]


# --- the plugin -------------------------------------------------------------------------------------------------------


@pytest.fixture
def marketplace(tmp_path: Path) -> Path:
    """The plugin and the list that names it, outside of this repository."""
    folder = tmp_path / "marketplace"
    shutil.copytree(ROOT / ".claude-plugin", folder / ".claude-plugin")
    shutil.copytree(ROOT / manifests.PLUGIN, folder / manifests.PLUGIN)
    return folder


def test_the_plugin_is_valid(machine: Machine, marketplace: Path) -> None:
    claude = AGENTS["claude"].command
    for folder in (marketplace, marketplace / manifests.PLUGIN):
        assert "Validation passed" in machine.run(claude, "plugin", "validate", "--strict", str(folder))
    plugin = str(marketplace / manifests.PLUGIN)
    machine.run(claude, "plugin", "validate", "--strict", "--profile", "directory", plugin)


def test_the_plugin_gives_claude_code_the_server_the_skill_and_the_hooks(machine: Machine, marketplace: Path) -> None:
    claude = AGENTS["claude"]
    machine.run(claude.command, "plugin", "marketplace", "add", str(marketplace))
    machine.run(claude.command, "plugin", "install", "kho@kho")
    shown = machine.run(claude.command, *claude.listing)
    assert sees(claude, shown, "plugin:kho:kho"), shown
    details = machine.run(claude.command, "plugin", "details", "kho@kho")
    for part in ("memory", "SessionStart", "Stop", "kho"):
        assert part in details
    machine.run(claude.command, "plugin", "uninstall", "kho@kho")
    assert not sees(claude, machine.run(claude.command, *claude.listing), "plugin:kho:kho")


# --- the entry for the MCP registry -----------------------------------------------------------------------------------


@pytest.mark.parametrize("broken", [False, True], ids=["ours", "broken"])
def test_the_entry_conforms_to_the_published_schema(marketplace: Path, broken: bool) -> None:
    entry = manifests.registry_entry()
    if broken:
        entry["packages"][0]["transport"] = {"type": "carrier pigeon"}
    (marketplace / "server.json").write_text(json.dumps(entry))
    command = [VENV / "skillsaw" / "bin" / "skillsaw", "lint", "--strict", "--no-custom-rules", "--no-progress", "."]
    done = subprocess.run(command, cwd=marketplace, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode != 0) == broken, done.stdout + done.stderr
    assert ("mcp-registry-server-json-valid" in done.stdout) == broken
    assert "mcp-registry" in done.stdout  # it has recognised the file
