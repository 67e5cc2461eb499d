"""Kept stores: one file per database, packed, beside the answers that must come out of it again.

`NAME.sqlite.xz` is a SQLite file, `NAME.postgres.xz` a dump in plain SQL, `NAME.<database>.json.xz` what was answered by
the code that made it. Whatever is in the folder is tested, so a new store is added by dropping its files in.
"""

import asyncio
import json
import lzma
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast
from unittest.mock import patch

import psycopg
from tests.doors.doors import Served, bearer, kho, served

from kho.models.settings import Embedding
from kho.settings import Search, Settings

Json = dict[str, Any]
HERE = Path(__file__).parent
SCHEMA = "kept_store"
"""The schema that a dump names; it gets the name of the schema that it is read into."""
EMBEDDER = {"provider": "hash", "dimension": 32}
"""Short vectors keep a store small, and no model has to be loaded."""


@dataclass(frozen=True)
class Kept:
    name: str
    database: Literal["sqlite", "postgres"]

    def __str__(self) -> str:
        return f"{self.name}-{self.database}"

    @property
    def packed(self) -> Path:
        return HERE / f"{self.name}.{self.database}.xz"

    @property
    def answers(self) -> Path:
        return HERE / f"{self.name}.{self.database}.json.xz"

    def recorded(self) -> Json:
        return json.loads(lzma.decompress(self.answers.read_bytes()))

    def unpack(self, home: Path, url: str | None = None) -> Settings:
        """The store in `home`, or in the schema of its own that the connections of `url` see."""
        content = lzma.decompress(self.packed.read_bytes())
        if url is None:
            home.mkdir(parents=True)
            (home / "kho.db").write_bytes(content)
        else:
            with psycopg.connect(url, autocommit=True) as connection:
                row = connection.execute("SELECT current_schema()").fetchone()
                assert row is not None
                connection.execute(content.replace(SCHEMA.encode(), row[0].encode()))
        return settings_of(home, url)


def all_kept() -> list[Kept]:
    """Every store of the folder, the oldest first."""
    return [
        Kept(path.name.removesuffix(f".{database}.xz"), database)
        for database in ("sqlite", "postgres")
        for path in sorted(HERE.glob(f"*.{database}.xz"))
    ]


def settings_of(home: Path, url: str | None) -> Settings:
    return Settings(
        home=home, database_url=url, migrate="auto", search=Search(embedder=Embedding.model_validate(EMBEDDER))
    )


@contextmanager
def clock_from(moment: int) -> Generator[None]:
    """The wall clock goes on from `moment` (nanoseconds since 1970): what a store keeps for a day or a week is still
    there when the store is opened years later, and what waits for a date still waits."""
    ahead = moment - time.time_ns()
    real = time.time_ns
    with patch.object(time, "time_ns", lambda: real() + ahead):
        yield


# -- asking, and comparing the answers ---------------------------------------------------------------------------------

PASSING = {
    "score", "relevance", "confidence", "took_ms", "highlights", "snippet", "next_cursor", "nextCursor", "next_attempt",
    "chunks", "content_types", "vectors_pending", "result.message", "error.message", "error.guidance",
}  # fmt: skip
"""Parts of an answer that may differ from one run or version to the next: how long it took, how alike texts are, how
they are cut into passages, and the words of messages. A name may stand behind that of the object around it."""


def lasting(answer: Any, around: str = "") -> Any:
    """What of an answer must come again."""
    if isinstance(answer, dict):
        parts = cast(Json, answer).items()
        kept = {name: value for name, value in parts if not PASSING & {name, f"{around}.{name}"}}
        return {name: lasting(value, name) for name, value in kept.items()}
    return [lasting(one) for one in cast(list[Any], answer)] if isinstance(answer, list) else answer


def differences(recorded: Any, actual: Any, at: str = "") -> Iterator[str]:
    """What is gone or changed. New fields of an object are welcome; a list keeps its length and order."""
    if isinstance(recorded, dict) and isinstance(actual, dict):
        for name, value in cast(Json, recorded).items():
            if name in actual:
                yield from differences(value, actual[name], f"{at}.{name}")
            else:
                yield f"{at}.{name} is gone; it was {value!r}"
    elif isinstance(recorded, list) and isinstance(actual, list):
        before, after = cast(list[Any], recorded), cast(list[Any], actual)
        if len(before) != len(after):
            yield f"{at} has {len(after)} items instead of {len(before)}"
        for number, (value, other) in enumerate(zip(before, after, strict=False)):
            yield from differences(value, other, f"{at}[{number}]")
    elif recorded != actual:
        yield f"{at} is {actual!r} instead of {recorded!r}"


ASKED_FOR = {"memory-server/memory/get_context": {"details": True}}
"""Parameters for what used to come unasked: the ids and times of messages that go straight into a model."""


async def exchange(hub: Served, keys: dict[str, str], asked: Json) -> Any:
    """The JSON answer to one recorded request."""
    body = asked["body"]
    if more := ASKED_FOR.get(body.get("method")):
        body = {**body, "params": {**body["params"], **more}}
    return (await hub.post(asked["path"], body, **bearer(keys[asked["key"]]))).json()


async def replay(settings: Settings, recorded: Json, part: str) -> list[str]:
    """Asks a hub on the store everything again. What is wrong with the answers."""
    wrong: list[str] = []
    with clock_from(recorded["made_at"]):
        async with served(settings) as hub:
            for asked in recorded[part]:
                answer = await exchange(hub, recorded["keys"], asked)
                wrong += [f"{asked['body']}: {problem}" for problem in problems(asked, answer)]
    return wrong


async def command(settings: Settings, *arguments: str) -> str:
    """What a real `kho` process prints."""
    variables = {f"KHO_SEARCH__EMBEDDER__{name.upper()}": str(value) for name, value in EMBEDDER.items()}
    finished = await kho(
        settings.home,
        *arguments,
        env={**variables, "KHO_DATABASE_URL": settings.database_url or "", "KHO_MIGRATE": "auto"},
    )
    assert finished.status == 0, finished
    return finished.out


async def exported(settings: Settings, folder: Path) -> dict[str, str]:
    """The documents as files."""
    await command(settings, "docs", "export", str(folder))
    return await asyncio.to_thread(_files, folder)


def _files(folder: Path) -> dict[str, str]:
    paths = [path for path in sorted(folder.rglob("[!.]*")) if path.is_file()]
    return {str(path.relative_to(folder)): path.read_text("utf-8") for path in paths}


def problems(asked: Json, answer: Any) -> list[str]:
    """How an answer falls short of what was recorded: all of it, what a search finds, or words that it holds."""
    if "answer" in asked:
        return [*differences(asked["answer"], answer)]
    missing = {*asked.get("finds", ())} - _texts(answer)
    missing |= {words for words in asked.get("shows", ()) if not any(words in text for text in _texts(answer))}
    return [f"{words!r} is missing" for words in missing] + ([f"refused: {answer}"] if "error" in answer else [])


def _texts(answer: Any) -> set[str]:
    """Every text in an answer: a hit is named by its id or title, wherever a contract puts it."""
    if isinstance(answer, str):
        return {answer}
    if isinstance(answer, dict):
        answer = list(cast(Json, answer).values())
    return set[str]().union(*map(_texts, cast(list[Any], answer))) if isinstance(answer, list) else set()
