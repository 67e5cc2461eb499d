"""Which speakers a text means."""

import pytest

from kho.search.query.speakers import SpeakerNames

NAMES = SpeakerNames.of(
    [
        (("user:x", f"speaker:{name}"), seq)
        for seq, name in enumerate(
            ("lan", "nguyễn văn hùng", "wang wei", "wang fang", "小李", "mỹ", "will hay", "lan@example.com", "user"), 1
        )
    ]
)


@pytest.mark.parametrize(
    ("text", "named", "others"),
    [
        ("what did Lan say", {"lan"}, ["what", "did", "say"]),
        ("hung noi gi", {"nguyễn văn hùng"}, ["noi", "gi"]),
        ("Hùng nói gì", {"nguyễn văn hùng"}, ["nói", "gì"]),
        ("hưng nói gì", set[str](), ["hưng", "nói", "gì"]),  # with other marks it is another name
        ("NGUYEN VAN HUNG", {"nguyễn văn hùng"}, []),
        ("Wang Wei's plan", {"wang wei"}, ["s", "plan"]),  # the longest name first
        ("Wang", {"wang wei", "wang fang"}, []),
        ("小李说了什么", {"小李"}, ["说", "了", "什", "么"]),
        ("my kettle will hay", {"will hay"}, ["my", "kettle"]),
        ("will it be my turn", set[str](), ["will", "it", "be", "my", "turn"]),  # function words are no part of a name
        ("mail from lan@example.com", {"lan@example.com"}, ["mail", "from"]),
        ("the island", set[str](), ["the", "island"]),
        ("", set[str](), []),
    ],
)
def test_names_in_a_text(text: str, named: set[str], others: list[str]) -> None:
    assert NAMES.named_in(text) == (named, others)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("LAN", {"lan"}),
        ("my", {"mỹ"}),
        ("Hung", {"nguyễn văn hùng"}),
        ("wang", {"wang wei", "wang fang"}),
        ("văn", set[str]()),  # in the middle of a name
        ("Bob", set[str]()),
    ],
)
def test_a_name_on_its_own(name: str, meant: set[str]) -> None:
    assert NAMES.called(name) == meant
