"""Questions about long conversations: the dialogues of bench/sets in one store, asked through memory_search.

    python -m bench.conversations [--held-out] [--sets FOLDER] [--json]

Every dialogue is stored twice, each time in a tenant of its own: as bare turns (role and text) and with the speaker and
the time of each turn. nDCG@10 by kind of question (one turn answers it, several do, it asks for a time, or for a
person) and by language. The dialogues and their questions were written by people who did not know how they are ranked;
constants were fitted on every second question, and `--held-out` counts the others.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.recall import filled

from kho.app import Core, open_hub
from kho.evaluation.metrics import mean, ndcg
from kho.kernel.call import Call, Principal
from kho.kernel.capability import Capability
from kho.kernel.hub import Hub
from kho.memory.settings import MemorySettings
from kho.models.settings import Embedding
from kho.settings import Search, Settings

SETS = Path(__file__).parent / "sets"
FORMS: Mapping[str, Sequence[str]] = {"bare": ("role",), "attributed": ("role", "speaker", "at")}
"""What is stored of a turn beside its text."""
DEPTH = 10


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    kind: str
    language: str
    conversation: str
    turns: frozenset[str]
    named: bool
    fitted: bool


@dataclass(frozen=True, slots=True)
class Dialogues:
    turns: list[tuple[str, dict[str, Any]]]
    """Conversation and turn, in the order of time."""
    questions: list[Question]


def load(folder: Path = SETS) -> Dialogues:
    turns: list[tuple[str, dict[str, Any]]] = []
    questions: list[Question] = []
    for file in sorted(folder.glob("dialogues-*.jsonl")):
        for line in file.read_text("utf-8").splitlines():
            one = json.loads(line)
            name = one["conversation"]
            turns += ((name, turn) for turn in one["turns"])
            for number, asked in enumerate(one["questions"]):
                wanted = frozenset(f"{name}/{turn}" for turn in asked["turns"])
                language = file.stem.removeprefix("dialogues-")
                questions.append(
                    Question(asked["question"], asked["kind"], language, name, wanted, asked["named"], number % 2 == 0)
                )
    return Dialogues(sorted(turns, key=lambda one: one[1]["at"]), questions)


@dataclass(frozen=True, slots=True)
class Caller:
    hub: Hub
    tenant: str

    async def do(self, tool: str, **arguments: Any) -> Any:
        operation = self.hub.registry.tool(tool)
        assert operation is not None, tool
        call = Call(Principal("bench", self.tenant, frozenset({"*"})))
        outcome = await self.hub.registry.call(operation, arguments, call)
        assert outcome.error is None, (tool, outcome.error)
        return outcome.value

    async def tell(self, dialogues: Dialogues, fields: Sequence[str]) -> None:
        for conversation, turn in dialogues.turns:
            given = {name: turn[name] for name in fields}
            await self.do(
                "memory_add_message",
                conversation_id=conversation,
                message_id=f"{conversation}/{turn['n']}",
                content=turn["text"],
                **given,
            )

    async def ask(self, question: Question) -> float:
        found = await self.do("memory_search", query=question.text, limit=DEPTH)
        return ndcg([hit["message_id"] for hit in found["results"]], question.turns, DEPTH)


async def measure(dialogues: Dialogues, *, held_out: bool = False) -> dict[str, list[tuple[Question, float]]]:
    with tempfile.TemporaryDirectory() as home:
        settings = Settings(
            home=Path(home),
            database_url=None,
            search=Search(embedder=Embedding(provider="e5")),
            memory=MemorySettings(summarize_threshold=10_000),
        )
        cores: list[Core] = []

        def look(core: Core) -> Sequence[Capability]:
            cores.append(core)
            return ()

        async with open_hub(settings, more=look) as hub:
            callers = {form: Caller(hub, form) for form in FORMS}
            for form, caller in callers.items():
                await caller.tell(dialogues, FORMS[form])
            await filled(cores[0])
            asked = [one for one in dialogues.questions if not (held_out and one.fitted)]
            return {form: [(one, await caller.ask(one)) for one in asked] for form, caller in callers.items()}


def show(figures: Mapping[str, list[tuple[Question, float]]]) -> None:
    print(f"{'turns':12}{'questions':14}{'asked':>6}{'nDCG@10':>9}{'unfitted half':>15}")
    for form, scored in figures.items():
        rows = {"all": list[tuple[Question, float]]()}
        for question, value in scored:
            named = "named" if question.named else "not named"
            for group in (question.language, question.kind, named):
                rows.setdefault(group, []).append((question, value))
        rows["all"] = scored
        for group, some in rows.items():
            unfitted = mean([value for question, value in some if not question.fitted])
            print(f"{form:12}{group:14}{len(some):6}{mean([value for _, value in some]):9.3f}{unfitted:15.3f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--sets", type=Path, default=SETS, metavar="FOLDER")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = asyncio.run(measure(load(options.sets), held_out=options.held_out))
    if options.json:
        print(json.dumps({form: mean([value for _, value in scored]) for form, scored in figures.items()}))
    else:
        show(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
