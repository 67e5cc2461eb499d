"""Pairs of words that stand side by side."""

import unicodedata

import pytest

from kho.search.text.side_by_side import pairs


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("bảo hiểm y tế", ["bao·hiem", "hiem·y", "y·te"]),
        ("Bảo hiểm, y tế.", ["bao·hiem", "y·te"]),
        ("(bảo hiểm) y", ["bao·hiem"]),
        ("bảo\n  hiểm", ["bao·hiem"]),
        ("nhà 12 tầng", []),
        ("nhà", []),
        ("", []),
        ("数据库 máy", []),
    ],
)
def test_pairs(text: str, found: list[str]) -> None:
    assert list(pairs(text)) == found
    assert list(pairs(unicodedata.normalize("NFD", text))) == found
