"""Runs every question of every task, in every configuration, and computes the metrics."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kho.evaluation.bench import TOOL, Bench, Progress
from kho.evaluation.configurations import Configuration, configuration
from kho.evaluation.datasets import Task, Variant, tasks
from kho.evaluation.errors import BadConfiguration
from kho.evaluation.metrics import mean, ndcg, percentile, recall, reciprocal_rank
from kho.kernel.hub import Hub
from kho.lib.dataclass import dataclass

DEPTH = 10
MAX_WARM_UP_QUESTIONS = 5
"""Maximum number of questions before the measurement: the model may have to be loaded."""

Ask = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
"""Calls a tool by name with arguments, through some door, and returns its answer."""
OpenBench = Callable[[Configuration, Path], AbstractAsyncContextManager[tuple[Hub, Bench]]]


@dataclass(slots=True)
class _TaskResult:
    """Measurements of one task in one configuration."""

    ndcg: list[float] = field(default_factory=list[float])
    recall: list[float] = field(default_factory=list[float])
    reciprocal: list[float] = field(default_factory=list[float])
    seconds: list[float] = field(default_factory=list[float])
    cpu: float = 0.0
    empty: int = 0
    noted: int = 0
    """Answers with a note, such as that only keyword search answered."""
    note: str = ""
    each: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


@dataclass(frozen=True, slots=True)
class Evaluation:
    open_bench: OpenBench
    """Opens a hub in this configuration, whose stores are in that folder."""

    async def __call__(
        self,
        files: Sequence[Path],
        *,
        queries: Path | None,
        strip_marks: bool,
        together: bool,
        limit: int | None,
        configurations: Sequence[str],
        cache: Path | None,
        each: bool,
        asking: Callable[[Hub], AbstractAsyncContextManager[Ask]],
        progress: Progress,
    ) -> dict[str, Any]:
        todo = tasks(files, queries, Variant(strip_marks, together, limit))
        chosen = [configuration(name) for name in configurations]
        if len({one.name for one in chosen}) < len(chosen):
            raise BadConfiguration("Two configurations have the same name, so their figures cannot be told apart.")
        measured: dict[tuple[str, str], _TaskResult] = {}
        with TemporaryDirectory(prefix="kho-eval-", ignore_cleanup_errors=True) as scratch:
            for one in chosen:
                async with self.open_bench(one, cache or Path(scratch)) as (hub, bench), asking(hub) as ask:
                    for corpus in {task.corpus.name: task.corpus for task in todo}.values():
                        await bench.fill(corpus, progress)
                    for task in todo:
                        measured[task.name, one.name] = await _ask_all(task, one.name, ask, progress)
        rows = [_row(task, one.name, chosen[0].name, measured) for task in todo for one in chosen]
        if each:
            for row in rows:
                row["questions"] = measured[row["task"], row["configuration"]].each
        return {"rows": rows}


async def _ask_all(task: Task, configuration: str, ask: Ask, progress: Progress) -> _TaskResult:
    what = f"Asking {task.name} ({configuration})"
    for question in task.questions[:MAX_WARM_UP_QUESTIONS]:
        # Not the question that is measured: answers are cached.
        answer = await _answer(task, f"{question.text} {question.id}", ask)
        if not answer["notes"]:
            break
    result = _TaskResult()
    cpu = time.process_time()
    for number, question in enumerate(task.questions):
        if number % 10 == 0:
            progress(what, number, len(task.questions))
        began = time.perf_counter()
        answer = await _answer(task, question.text, ask)
        result.seconds.append(time.perf_counter() - began)
        found = [hit["key"] for hit in answer["hits"]]
        result.ndcg.append(ndcg(found, question.relevant, DEPTH))
        result.recall.append(recall(found, question.relevant, 5))
        result.reciprocal.append(reciprocal_rank(found, question.relevant))
        result.empty += not found
        result.each.append(
            {
                "id": question.id,
                "question": question.text,
                "relevant": sorted(question.relevant),
                "found": found,
                "ndcg@10": round(result.ndcg[-1], 4),
            }
        )
        if answer["notes"]:
            result.noted += 1
            result.note = " ".join(answer["notes"])
    result.cpu = time.process_time() - cpu
    progress(what, len(task.questions), len(task.questions))
    return result


async def _answer(task: Task, question: str, ask: Ask) -> Any:
    return await ask(TOOL, {"corpus": task.corpus.name, "question": question, "limit": DEPTH})


def _row(task: Task, name: str, first: str, measured: Mapping[tuple[str, str], _TaskResult]) -> dict[str, Any]:
    asked, count = measured[task.name, name], len(task.questions)
    row: dict[str, Any] = {
        "task": task.name,
        "configuration": name,
        "queries": count,
        "ndcg@10": round(mean(asked.ndcg), 4),
        "recall@5": round(mean(asked.recall), 4),
        "mrr": round(mean(asked.reciprocal), 4),
        "empty": asked.empty,
        "p50_ms": round(percentile(asked.seconds, 0.5) * 1000, 2),
        "p95_ms": round(percentile(asked.seconds, 0.95) * 1000, 2),
        "cpu_ms": round(asked.cpu / count * 1000, 2),
    }
    if asked.noted:
        row |= {"noted": asked.noted, "note": asked.note}
    if name != first:
        before = measured[task.name, first].ndcg
        row["against"] = {
            "configuration": first,
            "ndcg@10": round(mean(asked.ndcg) - mean(before), 4),
            "better": sum(now > then + 1e-9 for now, then in zip(asked.ndcg, before, strict=True)),
            "worse": sum(now < then - 1e-9 for now, then in zip(asked.ndcg, before, strict=True)),
        }
    return row
