"""The tool server: the contract's two methods, its search tool, and a second tool beside it."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.outside import listening, ok, server, silent
from tests.toolbox.test_web import web

from kho.kernel.background import Background
from kho.kernel.call import Call, Principal
from kho.kernel.capability import Capability
from kho.kernel.registry import Registry
from kho.toolbox import duckduckgo, fetch_url
from kho.toolbox.duckduckgo import DuckDuckGo, SearchProblem, laid_out
from kho.toolbox.errors import ToolFailed
from kho.toolbox.service import Toolbox
from kho.toolbox.settings import ToolboxSettings
from kho.toolbox.tool import Tool

CALL = Call(Principal("someone", "t", frozenset({"*"})))


def registry(*tools: Tool) -> Registry:
    return Registry([Capability("toolbox", "tool-server", Toolbox(tools).operations)], Background())


async def ask(tools: Registry, method: str, params: dict[str, Any]) -> Any:
    operation = tools.method(f"tool-server/{method}")
    assert operation is not None
    outcome = await tools.call(operation, params, CALL)
    return outcome.error or outcome.value


def hits(query: str, settings: ToolboxSettings) -> Sequence[dict[str, Any]]:
    return [{"title": f"{query} {n}", "href": f"https://example.org/{n}", "body": "Two\nlines."} for n in range(7)]


async def read(content: bytes, name: str) -> str:
    return f"{name}: {content.decode()}"


async def test_the_list_is_the_contracts() -> None:
    found = await ask(registry(duckduckgo.tool(DuckDuckGo(ToolboxSettings(), hits))), "tools/list", {})
    assert found == {
        "tools": [
            {
                "name": "duckduckgo_search",
                "description": "Search using DuckDuckGo (free, unlimited, privacy-focused). Returns up to 5 relevant "
                "search results with titles, content snippets, and links.",
                "inputSchema": {
                    "type": "object",
                    "properties": {
                        "query": {
                            "type": "string",
                            "description": "Search query - should be specific and descriptive for best results",
                        }
                    },
                    "required": ["query"],
                },
            }
        ]
    }


@pytest.mark.requirement("002.tools.search-layout")
async def test_a_search_is_laid_out_as_the_contract_shows() -> None:
    tools = registry(duckduckgo.tool(DuckDuckGo(ToolboxSettings(), hits)))
    found = await ask(tools, "tools/call", {"name": "duckduckgo_search", "arguments": {"query": "sâu răng"}})
    [content] = found["content"]
    assert content["type"] == "text"
    assert content["text"].startswith(
        "Title: sâu răng 0\nContent: Two lines.\nLink: https://example.org/0\n---\nTitle: sâu răng 1\n"
    )
    assert content["text"].count("---\n") == 5
    assert laid_out([]) == "No results found."
    assert laid_out([{"title": None}]) == "Title: \nContent: \nLink: \n---\n"


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"name": "nothing"}, -32602),
        ({}, -32602),
        ({"name": "duckduckgo_search"}, -32602),
        ({"name": "duckduckgo_search", "arguments": {"query": " "}}, -32602),
        ({"name": "duckduckgo_search", "arguments": {"query": 5}}, -32602),
        ({"name": "duckduckgo_search", "arguments": {"query": "x", "more": 1}}, -32602),
        ({"name": "duckduckgo_search", "arguments": ["x"]}, -32602),
    ],
)
async def test_wrong_calls(params: dict[str, Any], code: int) -> None:
    assert (await ask(registry(duckduckgo.tool(DuckDuckGo(ToolboxSettings(), hits))), "tools/call", params)).rpc == code


async def test_one_retry_then_the_contracts_error() -> None:
    tries: list[str] = []

    def failing(query: str, settings: ToolboxSettings) -> Sequence[dict[str, Any]]:
        tries.append(query)
        if query == "luck" and len(tries) == 2:
            return hits(query, settings)
        raise SearchProblem("no network")

    tools = registry(duckduckgo.tool(DuckDuckGo(ToolboxSettings(), failing)))
    error = await ask(tools, "tools/call", {"name": "duckduckgo_search", "arguments": {"query": "x"}})
    assert (error.rpc, error.code) == (-32002, "TOOL_FAILED")
    assert "no network" in error.message
    assert tries == ["x", "x"]
    tries.clear()
    found = await ask(tools, "tools/call", {"name": "duckduckgo_search", "arguments": {"query": "luck"}})
    assert "Title: luck 0" in found["content"][0]["text"]


async def test_the_same_question_is_not_asked_twice() -> None:
    tries: list[str] = []

    def counting(query: str, settings: ToolboxSettings) -> Sequence[dict[str, Any]]:
        tries.append(query)
        return hits(query, settings)

    for keep, expected in ((300.0, ["a", "b"]), (0.0, ["a", "a", "b", "a"])):
        tools = registry(duckduckgo.tool(DuckDuckGo(ToolboxSettings(), counting, keep)))
        for query in ("a", "a", "b", "a"):
            await ask(tools, "tools/call", {"name": "duckduckgo_search", "arguments": {"query": query}})
        assert tries == expected
        tries.clear()


async def test_how_fast_a_page_or_an_answer_comes_does_not_tell_what_another_tenant_asked() -> None:
    asked: list[str] = []

    def counting(query: str, settings: ToolboxSettings) -> Sequence[dict[str, Any]]:
        asked.append(query)
        return hits(query, settings)

    def page(path: str, host: str) -> bytes:
        asked.append(path)
        return ok(b"text")

    async with server(page) as port:
        tools = registry(duckduckgo.tool(DuckDuckGo(ToolboxSettings(), counting)), fetch_url.tool(web(port), read))
        operation = tools.method("tool-server/tools/call")
        assert operation is not None
        for name, arguments in (
            ("duckduckgo_search", {"query": "kettle"}),
            ("fetch_url", {"url": f"http://open.example:{port}/a"}),
        ):
            for tenant, count in (("one", 1), ("one", 1), ("two", 2), ("two", 2), ("one", 2)):
                call = Call(Principal("someone", tenant, frozenset({"*"})))
                outcome = await tools.call(operation, {"name": name, "arguments": arguments}, call)
                assert outcome.error is None
                assert len(asked) == count, (name, tenant)
            asked.clear()


async def test_the_real_search_behind_a_wall() -> None:
    """The kept package itself, through a proxy on this machine that lets nothing out."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async with listening(refuse) as port:
        tools = registry(
            duckduckgo.tool(DuckDuckGo(ToolboxSettings(search_timeout=120.0, search_proxy=f"http://127.0.0.1:{port}")))
        )
        error = await ask(tools, "tools/call", {"name": "duckduckgo_search", "arguments": {"query": "x"}})
        assert isinstance(error, ToolFailed)
        assert "did not answer" not in error.message, "it was waited for"


