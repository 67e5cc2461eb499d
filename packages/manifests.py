"""The files of the plugin, the bundle and the registry's entry, made from what stands elsewhere: name, version and
summary from pyproject.toml, commands, hooks and rules from what `kho connect` writes, versions from requirements/.
"""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from kho.doors.connect import hooks, launch, rules
from kho.doors.connect.clients import CLIENTS, ENTRY

ROOT = Path(__file__).parent.parent
PLUGIN = "packages/claude-code"
ICON = f"{PLUGIN}/.claude-plugin/icon.png"
"""Drawn once, for the plugin and the bundle."""
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAME, VERSION, SUMMARY = PROJECT["name"], PROJECT["version"], PROJECT["description"]
TITLE = "Kho"
AUTHOR = {"name": "The Kho project"}
COMMON = {"version": VERSION, "description": SUMMARY}
ABOUT = {"author": AUTHOR, "license": PROJECT["license"], "keywords": PROJECT["keywords"]}
REGISTRY_NAME = "org.example/kho"
"""The name in the MCP registry. Whoever publishes there replaces `org.example` by a namespace that is theirs, here and
in README.md, where the registry looks for it."""
REGISTRY_SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
KHO = [NAME]
"""The plugin starts the program by its name: Claude Code runs in a terminal, and has its PATH."""
TOOLS = "Tools that are listed: minimal, default, all, capabilities or names of tools, separated by commas."

SKILL_HEAD = """---
name: memory
description: >-
  Lasting memory of the user, shared by all sessions and agents. Use it before a task begins and when the user refers to
  something said or done before (search), and when the user states a preference, a decision or a fact that will matter
  later, or asks to remember or forget something (remember, forget).
---
"""
PLUGIN_README = """# Kho for Claude Code

{summary}

This plugin gives Claude Code the MCP server `kho`, a skill that says when to remember and when to search, and two
hooks. When a session starts, `{start}` shows it what was stored recently. After each answer, `{stop}` adds
what you and the model said to a conversation in Kho, with secrets masked. Everything stays on your machine. If you do
not want the hooks, connect with `kho connect claude --rules` instead.

The plugin needs the program `kho` on your PATH: install its wheel with `uv tool install` or `pipx install`. Then
`claude mcp list` shows `plugin:kho:kho` as connected.
"""
BUNDLE_SERVER = '''"""Starts `kho stdio`: what Claude Desktop runs."""

import sys

from kho.__main__ import main

sys.argv = ["kho", "stdio"]
main()
'''


def committed() -> dict[str, str]:
    """What stands in this repository, by path; `make manifests` writes it."""
    listed = {"name": NAME, "source": f"./{PLUGIN}", "description": SUMMARY}
    market = {"name": NAME, "description": SUMMARY, "owner": AUTHOR, "plugins": [listed]}
    return {
        **{f"{PLUGIN}/{path}": content for path, content in _plugin().items()},
        ".claude-plugin/marketplace.json": _json(market),
        "server.json": _json(registry_entry()),
    }


def _plugin() -> dict[str, str]:
    commands = hooks.wanted(KHO, {})
    start, stop = (commands[event]["hooks"][0]["command"] for event in hooks.EVENTS)
    entry = CLIENTS["claude"].stdio_entry(launch.stdio(KHO, ""), {})
    return {
        ".claude-plugin/plugin.json": _json({"name": NAME, "displayName": TITLE, **COMMON, **ABOUT}),
        ".mcp.json": _json({"mcpServers": {ENTRY: entry}}),
        "hooks/hooks.json": _json({"hooks": {event: [element] for event, element in commands.items()}}),
        "skills/memory/SKILL.md": SKILL_HEAD + rules.BODY,
        "README.md": PLUGIN_README.format(summary=SUMMARY, start=start, stop=stop),
    }


def registry_entry() -> dict[str, Any]:
    package = {
        "registryType": "pypi",
        "identifier": NAME,
        "version": VERSION,
        "runtimeHint": "uvx",
        "transport": {"type": "stdio"},
        "packageArguments": [{"type": "positional", "value": "stdio"}],
        "environmentVariables": [
            {"name": "KHO_HOME", "description": "Folder of the data; your own one if not set.", "format": "filepath"},
            {"name": "KHO_MCP__TOOLS", "description": TOOLS, "default": "default"},
        ],
    }
    return {"$schema": REGISTRY_SCHEMA, "name": REGISTRY_NAME, "title": TITLE, **COMMON, "packages": [package]}


def bundle(wheel: Path) -> dict[str, bytes]:
    """The files of the bundle: the wheel, and what makes uv install it with the versions that are tested."""
    texts = {
        "manifest.json": _json(bundle_manifest()),
        "pyproject.toml": _bundle_project(wheel.name),
        "server.py": BUNDLE_SERVER,
        "LICENSE": (ROOT / "LICENSE").read_text(),
    }
    files = {wheel.name: wheel.read_bytes(), "icon.png": (ROOT / ICON).read_bytes()}
    return {**files, **{path: text.encode() for path, text in texts.items()}}


def bundle_manifest() -> dict[str, Any]:
    tools = {"type": "string", "title": "Tools", "description": TOOLS, "default": "default", "required": False}
    return {
        "manifest_version": "0.4",
        "name": NAME,
        "display_name": TITLE,
        **COMMON,
        **ABOUT,
        "icon": "icon.png",
        "server": {
            "type": "uv",
            "entry_point": "server.py",
            "mcp_config": {
                "command": "uv",
                "args": ["run", "--directory", "${__dirname}", "server.py"],
                "env": {"KHO_MCP__TOOLS": "${user_config.tools}"},
            },
        },
        "tools_generated": True,
        "prompts_generated": True,
        "compatibility": {
            "platforms": ["darwin", "linux"],
            "runtimes": {"python": PROJECT["requires-python"]},
        },
        "user_config": {"tools": tools},
    }


def pins() -> list[str]:
    """The versions of requirements/runtime.txt, without hashes: `name==version ; marker`."""
    text = (ROOT / "requirements" / "runtime.txt").read_text()
    return [found.strip() for found in re.findall(r"^([a-z][^\\\n]+==[^\\\n]+)", text, re.MULTILINE)]


def _bundle_project(wheel: str) -> str:
    lines = [
        "[project]",
        f'name = "{NAME}-bundle"',
        f'version = "{VERSION}"',
        f'requires-python = "{PROJECT["requires-python"]}"',
        f'dependencies = ["{NAME}"]',
        "",
        "[tool.uv]",
        "package = false",
        "constraint-dependencies = [",
        *(f"    {json.dumps(pin)}," for pin in pins()),
        "]",
        "",
        "[tool.uv.sources]",
        f'{NAME} = {{ path = "{wheel}" }}',
    ]
    return "\n".join(lines) + "\n"


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
