"""Whatever documents say, an export and an import bring it back: to the letter, in its place, and without doing anything
a second time."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.documents.document_harness import Desk, Json
from tests.documents.folders import files, run, tree
from tests.engines import AdminPostgres, words_of

from kho.documents import capability as documents
from kho.kernel.ports import Database
from kho.storage.migrate import OWN, migrate
from kho.storage.sqlite.database import Sqlite


def _says_something(text: str) -> bool:
    return bool(text.strip())


SIGNS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
KNOWN = ["Lộ trình", "Đường đi", "路线图", "手册", "plan", "Plan", "a.md", "...", "con", "x/y", "  z ", "1.10", "no"]
NAMES = st.one_of(st.sampled_from(KNOWN), st.text(SIGNS, min_size=1, max_size=20)).filter(_says_something)
LINES = [
    "",
    "",
    "---",
    "+++",
    "...",
    "# Heading",
    "title: x",
    'id: "other"',
    "a: [",
    "\ufeff",
    "Xin chào",
    "你好",
    "\t",
]
BODIES = st.one_of(
    st.builds(
        str.join, st.sampled_from(["\n", "\r\n", "\r"]), st.lists(st.sampled_from(LINES), min_size=1, max_size=8)
    ),
    st.text(SIGNS, min_size=1),
).filter(_says_something)
IDS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,12}", fullmatch=True).filter(lambda id: id != "root")
VALUES = st.one_of(NAMES, st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), st.none())
DOCUMENTS = st.fixed_dictionaries(
    {
        "id": IDS,
        "above": st.integers(0, 5),
        "body": BODIES,
        "mime_type": st.sampled_from(["text/markdown", "text/plain"]),
        "title": NAMES,
        "tags": st.lists(NAMES, max_size=3),
        "more": st.dictionaries(NAMES, VALUES, max_size=2),
        "is_human_readable": st.booleans(),
    }
)


@dataclass
class FilePlace:
    runner: asyncio.Runner
    desk: Desk


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> Iterator[FilePlace]:
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres_schema_url")
    with asyncio.Runner() as runner:
        database: Database = Sqlite.open(None) if url is None else AdminPostgres.open(url)
        runner.run(migrate(database, [OWN, ("documents", documents.MIGRATIONS)]))
        desk = Desk(database, words_of(database))
        yield FilePlace(runner, desk)
        runner.run(desk.close())
        runner.run(database.aclose())


async def there_and_back(desk: Desk, made: list[Json], folder: Path) -> None:
    ids: list[str] = ["root"]
    for one in made:
        metadata: Json = {**one["more"], "title": one["title"], "tags": one["tags"]}
        above: int = one["above"]
        readable, kind, parent = one["is_human_readable"], one["mime_type"], ids[above % len(ids)]
        await desk.create(one["id"], parent, one["body"], metadata=metadata, mime_type=kind, is_human_readable=readable)
        ids.append(one["id"])
    before = await tree(desk)
    await run(desk, "export", folder)
    other = desk.neighbour()
    await run(other, "import", folder)
    assert await tree(other) == before
    for one in (desk, other):
        again = await run(one, "import", folder, prune=True)
        assert (again["changes"], again["counts"]["unchanged"]) == ([], len(made))
    written = files(folder)
    assert (await run(other, "export", folder))["written"] == 0
    assert files(folder) == written


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(made=st.lists(DOCUMENTS, min_size=1, max_size=5, unique_by=lambda one: one["id"]))
def test_nothing_is_lost_on_the_way(place: FilePlace, made: list[Json]) -> None:
    with TemporaryDirectory() as folder:
        place.runner.run(there_and_back(place.desk.neighbour(), made, Path(folder)))
