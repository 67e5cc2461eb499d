"""How well and how fast the sanitiser works: `python -m bench.sanitize`.

Prints recall per kind on both labelled splits, false alarms on harmless items and on the Python standard library, the
speed, and the worst case over hostile texts of 100 KB. If detect-secrets is installed it runs on the same items.
"""

import importlib
import itertools
import random
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.ratios import Ratio, against_loop
from tests.sanitizer.labelled import Item, Split, labelled

from kho.sanitizer.scan import PERSONAL_RULES, scan
from kho.sanitizer.secret_rules import CONTEXT_RULES, NAME_RULES
from kho.sanitizer.token_rules import TOKEN_RULES

CHUNK = 1500
HOSTILE_SIZE = 100_000
# A detector says which parts of a text it would not let pass; a peer that names no position returns the text itself.
Detector = Callable[[str], list[str]]


def ours(text: str) -> list[str]:
    return [text[finding.start : finding.end] for finding in scan(text)]


def our_secrets(text: str) -> list[str]:
    return [text[finding.start : finding.end] for finding in scan(text) if finding.tier == "secret"]


def load_peer() -> Detector | None:
    """detect-secrets with its default plug-ins, by file: its line API ignores the entropy limits."""
    try:
        peer: Any = importlib.import_module("detect_secrets")
        settings: Any = importlib.import_module("detect_secrets.settings")
    except ImportError:
        return None
    path = Path(tempfile.mkdtemp()) / "item.txt"

    def detect(text: str) -> list[str]:
        path.write_text(text, encoding="utf-8")
        with settings.default_settings():
            found = peer.SecretsCollection()
            found.scan_file(str(path))
        return [str(secret.secret_value) for _, secret in found]

    return detect


def is_found(item: Item, parts: list[str]) -> bool:
    """Some part touches the value. Line-based tools give a line of a key, so either may hold the other."""
    return any(part in item.value or item.value in part for part in parts if part)


def table(split: Split, detectors: dict[str, Detector]) -> None:
    items = labelled(split)
    totals = Counter((item.label, item.kind) for item in items)
    hits = {name: Counter[tuple[str, str]]() for name in detectors}
    for item in items:
        for name, detect in detectors.items():
            parts = detect(item.text)
            hits[name][item.label, item.kind] += bool(parts) if item.label == "harmless" else is_found(item, parts)
    print(f"\n== {split}: found (harmless: alarmed) of total")
    print(f"{'':34}{'total':>7}" + "".join(f"{name:>16}" for name in detectors))
    for (label, kind), total in totals.items():
        print(f"{label:10}{kind:24}{total:7}" + "".join(f"{hits[name][label, kind]:16}" for name in detectors))
    for label in ("secret", "personal", "harmless"):
        total = sum(n for (of, _), n in totals.items() if of == label)
        counts = [sum(n for (of, _), n in hits[name].items() if of == label) for name in detectors]
        print(f"{label:10}{'ALL':24}{total:7}" + "".join(f"{n:8} {n / total:6.1%} " for n in counts))
    for name in detectors:
        true = sum(n for (of, _), n in hits[name].items() if of != "harmless")
        false = sum(n for (of, _), n in hits[name].items() if of == "harmless")
        print(f"precision {name}: {true / max(1, true + false):.3f}")


def library_chunks() -> Iterator[str]:
    root = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(root.rglob("*.py")):
        if "site-packages" not in path.parts:
            text = path.read_text(encoding="utf-8", errors="replace")
            yield from (text[at : at + CHUNK] for at in range(0, len(text), CHUNK))


def real_text(detectors: dict[str, Detector], sample: int = 2000) -> None:
    chunks = list(library_chunks())
    print(f"\n== Python standard library, {len(chunks)} chunks of {CHUNK} characters, secrets only")
    for name, detect in detectors.items():
        # The peer takes minutes for all of it.
        chosen = chunks if detect is our_secrets else random.Random(0).sample(chunks, sample)
        begin = time.process_time()
        alarms = sum(bool(detect(chunk)) for chunk in chosen)
        speed = len(chosen) / (time.process_time() - begin)
        print(f"{name:16} alarms {alarms}/{len(chosen)} ({alarms / len(chosen):.3%}), {speed:.0f} chunks/s")


def hostile_texts() -> dict[str, str]:
    anchors = {a for rule in (*TOKEN_RULES, *CONTEXT_RULES, *PERSONAL_RULES) for a in rule.anchors}
    names = {name for rule in NAME_RULES for name in rule.names}
    units = {unit: unit for unit in anchors | names}
    units |= {f"{name}=": f"{name}=" for name in names}
    units |= {f'{name}: "': f'{name}: "' for name in names}
    units |= {f"{name} aB3 ": f"{name} aB3dE5fG7hJ9kL2mN4pQ6 " for name in names}
    units |= {"all glued": "".join(sorted(anchors | names)), "all spaced": " ".join(sorted(anchors | names))}
    units |= {
        repr(unit): unit
        for unit in ("a", "1", "aB3", "a.", "-eyJ", "a\u200b", "a\u0301", "\uff50\uff41\uff53\uff53=", "%41")
    }
    units |= {
        "percent": "%20password%3Dabc12345%20 ",
        "base64": "cGFzc3dvcmQ9QWJjMTIzNDUh ",
        "akia": "AKIAABCDEFGHIJKLMNOP ",
    }
    return {name: (unit * (HOSTILE_SIZE // len(unit) + 1))[:HOSTILE_SIZE] for name, unit in units.items()}


def hostile() -> None:
    times: list[tuple[float, str]] = []
    for name, text in hostile_texts().items():
        best = float("inf")
        for _ in range(3):
            begin = time.process_time()
            scan(text)
            best = min(best, time.process_time() - begin)
        times.append((best * 1000, name))
    times.sort(reverse=True)
    print(f"\n== hostile texts of {HOSTILE_SIZE} characters, CPU time, best of 3, {len(times)} texts; the worst:")
    for spent, name in times[:5]:
        print(f"{spent:8.1f} ms  {name[:60]!r}")
    print(f"{times[len(times) // 2][0]:8.1f} ms  median")


def speed_on_items() -> None:
    texts = [item.text for item in labelled("held_out")]
    begin = time.process_time()
    for text in texts:
        scan(text)
    print(f"\nheld_out items: {len(texts) / (time.process_time() - begin):.0f} docs/s")


def short() -> dict[str, Ratio]:
    chunks = list(itertools.islice(library_chunks(), 400))
    texts = hostile_texts()
    hostile = [texts[name] for name in ("all glued", "all spaced", "percent", "base64", "akia")]

    def cpu(some: list[str]) -> float:
        begin = time.process_time()
        for text in some:
            scan(text)
        return (time.process_time() - begin) / len(some)

    cpu(chunks[:20])  # the rules are made when they are first needed
    pieces = {"a piece of 1.5 KB": chunks, "a hostile text of 100 KB": hostile}
    return against_loop({name: min(cpu(some) for _ in range(3)) for name, some in pieces.items()})


def main() -> None:
    peer = load_peer()
    peers: dict[str, Detector] = {"detect-secrets": peer} if peer else {}
    for split in ("tuned", "held_out"):
        table(split, {"kho": ours, **peers})
    real_text({"kho": our_secrets, **peers})
    speed_on_items()
    hostile()


if __name__ == "__main__":
    main()
