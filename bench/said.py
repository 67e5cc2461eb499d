"""Questions that name a speaker, a day or both, in three languages: weekdays, today and yesterday, dates in all forms.

    python -m bench.said [--database URL] [--words] [--list]

Three group chats of the last seven days in one store, asked through memory_search. Counted is the share of the first
results that were said by the speaker and on the day that is named, as many as there are such messages and at most
five; where the question also says what it is about, whether the one right message comes first. The questions were
written before anything was changed for them.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from bench.conversations import SETS, Caller
from bench.recall import filled

from kho.app import Core, open_hub
from kho.evaluation.metrics import mean
from kho.kernel.capability import Capability
from kho.models.settings import Embedding
from kho.search.text.questions import asks
from kho.settings import Search, Settings

FIRST = 5
VI = "hai ba tư năm sáu bảy".split()
VI_BARE = "hai ba tu nam sau bay".split()
HAN = "一二三四五六日"


@dataclass(frozen=True, slots=True)
class Set:
    said: list[dict[str, Any]]
    asked: list[dict[str, Any]]


def load(file: Path = SETS / "said.jsonl") -> Set:
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    return Set([row for row in rows if "text" in row], [row for row in rows if "query" in row])


def named(day: date) -> dict[str, str]:
    """How people name a day."""
    weekday = day.weekday()
    return {
        "iso": day.isoformat(),
        "date-en": f"{day.day} {day:%B}",
        "date-us": f"{day:%B} {day.day}",
        "weekday-en": f"{day:%A}",
        "slash": f"{day.day}/{day.month}",
        "slash-year": f"{day:%d/%m/%Y}",
        "date-vi": f"ngày {day.day} tháng {day.month}",
        "date-vi-bare": f"ngay {day.day} thang {day.month}",
        "weekday-vi": f"thứ {VI[weekday]}" if weekday < 6 else "chủ nhật",
        "weekday-vi-bare": f"thu {VI_BARE[weekday]}" if weekday < 6 else "chu nhat",
        "date-zh": f"{day.month}月{day.day}日",
        "date-han": f"{_han(day.month)}月{_han(day.day)}日",
        "weekday-zh": f"周{HAN[weekday]}",
        "xingqi": f"星期{HAN[weekday]}",
    }


def _han(number: int) -> str:
    tens, ones = divmod(number, 10)
    digits = "零一二三四五六七八九"
    return ("" if tens < 1 else "十" if tens == 1 else f"{digits[tens]}十") + (digits[ones] if ones else "")


async def measure(some: Set, *, database: str | None, words: bool) -> list[tuple[dict[str, Any], str, float]]:
    today = datetime.now(UTC).date()
    with tempfile.TemporaryDirectory() as home:
        settings = Settings(
            home=Path(home),
            database_url=database,
            search=Search(embedder=Embedding(provider="none" if words else "e5")),
        )
        cores: list[Core] = []

        def look(core: Core) -> list[Capability]:
            cores.append(core)
            return []

        async with open_hub(settings, more=look) as hub:
            caller = Caller(hub, "said")
            wanted: dict[str, dict[str, Any]] = {}
            for number, one in enumerate(sorted(some.said, key=lambda one: -one["back"])):
                at = datetime.combine(today - timedelta(days=one["back"]), datetime.min.time(), UTC)
                wanted[f"m{number}"] = one
                await caller.do(
                    "memory_add_message",
                    conversation_id=one["conversation"],
                    message_id=f"m{number}",
                    role="user",
                    content=one["text"],
                    speaker=one["speaker"],
                    at=(at + timedelta(seconds=number)).isoformat(),
                )
            if not words:
                await filled(cores[0])
            scored: list[tuple[dict[str, Any], str, float]] = []
            for asked in some.asked:
                text = asked["query"]
                for name, form in named(today - timedelta(days=asked.get("back", 0))).items():
                    text = text.replace(f"{{{name}}}", form)
                found = await caller.do("memory_search", query=text, limit=10)
                scored.append(
                    (asked, text, score(asked, [wanted[hit["message_id"]] for hit in found["results"]], some))
                )
            return scored


def score(asked: dict[str, Any], found: list[dict[str, Any]], some: Set) -> float:
    def fits(one: dict[str, Any]) -> bool:
        return (
            one["speaker"] == asked.get("speaker", one["speaker"])
            and one["back"] == asked.get("back", one["back"])
            and asked.get("has", "") in one["text"]
            and (not asked.get("asks") or asks(one["text"]))
        )

    right = min(FIRST, sum(map(fits, some.said)))
    assert right, asked
    return sum(map(fits, found[:right])) / right


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", metavar="URL")
    parser.add_argument("--words", action="store_true", help="without a model")
    parser.add_argument("--list", action="store_true", help="each question")
    options = parser.parse_args()
    scored = asyncio.run(measure(load(), database=options.database, words=options.words))
    if options.list:
        for _, text, value in scored:
            print(f"{value:.2f}  {text}")
    groups = {
        "nothing but who and when": [v for asked, _, v in scored if not {"has", "asks"} & asked.keys()],
        "about something": [v for asked, _, v in scored if "has" in asked],
        "what was asked": [v for asked, _, v in scored if "asks" in asked],
        "all": [v for _, _, v in scored],
    }
    for name, values in groups.items():
        print(f"{name:26}{len(values):4}{mean(values):8.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
