"""Stored toolsets, and changes of tools since approval.

Descriptions reach models. A board that is approved with a harmless one and later shows another could tell models
anything, so a change is reported and stays marked until somebody approves the board again.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import orjson

from kho.devices.protocol.tool_listing import BoardTool

MOST_NAMES = 512
"""Maximum tools of a board whose approved form is remembered, including tools that are gone."""


def packed(tools: Iterable[BoardTool]) -> list[dict[str, Any]]:
    return [asdict(tool) for tool in tools]


def digest(kept: Sequence[Mapping[str, Any]]) -> str:
    return _sha(orjson.dumps(kept, option=orjson.OPT_SORT_KEYS))


def compared(
    tools: Iterable[BoardTool], baseline: Mapping[str, Any], warnings: Mapping[str, Any], at: str
) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Compare tools with the baseline. Return the baseline extended by new tools, all tools that differ from it, and
    the names of those that differ for the first time."""
    known, marked, fresh = dict(baseline), dict[str, Any](), list[str]()
    for tool in tools:
        form = {
            "description": _sha(tool.description.encode()),
            "schema": _sha(orjson.dumps([tool.schema, tool.user_only], option=orjson.OPT_SORT_KEYS)),
        }
        approved = known.get(tool.name)
        if approved is None:
            if len(known) < MOST_NAMES:
                known[tool.name] = form
            continue
        changed = [part for part in form if form[part] != approved.get(part)]
        if not changed:
            continue
        before = warnings.get(tool.name)
        if before is not None and before["form"] == form:
            marked[tool.name] = before
        else:
            marked[tool.name] = {"changed": changed, "since": at, "form": form}
            fresh.append(tool.name)
    return known, marked, fresh


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]
