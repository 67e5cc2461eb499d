"""Documents as files: what is written is read back exactly, and what people write is understood."""

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.documents.document_harness import Json
from tests.documents.folders import METADATA

from kho.documents.folder_sync.document_file import ENDINGS, NotADocument, as_files, read
from kho.documents.folder_sync.layout import NamedDocument, places
from kho.documents.store import DocumentVersion, StoredDocument

SIGNS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(SIGNS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(SIGNS, max_size=5), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    body=st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    metadata=st.dictionaries(st.text(SIGNS, max_size=8), JSON, max_size=4),
    readable=st.booleans(),
    mime_type=st.sampled_from(["text/markdown", "text/plain"]),
)
def test_a_file_says_exactly_what_was_written(body: str, metadata: Json, readable: bool, mime_type: str) -> None:
    document = StoredDocument(
        "a/b", "root", 0, 1, 1_700_000_000_000_001, 0, None, None, DocumentVersion(1, mime_type, metadata, readable)
    )
    ((ending, file),) = as_files(document, body, 3).items()
    found = read(ending, file)
    assert (found.body, found.metadata, found.id, found.order) == (body, metadata, "a/b", 3)
    assert (found.mime_type, found.plain["is_human_readable"]) == (mime_type, readable)


@pytest.mark.parametrize("metadata", METADATA.values(), ids=METADATA)
def test_what_kho_writes_is_yaml(metadata: Json) -> None:
    document = StoredDocument(
        "a", "root", 0, 1, 0, 0, None, None, DocumentVersion(1, "application/json", metadata, True)
    )
    facts = as_files(document, "{}", 0)[".json.yaml"]
    found = yaml.safe_load(facts)
    assert found["id"] == "a"
    known = ("id", "order", "created_at", "is_human_readable", "metadata")
    assert {key: value for key, value in found.items() if key not in known} | found.get("metadata", {}) == metadata


def test_names_fit_every_file_system() -> None:
    titles = [
        "CON",
        "con.x",
        "a/b\\c:d",
        "  .hidden. ",
        "名" * 100,
        "x" * 300,
        "X" * 300,
        "\u202e\x07",
        "",
        "a.md",
        "a",
    ]
    known = {f"id{n}": NamedDocument(title, "text/markdown") for n, title in enumerate(titles)}
    found = [one.path for one in places({"root": list(known)}, known, "root")]
    assert len({name.casefold() for name in found}) == len(titles)
    for name in found:
        assert 1 <= len(name.encode()) <= 110
        assert not set(name) & set('<>:"/\\|?*\x07\u202e')
        assert name[0] not in ". "
        assert name.split(".")[0].lower() != "con"


