"""Records are found by what they mean, with the model that comes with Kho."""

from pathlib import Path
from typing import Any

import pytest

from kho.app import open_hub
from kho.kernel.call import Call, Principal
from kho.kernel.hub import Hub
from kho.models.settings import Embedding
from kho.settings import Search, Settings

RECORDS: list[tuple[str, str, str]] = [
    (
        "The washing machine floods the floor",
        "Water runs out below the door after a few minutes of washing.",
        "Clean the rubber ring of the door, and replace it if it is torn.",
    ),
    (
        "Sourdough does not rise",
        "The loaf stays flat although it stood in the kitchen all night.",
        "Feed the starter twice a day for three days, and keep it warmer.",
    ),
    (
        "The laptop gets hot in a video call",
        "The fan is loud and the keyboard is too hot to touch.",
        "Switch the blurred background off and clean the fan.",
    ),
]


async def ask(hub: Hub, method: str, arguments: dict[str, Any]) -> dict[str, Any]:
    call = Call(Principal("somebody", "local", frozenset({"*"})))
    envelope = (await hub.registry.call(hub.registry.methods[f"experiences-server/{method}"], arguments, call)).value
    assert envelope["success"], envelope
    return envelope["data"]


@pytest.mark.requirement("003.query.by-meaning")
async def test_a_record_is_found_by_its_meaning_in_any_of_the_three_languages(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, search=Search(patience=60, timeout=60, embedder=Embedding(provider="e5")))
    async with open_hub(settings) as hub:
        for title, problem, solution in RECORDS:
            fields = {"title": title, "problem_description": problem, "solution": solution}
            await ask(hub, "submit_experience", fields)
        assert hub.backlog is not None
        settled = await hub.backlog.settle(lambda done, total: None)
        assert settled.left == 0
        for question, title in [
            ("máy giặt bị rò nước ra sàn nhà thì phải làm thế nào", RECORDS[0][0]),
            ("为什么我的面包发不起来", RECORDS[1][0]),
            ("my notebook overheats while I talk to colleagues", RECORDS[2][0]),
        ]:
            found = await ask(hub, "query_experiences", {"keywords": question})
            assert found["experiences"][0]["title"] == title, question
        nothing = await ask(hub, "query_experiences", {"keywords": "qzxv wkjh plmf"})
        assert nothing["experiences"] == []
