"""The page on search names every setting of search."""

from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel

from kho.settings import Search

PAGE = Path(__file__).resolve().parents[2] / "docs" / "search.md"


def names(section: type[BaseModel], before: str = "") -> Iterator[str]:
    for name, field in section.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from names(field.annotation, f"{name.upper()}__")
        else:
            yield before + name.upper()


def test_every_setting_is_on_the_page() -> None:
    page = PAGE.read_text("utf-8")
    known = list(names(Search))
    assert len(known) > 15
    # A second one in the same row is written without its section: `__API_KEY`.
    rows = [row for row in page.splitlines() if row.startswith("| `")]

    def named(setting: str) -> bool:
        section, _, name = setting.rpartition("__")
        return any(f"`{setting}`" in row or (f"`{section}__" in row and f"`__{name}`" in row) for row in rows)

    assert [setting for setting in known if not named(setting)] == []
