"""A board's tools as they are kept, and what became of them since they were approved.

A description reaches models. A board that is approved with a harmless one and shows another later could tell them
anything, so a change is told and stays marked until somebody approves the board anew.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import orjson

from kho.devices.protocol.tool_listing import BoardTool

MOST_NAMES = 512
"""Tools of one board whose first form is remembered, those that have gone included."""


def packed(tools: Iterable[BoardTool]) -> list[dict[str, Any]]:
    return [asdict(tool) for tool in tools]


def unpacked(kept: Sequence[Mapping[str, Any]]) -> tuple[BoardTool, ...]:
    return tuple(BoardTool(**one) for one in kept)


def digest(kept: Sequence[Mapping[str, Any]]) -> str:
    return _sha(orjson.dumps(kept, option=orjson.OPT_SORT_KEYS))


def compared(
    tools: Iterable[BoardTool], baseline: Mapping[str, Any], warnings: Mapping[str, Any], at: str
) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """The baseline with what is new in it, what differs from it now, and the names of those that differ since now."""
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
