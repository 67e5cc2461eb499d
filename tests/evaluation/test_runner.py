"""The whole of `kho eval` but its table: a store of its own, every door, figures that are right."""

import json
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from kho.app import open_hub
from kho.doctor import change, evaluator, examine
from kho.evaluation.errors import BadConfiguration
from kho.evaluation.hub_client import Ask, Door, hub_client
from kho.kernel.call import Call
from kho.kernel.errors import Conflict, KhoError
from kho.kernel.hub import Hub
from kho.settings import Settings

TEXTS = {
    "cat": "Con mèo ngủ trên mái nhà suốt buổi chiều.",
    "pool": "The connection pool had five connections, so requests timed out.",
    "tea": "水壶里的水烧开了，可以泡茶。",
    "twin": "A lighthouse keeper counts ships.",
}
QUESTIONS = [
    ["q1", "con mèo ngủ ở đâu", ["cat"]],
    ["q2", "connection pool timed out", ["pool"]],
    ["q3", "水壶", ["tea"]],
    ["q4", "zzqx wvvk", ["twin"]],
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    file = tmp_path / "small.json"
    file.write_text(json.dumps({"corpus": TEXTS, "queries": QUESTIONS}), "utf-8")
    return file


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """By words alone, so that the figures can be worked out by hand."""
    return change(Settings(home=tmp_path / "users", database_url=None), {"search": {"embedder": {"provider": "none"}}})


@pytest.fixture
def hashed(settings: Settings) -> Settings:
    """With vectors, though they mean little."""
    return change(settings, {"search": {"embedder": {"provider": "hash"}}})


def silent(what: str, done: int, total: int) -> None:
    return


async def evaluate(
    settings: Settings,
    *files: Path,
    door: Door = "memory",
    configurations: Sequence[str] = ("default",),
    cache: Path | None = None,
    said: list[str] | None = None,
    **more: Any,
) -> list[dict[str, Any]]:
    def ask(hub: Hub) -> AbstractAsyncContextManager[Ask]:
        return hub_client(door, hub)

    def progress(what: str, done: int, total: int) -> None:
        if said is not None:
            said.append(f"{what} {done}/{total}")

    asked: dict[str, Any] = {
        "queries": None,
        "strip_marks": False,
        "together": False,
        "limit": None,
        "each": False,
        **more,
    }
    run = evaluator(settings)
    report = await run(files, configurations=configurations, cache=cache, asking=ask, progress=progress, **asked)
    return report["rows"]


@pytest.mark.parametrize("door", ["memory", "mcp", "http"])
async def test_the_figures_are_right_at_every_door(settings: Settings, data: Path, door: Door) -> None:
    said: list[str] = []
    [row] = await evaluate(settings, data, door=door, said=said)
    assert (row["task"], row["configuration"], row["queries"]) == ("small", "default", 4)
    # Three are found in the first place, and one asks for nothing that is there.
    assert (row["ndcg@10"], row["recall@5"], row["mrr"], row["empty"]) == (0.75, 0.75, 0.75, 1)
    assert 0 < row["p50_ms"] <= row["p95_ms"]
    assert row["cpu_ms"] > 0
    assert said[-1] == "Asking small (default) 4/4"


async def test_every_question_can_be_seen(settings: Settings, data: Path) -> None:
    [row] = await evaluate(settings, data, each=True)
    each = row["questions"]
    assert len(each) == row["queries"]
    assert sum(one["ndcg@10"] for one in each) / len(each) == pytest.approx(row["ndcg@10"])
    right = [one for one in each if one["ndcg@10"] == 1]
    assert all(one["found"][0] in one["relevant"] and one["question"] and one["id"] for one in right)
    assert [one["found"] for one in each if not one["ndcg@10"]] == [[]]
    assert "questions" not in (await evaluate(settings, data))[0]


async def test_configurations_are_compared_with_the_first(hashed: Settings, tmp_path: Path) -> None:
    """On questions that tell them apart: the vectors know parts of words, so that they find words written together,
    and take one text for another that only looks like it. To nonsense, which words do not answer, they have the text that
    counts as right at the third place, which is worth a half."""
    boots = {
        "boots": "Waterproof boots for walking in the mountains.",
        "walks": "The mountain walker waits for the weather.",
    }
    asked = [*QUESTIONS, ["q5", "lighthousekeeper", ["twin"]], ["q6", "mountainwalker waterproof", ["boots"]]]
    file, literal = tmp_path / "apart.json", tmp_path / "literal.toml"
    file.write_text(json.dumps({"corpus": {**TEXTS, **boots}, "queries": asked}), "utf-8")
    literal.write_text("[eval]\nlean = 1.0\n")
    rows = await evaluate(hashed, file, configurations=("words", "default", "meaning", "first-stage", str(literal)))
    assert [row["configuration"] for row in rows] == ["words", "default", "meaning", "first-stage", "literal"]
    words, default, meaning, *_ = rows
    assert (words["ndcg@10"], words["empty"]) == (round(4 / 6, 4), 2)
    assert "against" not in words
    assert all(row["against"]["configuration"] == "words" for row in rows[1:])
    assert default["against"] == {"configuration": "words", "ndcg@10": round(1.5 / 6, 4), "better": 2, "worse": 0}
    assert (meaning["against"]["better"], meaning["against"]["worse"]) == (2, 1)
    assert words["ndcg@10"] < meaning["ndcg@10"] < default["ndcg@10"]

    # The other way round, what was gained is lost.
    default, words = await evaluate(hashed, file, configurations=("default", "words"))
    assert words["against"] == {"configuration": "default", "ndcg@10": -round(1.5 / 6, 4), "better": 0, "worse": 2}


async def test_the_users_store_is_never_touched(settings: Settings, data: Path) -> None:
    await evaluate(settings, data)
    assert not settings.home.exists()


async def test_texts_that_are_kept_are_not_embedded_again(hashed: Settings, data: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first: list[str] = []
    again: list[str] = []
    before = await evaluate(hashed, data, cache=cache, said=first)
    after = await evaluate(hashed, data, cache=cache, said=again)
    assert any(line.startswith("Vectors for small-") and line.endswith(" 4/4") for line in first)
    assert not any("Vectors" in line and not line.endswith(" 0/0") for line in again)
    assert before[0]["ndcg@10"] == after[0]["ndcg@10"]
    assert len(list(cache.iterdir())) == 1
    await evaluate(hashed, data, cache=cache, configurations=("words",))
    assert len(list(cache.iterdir())) == 2


async def test_together_and_without_marks(settings: Settings, data: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text(
        json.dumps({"corpus": {"cat": "Mèo mẹ và mèo con."}, "queries": [["o1", "mèo mẹ", ["cat"]]]}), "utf-8"
    )
    rows = await evaluate(settings, data, other, together=True, strip_marks=True)
    assert [(row["task"], row["mrr"]) for row in rows] == [
        ("small in all, no marks", 0.75),
        ("other in all, no marks", 1.0),
    ]
    crossed = await evaluate(settings, data, queries=other)
    assert [(row["task"], row["queries"], row["mrr"]) for row in crossed] == [("other → small", 1, 1.0)]


async def test_on_postgres(
    settings: Settings, hashed: Settings, data: Path, tmp_path: Path, postgres_schema_url: str
) -> None:
    file = tmp_path / "pg.toml"
    file.write_text(f'database_url = "{postgres_schema_url}"\n')
    # As good as on SQLite, with vectors and without.
    there: dict[str, Any] = {}
    for chosen in (hashed, settings):
        [here] = await evaluate(chosen, data)
        [there] = await evaluate(chosen, data, configurations=(str(file),))
        for name in ("ndcg@10", "recall@5", "mrr", "empty"):
            assert there[name] == here[name]
    assert there["ndcg@10"] == 0.75

    own = change(settings, {"database_url": postgres_schema_url})
    with pytest.raises(KhoError, match="is the database that Kho uses"):
        await evaluate(own, data, configurations=(str(file),))


async def test_a_store_with_other_things_in_it_is_refused(settings: Settings, data: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    await evaluate(settings, data, cache=cache)
    [home] = cache.iterdir()
    theirs = settings.model_copy(update={"home": home})
    async with open_hub(theirs) as hub:
        submit = hub.registry.methods["experiences-server/submit_experience"]
        record = {"title": "t", "problem_description": "p", "solution": "s"}
        assert (await hub.registry.call(submit, record, Call(hub.local))).error is None
    with pytest.raises(Conflict, match="holds other data"):
        await evaluate(settings, data, cache=cache)


async def test_what_cannot_be_measured_is_said(settings: Settings, data: Path, tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match="same name"):
        await evaluate(settings, data, configurations=("words", "words"))
    file = tmp_path / "wrong.toml"
    for content, complaint in (
        ("[serach]\nx = 1", "no setting called serach"),
        ("[search]\ntimeout = -1", r"The setting search\.timeout"),
    ):
        file.write_text(content)
        with pytest.raises(KhoError, match=complaint):
            await evaluate(settings, data, configurations=(str(file),))


async def test_long_texts_are_cut_up_and_still_one_answer(settings: Settings, tmp_path: Path) -> None:
    long = "\n\n".join(f"Paragraph {n} is about the harbour and its {n} boats. " * 4 for n in range(60))
    file = tmp_path / "long.json"
    asked = [["q", "which paragraph says 41 boats", ["long"]]]
    file.write_text(json.dumps({"corpus": {"long": long, **TEXTS}, "queries": asked}), "utf-8")
    cache = tmp_path / "cache"
    [row] = await evaluate(settings, file, cache=cache)
    assert row["mrr"] == 1.0
    [home] = cache.iterdir()
    found = await examine(settings.model_copy(update={"home": home}), repair=False, progress=silent)
    [(space, count)] = found["spaces"].items()
    assert space.startswith("evaluation:long-")
    assert count > len(TEXTS) + 1
