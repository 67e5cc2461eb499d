"""The sanitiser: rates on the labelled set, exact behaviour, and that hostile text stays cheap."""

import random
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kho.lib import lazy_regex
from kho.sanitizer import heuristics, secret_rules, token_rules
from kho.sanitizer import scan as scanner
from kho.sanitizer.scan import Finding, mask, scan

# Test folders are no packages here, so the neighbour is found by its folder.
sys.path.insert(0, str(Path(__file__).parent))
import labelled

# Not public, but the only way to look at the shape of a pattern; hence untyped.
parser: Any = import_module("re._parser")


def covers(finding: Finding, item: labelled.Item) -> bool:
    start = item.text.index(item.value)
    return finding.start <= start and start + len(item.value) <= finding.end


def rate(split: labelled.Split, label: labelled.Label) -> float:
    """Share of items whose value is covered whole, by a finding of that tier."""
    items = [item for item in labelled.labelled(split) if item.label == label]
    found = [item for item in items if any(f.tier == label and covers(f, item) for f in scan(item.text))]
    return len(found) / len(items)


def false_alarms(split: labelled.Split) -> list[str]:
    return [item.text for item in labelled.labelled(split) if item.label == "harmless" and scan(item.text)]


# --- rates ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", ["tuned", "held_out"])
def test_set_is_large_and_varied(split: labelled.Split) -> None:
    items = labelled.labelled(split)
    for label, least, kinds in (("secret", 300, 25), ("personal", 60, 5), ("harmless", 250, 20)):
        chosen = [item for item in items if item.label == label]
        assert len(chosen) >= least
        assert len({item.kind for item in chosen}) >= kinds


def test_splits_share_no_text() -> None:
    tuned = {item.text for item in labelled.labelled("tuned")}
    assert not tuned & {item.text for item in labelled.labelled("held_out")}


@pytest.mark.parametrize("split", ["tuned", "held_out"])
def test_secrets_found(split: labelled.Split) -> None:
    assert rate(split, "secret") >= 0.95


@pytest.mark.parametrize("split", ["tuned", "held_out"])
def test_personal_data_found(split: labelled.Split) -> None:
    assert rate(split, "personal") >= 0.9


@pytest.mark.parametrize("split", ["tuned", "held_out"])
def test_false_alarms(split: labelled.Split) -> None:
    harmless = sum(item.label == "harmless" for item in labelled.labelled(split))
    alarms = false_alarms(split)
    assert len(alarms) / harmless <= 0.01, alarms


# --- exact behaviour ------------------------------------------------------------------------------------------------

GITHUB = labelled.github(random.Random(1))
AWS = labelled.aws_id(random.Random(2))


def test_positions_are_those_of_the_value() -> None:
    text = f"remote said no: {GITHUB} is revoked"
    assert scan(text) == [Finding("github-token", 16, 16 + len(GITHUB), "secret")]


def test_positions_hold_with_invisible_and_full_width_characters() -> None:
    hidden = GITHUB[:8] + "\u200b" + GITHUB[8:]
    wide = "".join(chr(ord(c) + 0xFEE0) for c in AWS)
    text = f"e\u0301 ﬁ {hidden} và {wide}."
    assert [text[f.start : f.end] for f in scan(text)] == [hidden, wide]


def test_decomposed_keyword() -> None:
    decomposed = "ma\u0323\u0302t kha\u0302\u0309u: Mimosa2019!"
    assert [decomposed[f.start : f.end] for f in scan(decomposed)] == ["Mimosa2019!"]


def test_only_the_value_is_reported() -> None:
    text = 'DB_PASSWORD="Mimosa2019!" # keep'
    assert mask(text, scan(text)) == 'DB_PASSWORD="<password>" # keep'


def test_overlaps_are_joined_under_the_more_specific_kind() -> None:
    text = f'token = "{GITHUB}"'
    assert [f.kind for f in scan(text)] == ["github-token"]


def test_secret_wins_over_personal_data() -> None:
    findings = scan("postgres://app:Kestrel77x@db.shop.vn/app")
    assert [(f.kind, f.tier) for f in findings] == [("password-in-url", "secret")]


def test_personal_and_secret_side_by_side() -> None:
    text = "ssh 10.1.2.3 with password: Kestrel#77"
    assert [(f.kind, f.tier) for f in scan(text)] == [("internal-ip", "personal"), ("password", "secret")]


def test_encoded_secret_is_reported_as_the_whole_blob() -> None:
    blob = labelled.wrapped_base64(random.Random(3))
    text = f"data: {blob}\n"
    assert [text[f.start : f.end] for f in scan(text)] == [blob]


