"""What the environment says of settings, and what counts as saying nothing."""

import pytest

from kho.settings import Settings, load


@pytest.mark.parametrize("name", ["KHO_DEVICES__APPROVAL", "KHO_HTTP__PORT", "KHO_DATABASE_URL", "KHO_CONFIG"])
def test_an_empty_variable_is_one_that_is_not_set(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.delenv(name, raising=False)
    usual = load()
    monkeypatch.setenv(name, "")
    assert load() == usual


def test_one_that_is_set_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KHO_DEVICES__APPROVAL", "code")
    assert Settings().devices.approval == "code"
