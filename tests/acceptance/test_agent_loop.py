"""An agent that remembers: three conversations, each with a process of its own, of which the later two need what the
first one stored. The model is a script that chooses among the tools its client lists, by their names and schemas."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from tests.doors.doors import ERAS, KHO, talking


@dataclass(frozen=True)
class Story:
    """What a user says in one language."""

    said: str
    asked: str
    """Another day, in other words."""
    changed: str
    """What is true from now on."""
    needed: str
    """What an answer needs that rests on `said`, and on `changed`."""
    needed_now: str


STORIES = {
    "en": Story(
        "I prefer pnpm for the web shop.",
        "Which package manager do I prefer for the web shop?",
        "I prefer bun for the web shop since the new build.",
        "pnpm",
        "bun",
    ),
    "vi": Story(
        "Tôi sống ở Đà Nẵng.",
        "Tôi đang sống ở thành phố nào?",
        "Tôi đã chuyển tới sống ở Huế.",
        "Đà Nẵng",
        "Huế",
    ),
    "zh": Story("我对花生过敏。", "我对什么食物过敏?", "我现在对花生和虾都过敏。", "花生", "虾"),
}
OTHERS = [
    "The office closes at six on Fridays.",
    "Con mèo của tôi tên là Bông.",
    "周会在星期二上午十点。",
    "The printer is on the third floor.",
]


class Agent:
    """A scripted model: it sees the instructions, the listed tools and the user's words, and nothing else."""

    def __init__(self, client: Client, tools: dict[str, types.Tool]) -> None:
        self.client = client
        self.tools = tools

    async def use(self, name: str, **arguments: Any) -> Any:
        tool = self.tools[name]  # what is not listed cannot be chosen
        known = tool.input_schema["properties"]
        assert arguments.keys() <= known.keys()
        result = await self.client.call_tool(name, arguments)
        assert not result.is_error, result
        [block] = result.content
        assert isinstance(block, types.TextContent)
        return result.structured_content or json.loads(block.text)

    async def remember(self, said: str) -> None:
        """Remembers what the user states. If the reply shows that it supersedes something, it says so, as the tool's
        description asks."""
        done = await self.use("remember", text=said)
        if done["similar"]:
            await self.use("remember", text=said, replaces=done["similar"][0]["id"])

    async def answer(self, asked: str) -> str:
        """Quotes what it finds first, read whole."""
        found = (await self.use("search", query=asked, limit=3))["results"]
        assert found, asked
        return (await self.use("fetch", id=found[0]["id"]))["text"]


@asynccontextmanager
async def conversation(home: Path, era: str) -> AsyncGenerator[Agent, None]:
    env = {"KHO_SEARCH__EMBEDDER__PROVIDER": "e5", "KHO_SEARCH__PATIENCE": "60", "KHO_SEARCH__TIMEOUT": "60"}
    async with talking(home, era, KHO, "stdio", env=env) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {"remember", "search", "fetch", "recent"} <= tools.keys()
        yield Agent(client, tools)


@pytest.mark.parametrize("language", STORIES)
@pytest.mark.parametrize("era", ERAS)
async def test_later_conversations_know_what_an_earlier_one_was_told(tmp_path: Path, era: str, language: str) -> None:
    home, story = tmp_path / "home", STORIES[language]
    async with conversation(home, era) as agent:
        for other in OTHERS:
            await agent.remember(other)
        await agent.remember(story.said)
    async with conversation(home, era) as agent:
        assert story.needed in await agent.answer(story.asked)
        await agent.remember(story.changed)
    async with conversation(home, era) as agent:
        answer = await agent.answer(story.asked)
        assert story.needed_now in answer
        assert answer == story.changed
        latest = (await agent.use("recent", limit=5))["results"]
        assert latest[0]["text"] == story.changed
        assert story.said not in [one["text"] for one in latest]  # it was superseded
