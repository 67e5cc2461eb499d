"""Two stdio processes and one HTTP hub on one store: what one takes in, the others find at once, and nobody is locked
out. `python -m bench.research_processes --seconds 600`; the tests run a short one.

Each process is given its own client, which adds texts, asks for what another process just added, and lists and removes
in between. Counted are calls, errors that speak of a lock, and other errors.
"""

import argparse
import asyncio
import json
import os
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client

COLLECTION = "shared"
LISTENING = re.compile(r"http://[\d.]+:(\d+)")


def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "KHO_HOME": str(home), "KHO_SEARCH__EMBEDDER__PROVIDER": "none"}


@asynccontextmanager
async def by_stdio(home: Path) -> AsyncGenerator[Client, None]:
    process = StdioServerParameters(command=sys.executable, args=["-m", "kho", "stdio"], env=environment(home))
    with (home.parent / "stdio.log").open("a", encoding="utf-8") as log:
        async with Client(stdio_client(process, log)) as client:
            yield client


@asynccontextmanager
async def by_http(home: Path) -> AsyncGenerator[Client, None]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kho", "serve", "--port", "0", env=environment(home), stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        found = LISTENING.search((await process.stderr.readline()).decode())
        assert found is not None
        drained = asyncio.ensure_future(process.stderr.read())
        address = f"http://127.0.0.1:{found[1]}"
        await _answering(int(found[1]))
        async with Client(f"{address}/mcp") as client:
            yield client
    finally:
        process.terminate()
        await process.wait()
    await drained


async def _answering(port: int) -> None:
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return


async def load(clients: list[Client], seconds: float) -> Counter[str]:
    """Each client adds a text, and the next one must find it at once. Beside that, all do a bit of everything."""
    counted: Counter[str] = Counter()
    until = time.monotonic() + seconds

    async def call(client: Client, tool: str, **arguments: Any) -> Any:
        counted["calls"] += 1
        try:
            result = await client.call_tool(tool, arguments)
        except MCPError as problem:
            return _count(problem.error.message)
        if result.is_error:
            return _count(str(result.structured_content))
        return result.structured_content

    def _count(told: str) -> None:
        counted["locked" if re.search("locked|busy|DATABASE", told, re.IGNORECASE) else "errors"] += 1
        counted[f"error: {told[:200]}"] += 1

    async def run(place: int) -> None:
        mine, other = clients[place], clients[(place + 1) % len(clients)]
        chance = random.Random(place)
        number = 0
        while time.monotonic() < until:
            number += 1
            word = f"quokka{place}n{number}"
            text = f"# {word}\n\nThe {word} was seen at hour {number}. " + "Nothing else of note. " * chance.randrange(
                40
            )
            await call(mine, "augment_knowledge", content=text, source=word, collection=COLLECTION)
            found = await call(other, "query_knowledge_base", query=word, collections=COLLECTION)
            if found is not None:
                best = [one["metadata"]["document_title"] for one in found["results"][:1]]
                counted["found at once" if best == [word] else "not found"] += 1
            match chance.randrange(4):
                case 0:
                    await call(mine, "manage_collections", action="info", collection_name=COLLECTION)
                case 1:
                    await call(other, "ingest_status")
                case 2:
                    name = f"c{place}-{number}"
                    await call(mine, "manage_collections", action="create", collection_name=name)
                    await call(other, "manage_collections", action="delete", collection_name=name)
                case _:
                    await call(mine, "similar_documents", document=word, top_k=3)

    await asyncio.gather(*(run(place) for place in range(len(clients))))
    return counted


async def measure(home: Path, seconds: float) -> Counter[str]:
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(by_http(home))]
        clients += [await stack.enter_async_context(by_stdio(home)) for _ in range(2)]
        await clients[0].call_tool("manage_collections", {"action": "create", "collection_name": COLLECTION})
        return await load(clients, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as folder:
        counted = asyncio.run(measure(Path(folder) / "home", seconds))
    print(json.dumps(dict(counted), indent=2))
    sys.exit(1 if counted["locked"] or counted["errors"] or counted["not found"] else 0)


if __name__ == "__main__":
    main()
