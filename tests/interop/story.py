"""What every client does: the same story as story.mjs tells, with the same texts."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

STORY = json.loads(Path(__file__).with_name("story.json").read_text("utf-8"))

Call = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Gives a tool's result as it came over the wire."""


async def tell(names: list[str], call: Call) -> None:
    assert {"submit_experience", "query_experiences", "memory_add_message", "search", "fetch"} <= set(names), names
    await _facts(call)
    await _experiences(call)
    await _memory(call)


async def _facts(call: Call) -> None:
    """Search and fetch in the form that ChatGPT reads: fixed keys, and the same JSON as text."""
    remembered = await call("remember", {"text": STORY["fact"]})
    id = f"fact:{remembered['structuredContent']['id']}"
    found = await call("search", {"query": STORY["asked"]})
    [hit] = [one for one in found["structuredContent"]["results"] if one["id"] == id]
    assert {"id", "title", "url"} <= hit.keys(), hit
    fetched = await call("fetch", {"id": id})
    assert fetched["structuredContent"].keys() == {"id", "title", "text", "url", "metadata"}, fetched
    assert fetched["structuredContent"]["text"] == STORY["fact"]
    for result in (found, fetched):
        [block] = result["content"]
        assert json.loads(block["text"]) == result["structuredContent"]


async def _experiences(call: Call) -> None:
    submitted = await call("submit_experience", STORY["record"])
    assert not submitted["isError"], submitted
    id = submitted["structuredContent"]["data"]["id"]

    for keywords in STORY["queries"]:
        found = await call("query_experiences", {"keywords": keywords, "limit": 50})
        assert not found["isError"], found
        hits = [hit for hit in found["structuredContent"]["data"]["experiences"] if hit["id"] == id]
        assert hits, f"{keywords}: {id} is not among the matches"
        assert {field: hits[0][field] for field in STORY["record"]} == STORY["record"]

    refused = await call("query_experiences", {"keywords": ""})
    assert refused["isError"] is True
    assert refused["structuredContent"]["error"]["code"] == "INVALID_KEYWORDS", refused


async def _memory(call: Call) -> None:
    conversation = (await call("memory_get_or_create", {}))["structuredContent"]
    for message in STORY["said"]:
        done = await call("memory_add_message", {**conversation, **message})
        assert done["structuredContent"] == {"status": "success", **conversation}, done
    context = await call("memory_get_context", {**conversation, "max_messages": 20})
    messages = context["structuredContent"]["messages"]
    assert [{"role": one["role"], "content": one["content"]} for one in messages] == STORY["said"]

    await call("memory_delete", conversation)
    gone = await call("memory_get_context", conversation)
    assert gone["isError"] is True
    assert gone["structuredContent"]["error"]["code"] == "CONVERSATION_NOT_FOUND", gone
