"""The committed manifests are what their sources make of them, and have the shape that their readers ask for."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from tests.packages.clean_environment import ROOT

from kho import __version__
from kho.doors.connect import rules
from packages import manifests

TEXT = {"type": "string", "minLength": 1}
EXACT = {**TEXT, "pattern": r"^\d+\.\d+\.\d+[^ <>=*^~|]*$"}
ARGUMENT = {
    "type": "object",
    "properties": {"type": {"const": "positional"}, "value": TEXT},
    "required": ["type", "value"],
    "additionalProperties": False,
}
VARIABLE = {
    "type": "object",
    "properties": {
        "name": TEXT,
        "description": TEXT,
        "default": TEXT,
        "format": {"enum": ["string", "number", "boolean", "filepath"]},
        "isRequired": {"type": "boolean"},
        "isSecret": {"type": "boolean"},
    },
    "required": ["name"],
    "additionalProperties": False,
}
PACKAGE = {
    "type": "object",
    "properties": {
        "registryType": {"const": "pypi"},
        "identifier": TEXT,
        "version": EXACT,
        "runtimeHint": {"const": "uvx"},
        "transport": {
            "type": "object",
            "properties": {"type": {"const": "stdio"}},
            "required": ["type"],
            "additionalProperties": False,
        },
        "packageArguments": {"type": "array", "items": ARGUMENT},
        "environmentVariables": {"type": "array", "items": VARIABLE},
    },
    "required": ["registryType", "identifier", "version", "transport"],
    "additionalProperties": False,
}
SERVER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "$schema": {"const": manifests.REGISTRY_SCHEMA},
        "name": {**TEXT, "pattern": r"^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$", "maxLength": 200},
        "title": {**TEXT, "maxLength": 100},
        "description": {**TEXT, "maxLength": 100},
        "version": EXACT,
        "packages": {"type": "array", "items": PACKAGE, "minItems": 1},
    },
    "required": ["$schema", "name", "description", "version"],
    "additionalProperties": False,
}
"""What the registry's schema of 2025-12-11 says of the members that our entry has. `make clients` checks the entry
against that schema itself."""


def breach(change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    entry = copy.deepcopy(manifests.registry_entry())
    change(entry)
    return entry


BREACHES = {
    "name": breach(lambda entry: entry.update(name="kho")),
    "description": breach(lambda entry: entry.update(description="x" * 101)),
    "version": breach(lambda entry: entry["packages"][0].update(version=">=0.1.0")),
    "transport": breach(lambda entry: entry["packages"][0].pop("transport")),
    "format": breach(lambda entry: entry["packages"][0]["environmentVariables"][0].update(format="folder")),
    "argument": breach(lambda entry: entry["packages"][0]["packageArguments"][0].pop("value")),
}


def committed(folder: str) -> set[str]:
    return {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*") if path.is_file()}


def test_the_committed_files_are_made_from_their_sources() -> None:
    made = manifests.committed()
    assert {path: (ROOT / path).read_text() for path in made} == made, "run `make manifests`"
    assert committed(manifests.PLUGIN) | committed(".claude-plugin") == {*made, manifests.ICON} - {"server.json"}


def test_every_manifest_has_the_version_of_the_program() -> None:
    plugin = json.loads((ROOT / manifests.PLUGIN / ".claude-plugin" / "plugin.json").read_text())
    entry = manifests.registry_entry()
    packages = [package["version"] for package in entry["packages"]]
    versions = [
        manifests.VERSION,
        plugin["version"],
        entry["version"],
        *packages,
        manifests.bundle_manifest()["version"],
    ]
    assert set(versions) == {__version__}


def test_the_skill_says_when_it_is_used_and_has_the_rules() -> None:
    text = (ROOT / manifests.PLUGIN / "skills" / "memory" / "SKILL.md").read_text()
    _, head, body = text.split("---\n", 2)
    said = yaml.safe_load(head)
    assert said["name"] == "memory"
    assert 0 < len(said["description"]) <= 1024
    assert body == rules.BODY


def test_the_registrys_entry_has_its_shape() -> None:
    jsonschema.validate(json.loads((ROOT / "server.json").read_text()), SERVER)


@pytest.mark.parametrize("entry", BREACHES.values(), ids=BREACHES)
def test_another_shape_is_noticed(entry: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(entry, SERVER)


def test_the_readme_names_the_registrys_entry() -> None:
    """The registry compares it with the description of the package, to see that both are of the same people."""
    assert f"mcp-name: {manifests.REGISTRY_NAME}" in Path(ROOT, "README.md").read_text()


def test_the_bundle_takes_every_pinned_version() -> None:
    text = (ROOT / "requirements" / "runtime.txt").read_text()
    lines = [line.removesuffix("\\").strip() for line in text.splitlines() if line[:1].isalnum()]
    assert manifests.pins() == lines
