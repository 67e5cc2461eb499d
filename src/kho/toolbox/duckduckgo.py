"""Tool duckduckgo_search: web search without an API key. Name, schema and answer layout are given by contract 002."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Annotated, Any

from cachetools import TTLCache
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from kho.kernel import Call, Params
from kho.toolbox.errors import ToolFailed
from kho.toolbox.settings import ToolboxSettings
from kho.toolbox.tool import Tool

log = logging.getLogger("kho.toolbox")

MAX_RESULTS = 5
MAX_ANSWERS, ANSWER_TTL = 256, 300.0
"""Size of the cache of answers, and seconds until an entry expires: a repeated query needs no request."""
ATTEMPTS = 2
PAUSE = 0.5


Search = Callable[[str, ToolboxSettings], Sequence[dict[str, Any]]]
"""Runs a query; returns results with title, href and body. Blocking; raises SearchProblem."""


def _not_blank(value: str) -> str:
    if not value.strip():
        raise PydanticCustomError("blank", "must not be empty")
    return value.strip()


class SearchWeb(Params):
    query: Annotated[str, Field(max_length=1_000), AfterValidator(_not_blank)]


class DuckDuckGo:
    def __init__(self, settings: ToolboxSettings, search: Search | None = None, ttl: float = ANSWER_TTL) -> None:
        self._settings = settings
        self._search = search or ask
        self._answers: TTLCache[tuple[str, str], Sequence[dict[str, Any]]] = TTLCache(MAX_ANSWERS, ttl)
        # By tenant: how fast an answer comes must not tell what others have asked.

    async def run(self, params: SearchWeb, call: Call) -> str:
        """Search, and return the results in the contract's layout."""
        return laid_out(await self.results(params.query, call))

    async def results(self, query: str, call: Call) -> Sequence[dict[str, Any]]:
        """Return results with title, href and body. Raises ToolFailed."""
        known = self._answers.get((call.tenant, query))
        if known is not None:
            return known
        try:
            async with asyncio.timeout(call.remaining(self._settings.search_timeout)):
                answer = await self._ask(query)
        except TimeoutError:
            raise ToolFailed(
                f"The web search did not answer within {self._settings.search_timeout:g} s. Is this machine online?"
            ) from None
        self._answers[call.tenant, query] = answer
        return answer

    async def _ask(self, query: str) -> Sequence[dict[str, Any]]:
        settings = self._settings
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await asyncio.to_thread(self._search, query, settings)
            except SearchProblem as problem:
                log.info("web search, attempt %d: %s", attempt, problem)
                if attempt == ATTEMPTS:
                    raise ToolFailed(f"The web search failed: {problem}. Try again later.") from None
            await asyncio.sleep(PAUSE)
        raise AssertionError("at least one attempt is made")


class SearchProblem(Exception):
    """The search failed; the message is for users."""


def ask(query: str, settings: ToolboxSettings) -> Sequence[dict[str, Any]]:
    """Search with the package `ddgs`, which is imported only here, on first use."""
    ddgs = import_module("ddgs")
    errors = import_module("ddgs.exceptions")
    try:
        client = ddgs.DDGS(
            proxy=settings.search_proxy or None, timeout=max(1, round(settings.search_timeout / ATTEMPTS))
        )
        return client.text(
            query,
            region=settings.search_region,
            safesearch=settings.search_safe,
            max_results=MAX_RESULTS,
            backend="duckduckgo",
        )
    except errors.TimeoutException:
        raise SearchProblem("no answer in time") from None
    except errors.RatelimitException:
        raise SearchProblem("too many searches from here") from None
    except errors.DDGSException as problem:
        if "No results" in str(problem):
            return []
        raise SearchProblem("no network, or the search engine cannot be reached") from None


def laid_out(results: Sequence[dict[str, Any]]) -> str:
    if not results:
        return "No results found."
    return "".join(
        f"Title: {_line(one.get('title'))}\nContent: {_line(one.get('body'))}\nLink: {_line(one.get('href'))}\n---\n"
        for one in results[:MAX_RESULTS]
    )


def _line(value: Any) -> str:
    return " ".join(str(value or "").split())


def tool(engine: DuckDuckGo) -> Tool:
    return Tool(
        name="duckduckgo_search",
        title="Search the web",
        description=(
            "Search using DuckDuckGo (free, unlimited, privacy-focused). Returns up to 5 relevant search results with "
            "titles, content snippets, and links."
        ),
        params=SearchWeb,
        input_schema={
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "description": "Search query - should be specific and descriptive for best results",
                }
            },
            "required": ["query"],
        },
        run=engine.run,
        example={"query": "sâu răng nguyên nhân"},
    )