def test_region_and_safe_search_reach_the_kept_package(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def text(self: object, query: str, **options: Any) -> list[dict[str, Any]]:
        asked.append({"query": query, **options})
        return []

    monkeypatch.setattr("ddgs.ddgs.DDGS.text", text)  # it would leave this machine; ddgs.DDGS is a stand-in at first
    assert duckduckgo.ask("sâu răng", ToolboxSettings(search_region="vn-vi", search_safe="off")) == []
    [options] = asked
    assert (options["query"], options["region"], options["safesearch"]) == ("sâu răng", "vn-vi", "off")
    assert options["max_results"] == 5


async def test_a_search_that_hangs_ends_in_time() -> None:
    async with listening(silent) as port:
        tools = registry(
            duckduckgo.tool(DuckDuckGo(ToolboxSettings(search_timeout=2.0, search_proxy=f"http://127.0.0.1:{port}")))
        )
        error = await ask(tools, "tools/call", {"name": "duckduckgo_search", "arguments": {"query": "x"}})
        assert isinstance(error, ToolFailed)


async def test_fetch_url_reads_a_page_and_cuts_it() -> None:
    def handle(path: str, host: str) -> bytes:
        kinds = {"/doc.pdf": "application/pdf", "/image": "image/png", "/plain": "text/plain", "/": "text/html"}
        return ok(b"words " * 50, kinds[path])

    async with server(handle) as port:
        tools = registry(fetch_url.tool(web(port), read))

        async def fetched(path: str, **more: int) -> Any:
            arguments: dict[str, Any] = {"url": f"http://open.example:{port}{path}", **more}
            return await ask(tools, "tools/call", {"name": "fetch_url", "arguments": arguments})

        text = (await fetched("/"))["content"][0]["text"]
        assert text.startswith(f"Source: http://open.example:{port}/\n\npage.html: words words")
        assert "doc.pdf: words" in (await fetched("/doc.pdf"))["content"][0]["text"]
        assert "plain.txt: words" in (await fetched("/plain"))["content"][0]["text"]
        assert "characters more]" in (await fetched("/", max_chars=120))["content"][0]["text"]
        error = await fetched("/image")
        assert (error.rpc, "image/png" in error.message) == (-32002, True)


async def test_a_tool_of_ones_own_is_one_entry() -> None:
    from kho.toolbox.service import ListTools

    async def shout(params: ListTools, call: Call) -> str:
        return "HELLO"

    schema: dict[str, Any] = {"type": "object", "properties": {"cursor": {"type": "string"}}, "required": ["cursor"]}
    tools = registry(Tool("shout", "Shouts.", ListTools, schema, shout))
    assert (await ask(tools, "tools/call", {"name": "shout"}))["content"] == [{"type": "text", "text": "HELLO"}]
    assert tools.tool("shout") is not None