def test_every_kind_has_a_placeholder_that_passes() -> None:
    rules = [*token_rules.TOKEN_RULES, *secret_rules.CONTEXT_RULES, *scanner.PERSONAL_RULES]
    for kind in {rule.kind for rule in rules} | {rule.kind for rule in secret_rules.NAME_RULES}:
        for text in (f"<{kind}>", f"password: <{kind}>", f'"token": "<{kind}>"', f"Authorization: Bearer <{kind}>"):
            assert scan(text) == []


@pytest.mark.parametrize("split", ["tuned", "held_out"])
def test_masked_text_passes_and_never_echoes(split: labelled.Split) -> None:
    for item in labelled.labelled(split):
        findings = scan(item.text)
        masked = mask(item.text, findings)
        assert scan(masked) == []
        assert mask(masked, scan(masked)) == masked
        for finding in findings:
            assert item.text[finding.start : finding.end] not in repr(finding)


def test_nothing_to_mask() -> None:
    assert mask("plain", []) == "plain"
    assert scan("") == []


# --- any text -------------------------------------------------------------------------------------------------------

FRAGMENTS = st.sampled_from(
    [
        *secret_rules.PASSWORD_NAMES,
        *secret_rules.TOKEN_WORDS,
        *(rule.anchors[0] for rule in secret_rules.CONTEXT_RULES),
        *(
            GITHUB,
            AWS,
            "Mimosa2019!",
            "key",
            "=",
            ": ",
            " ",
            "\n",
            '"',
            "://u:",
            "@h.vn",
            "%3D",
            "\u200b",
            "10.0.0.7",
            "<",
            ">",
        ),
    ]
)
TEXTS = st.one_of(st.text(), st.lists(st.one_of(FRAGMENTS, st.text(max_size=4)), max_size=12).map("".join))


@given(TEXTS)
def test_findings_are_ordered_and_inside(text: str) -> None:
    end = 0
    for finding in scan(text):
        assert end <= finding.start < finding.end <= len(text)
        end = finding.end


@given(TEXTS)
def test_masked_text_has_no_secrets(text: str) -> None:
    assert [f for f in scan(mask(text, scan(text))) if f.tier == "secret"] == []


# --- cost -----------------------------------------------------------------------------------------------------------


def patterns() -> Iterator[re.Pattern[str]]:
    for module in (scanner, heuristics, secret_rules, token_rules):
        yield from (
            value for value in vars(module).values() if isinstance(value, re.Pattern | type(lazy_regex.pattern("")))
        )
    for rule in (*token_rules.TOKEN_RULES, *secret_rules.CONTEXT_RULES, *scanner.PERSONAL_RULES):
        yield rule.pattern
    for rule in secret_rules.NAME_RULES:
        yield from rule.tails


def repeats(node: Any, around: int = 1) -> Iterator[tuple[int, int]]:
    """(how often a repeat may run, how often the repeats around it may) for each repeat in a parsed pattern."""
    if isinstance(node, parser.SubPattern):
        node = node.data
    if not isinstance(node, (list, tuple)):
        return
    parts: list[Any] = list(node)  # pyright: ignore[reportUnknownArgumentType]
    if len(parts) == 2 and str(parts[0]) in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        _, most, inner = parts[1]
        yield int(most), around
        yield from repeats(inner, around * int(most))
    else:
        for part in parts:
            yield from repeats(part, around)


def test_no_unbounded_and_no_deeply_nested_repeats() -> None:
    checked = 0
    for pattern in patterns():
        for most, around in repeats(parser.parse(pattern.pattern, pattern.flags)):
            assert most < int(parser.MAXREPEAT), pattern.pattern
            # A repeat inside a repeat is fine for a few labels or words, not for whole texts.
            assert around == 1 or most == 1 or around * most <= 400, pattern.pattern
            checked += 1
    assert checked > 200


def hostile_texts() -> list[str]:
    units = [
        *secret_rules.PASSWORD_NAMES,
        *secret_rules.PASSWORD_WORDS,
        *(
            "a",
            "1",
            "a.",
            "-eyJ",
            "pass=",
            "key ",
            'password="',
            "mysql ",
            "curl -u ",
            "a@b.c.",
            "\u200b",
            "a\u0301",
            "%41",
        ),
        *("AKIAABCDEFGHIJKLMNOP ", "://a:b", "10.10.", "4111 ", "cookie:a=", "\uff50\uff41\uff53\uff53="),
        "-----BEGIN " + "RSA PRIVATE KEY-----\n",
    ]
    anchors = {anchor for rule in (*token_rules.TOKEN_RULES, *secret_rules.CONTEXT_RULES) for anchor in rule.anchors}
    units += ["".join(sorted(anchors)), " ".join(sorted(anchors))]
    return [(unit * (100_000 // len(unit) + 1))[:100_000] for unit in units]


def test_hostile_texts_complete() -> None:
    for text in hostile_texts():
        for finding in scan(text):
            assert finding.end <= len(text)
