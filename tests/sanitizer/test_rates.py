"""How much is found, on texts that are made anew in every run; a failure names the seed."""

import random
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from kho.sanitizer.scan import scan

# Test folders are no packages here, so the neighbour is found by its folder.
sys.path.insert(0, str(Path(__file__).parent))
import realistic

CHUNK = 1_500


@pytest.fixture
def seed() -> int:
    return random.SystemRandom().randrange(10**9)


def alarmed(text: str) -> bool:
    return bool(scan(text, personal=False))


def test_secrets_in_realistic_texts_are_found(seed: int) -> None:
    items = realistic.secrets(seed, 1_600)
    missed = Counter[str]()
    for item in items:
        start = item.text.index(item.value)
        end = start + len(item.value)
        # Of a password in a URL, the password is found and not the URL.
        touched = [one for one in scan(item.text, personal=False) if one.start < end and one.end > start]
        missed[item.kind] += not touched
    assert sum(missed.values()) <= 0.02 * len(items), (seed, missed.most_common(10))


def test_clean_texts_raise_no_alarm(seed: int) -> None:
    items = realistic.clean(seed, 1_500)
    alarms = [(item.kind, item.text) for item in items if alarmed(item.text)]
    assert len(alarms) <= 0.007 * len(items), (seed, len(alarms), alarms[0])


def chunks(paths: Iterator[Path]) -> Iterator[str]:
    for path in paths:
        text = path.read_text(encoding="utf-8", errors="replace")
        yield from (text[at : at + CHUNK] for at in range(0, len(text), CHUNK))


def sources() -> Iterator[Path]:
    root = Path(sysconfig.get_paths()["stdlib"])
    return (path for path in sorted(root.rglob("*.py")) if "site-packages" not in path.parts)


def manuals() -> Iterator[Path]:
    spec = find_spec("pydantic")
    assert spec is not None
    assert spec.origin is not None
    installed = Path(spec.origin).parents[1]
    return (path for path in sorted(installed.rglob("*")) if path.name == "METADATA" or path.suffix in (".md", ".rst"))


@pytest.mark.parametrize("kind", ["sources", "manuals"])
def test_real_texts_raise_few_alarms(kind: str, seed: int) -> None:
    found = list(chunks(sources() if kind == "sources" else manuals()))
    chosen = random.Random(seed).sample(found, min(1_500, len(found)))
    assert len(chosen) > 200
    alarms = [text for text in chosen if alarmed(text)]
    assert len(alarms) <= 0.007 * len(chosen), (seed, len(alarms), alarms[0])


def test_the_measure_can_fail() -> None:
    assert alarmed("password = 'Kestrel#4417'")
    assert not alarmed("nothing of the kind")