@pytest.mark.parametrize(
    ("text", "body", "metadata"),
    [
        ("---\r\ntitle: x\r\n---\r\nbody\r\n", "body\r\n", {"title": "x"}),
        ("---\n---\nbody", "body", {}),
        ("---\n# only a remark\n---\nbody", "body", {}),
        ("---\ntitle: 2024\ntags: [1, b]\n---\n", "", {"title": "2024", "tags": ["1", "b"]}),
        ("---\nnot closed", "---\nnot closed", {}),
        ("---\njust text\n---\nmore", "---\njust text\n---\nmore", {}),
        ("--- \na: 1\n---", "", {"a": 1}),
        ("---\na: .inf\nb: 99999999999999999999\n---\n", "", {"a": ".inf", "b": "99999999999999999999"}),
        ("---\nversion: 1.10\n---\n", "", {"version": "1.10"}),
        ("---\nversion: 1.10\nsince: [1.5, 1.50]\n---\n", "", {"version": "1.10", "since": [1.5, "1.50"]}),
        (
            "---\ncode: 007\nat: 12:30\nmask: 0x1F\nn: -7\nno: no\non: On\nyes: true\nnull: ~\n---\n",
            "",
            {"code": "007", "at": "12:30", "mask": "0x1F", "n": -7, "no": "no", "on": "On", "yes": True, "null": None},
        ),
        (
            "---\nday: 2024-05-06\nat: 2024-05-06 10:00:00\n---\n",
            "",
            {"day": "2024-05-06", "at": "2024-05-06 10:00:00"},
        ),
        ("---\na: 1e-7\nb: !!str 5\nc: \"1.5\"\nd: 'on'\n---\n", "", {"a": 1e-7, "b": "5", "c": "1.5", "d": "on"}),
        ("---\ntitle: 1.10\ntags: [1.10, 2]\n---\n", "", {"title": "1.10", "tags": ["1.10", "2"]}),
        ("---\ntitle: x\n...\nbody", "body", {"title": "x"}),
        ('+++\ntitle = "Hugo"\ntags = ["a", "b"]\n+++\nbody', "body", {"title": "Hugo", "tags": ["a", "b"]}),
        (
            "+++\r\nversion = 1.10\r\nn = 2\r\nday = 2024-05-06\r\nat = 2024-05-06T10:00:00Z\r\n[a]\r\nb = [1.5]\r\n+++\r\nx",
            "x",
            {"version": "1.10", "n": 2, "day": "2024-05-06", "at": "2024-05-06T10:00:00Z", "a": {"b": [1.5]}},
        ),
        ("+++\nnever closed", "+++\nnever closed", {}),
        ("+++\njust text\n+++\nmore", "+++\njust text\n+++\nmore", {}),
        ("+++\na == b\n[a link](x?y=z)\n+++\n", "+++\na == b\n[a link](x?y=z)\n+++\n", {}),
        ("\ufeff---\na: 1\n---\nx", "x", {"a": 1}),
        ("", "", {}),
    ],
)
def test_front_matter_that_people_write(text: str, body: str, metadata: Json) -> None:
    found = read(".md", text.encode())
    assert (found.body, found.metadata) == (body, metadata)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('+++\ntitle = "Hugo"\ntags = [a]\n+++\nx', "not TOML"),
        ("+++\n[site]\nsite.title = Hugo\n+++\nx", "not TOML"),
        (f"+++\na = {'[' * 5000}\n+++\nx", "not TOML"),
        ("---\n? [a]\n: b\n---\nx", "a name that is not a text"),
        ("---\na: !!binary aGk=\n---\nx", "neither text, number"),
        ("---\na: !mine {b: 1}\n---\nx", "neither text, number"),
        ("---\nis_human_readable: no\n---\nx", "true or false"),
        ("---\na: !!seq x\n---\nx", "neither text, number"),
        ("---\na: !!map x\n---\nx", "neither text, number"),
        ("---\n!!map x\n---\nx", "neither text, number"),
        ("---\na: !!map [x]\n---\nx", "neither text, number"),
        ('---\na: "\\UFFFFFFFF"\n---\nx', "not YAML"),
        (f"---\n%YAML 1.{'9' * 5000}\n---\nx", "not YAML"),
        (f"---\na: {'[' * 1000}{']' * 1000}\n---\nx", "nested too deeply"),
        (f"+++\n{'.'.join('a' * 600)} = 1\n+++\nx", "nested too deeply"),
        ('---\nid: "\\u0000"\n---\nx', "NUL"),
        ("---\norder: first\n---\nx", "'order' must be a number"),
        ("---\norder: .inf\n---\nx", "'order' must be a number"),
        ("+++\norder = nan\n+++\nx", "'order' must be a number"),
        ("---\norder: true\n---\nx", "'order' must be a number"),
    ],
)
def test_front_matter_that_means_nothing_is_refused(text: str, reason: str) -> None:
    with pytest.raises(NotADocument, match=reason):
        read(".md", text.encode())


@pytest.mark.parametrize(
    ("written", "order"), [("1.10", 1.1), ("1e3", 1000), ("+1", 1), ("007", 7), ('"2"', 2), ("-3", -3), ("~", None)]
)
def test_an_order_may_be_written_like_any_number(written: str, order: float | None) -> None:
    assert read(".md", f"---\norder: {written}\n---\nx".encode()).order == order


def test_front_matter_that_never_ends_is_refused() -> None:
    with pytest.raises(NotADocument, match="256 KiB"):
        read(".md", b"---\na: " + b"x" * 300_000 + b"\n---\nx")


def test_every_kind_has_an_ending() -> None:
    assert {*ENDINGS} == {"text/markdown", "text/plain", "application/json"}
