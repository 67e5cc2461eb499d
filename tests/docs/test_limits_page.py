"""docs/limits.md is made from the code: whoever changes a limit writes the page anew, and no limit can be left out."""

import pytest
from pydantic import BaseModel
from tests.docs.limits_page import BOUNDS, DEADLINES, PAGE, page

from kho.kernel.limits.settings import Limit, LimitSettings
from kho.settings import Settings


def test_the_page_is_what_the_code_says() -> None:
    assert PAGE.read_text("utf-8") == page(), "`make commands` writes it anew"


@pytest.mark.parametrize("name", LimitSettings.model_fields)
def test_each_limit_describes_itself(name: str) -> None:
    assert sum(isinstance(one, Limit) for one in LimitSettings.model_fields[name].metadata) == 1


def test_every_setting_that_is_a_time_is_on_the_page() -> None:
    named = {path for path, _, _ in (*DEADLINES, *BOUNDS)}
    assert (
        sorted(
            path
            for path in leaves(Settings, "")
            if path.endswith(("timeout", "patience", "wait")) and path not in named
        )
        == []
    )


def leaves(section: type[BaseModel], above: str) -> list[str]:
    found: list[str] = []
    for name, field in section.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            found += leaves(kind, f"{above}{name}.")
        else:
            found.append(above + name)
    return found
