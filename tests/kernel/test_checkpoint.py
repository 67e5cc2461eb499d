"""The checkpoint: what a caller may not have is neither shown nor told, and nothing is served without a scope."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.doors.doors import Boards
from tests.doors.web_capability import Shop

from kho.kernel.access import OPEN, OWN_CREDENTIALS, Access, Scope
from kho.kernel.call import Call, Principal
from kho.kernel.capability import Announcements, Capability, Changes, Prompt
from kho.kernel.checkpoint import Checkpoint
from kho.kernel.errors import Forbidden
from kho.kernel.operation import Operation
from kho.kernel.web import Page


@dataclass
class Ears:
    """Writes down what it is told."""

    heard: list[Any] = field(default_factory=list[Any])

    def tools_changed(self, changed: Sequence[Operation]) -> None:
        self.heard.append("tools")

    def resources_changed(self, uri: str | None) -> None:
        self.heard.append(uri)

    def announced(self, level: str, speaker: str, what: Any) -> None:
        self.heard.append((level, speaker, what))


def who(*scopes: str, tenant: str = "acme") -> Principal:
    return Principal("bot", tenant, frozenset(scopes), "key")


@pytest.mark.parametrize(
    ("access", "scopes", "allowed"),
    [
        ("a", {"a"}, True),
        ("a", {"b"}, False),
        ("a", {"*"}, True),
        ("admin", {"*"}, False),
        (frozenset({"a", "b"}), {"b"}, True),
        (frozenset({"a", "b"}), {"c"}, False),
        (frozenset({"a", "admin"}), {"*"}, True),
        (frozenset({"admin"}), {"*"}, False),
        (OPEN, set[str](), True),
        (OWN_CREDENTIALS, set[str](), True),
    ],
)
def test_a_scope_any_of_several_or_none_on_purpose(access: Access, scopes: set[str], allowed: bool) -> None:
    principal = who(*scopes)
    assert principal.allows(access) is allowed
    if allowed:
        Call(principal).need(access)
    else:
        with pytest.raises(Forbidden):
            Call(principal).need(access)


def test_who_lacks_all_of_several_is_told_which_would_do() -> None:
    with pytest.raises(Forbidden) as refused:
        Call(who("c")).need(frozenset({"b", "a"}))
    assert refused.value.message == "This needs the scope 'a or b', which the credential does not have."
    assert "--scope a'" in refused.value.guidance


def test_notices_and_announcements_reach_the_tenant_s_callers_with_the_scope() -> None:
    changes, announcements = Changes(scope="a"), Announcements(scope=frozenset({"b", "c"}))
    checkpoint = Checkpoint([Capability("x", "x", (), resource_changes=changes, announcements=announcements)])
    principals = {"a": who("a"), "c": who("c"), "all": who("*"), "none": who("d"), "other": who("*", tenant="globex")}
    ears = {name: Ears() for name in principals}
    ends = [checkpoint.listen(principal, ears[name]) for name, principal in principals.items()]
    changes.tell("acme")
    changes.tell("acme", "x://1")
    announcements.tell("acme", "info", "x", 1)
    said = ("info", "x", 1)
    expected = {"a": [None, "x://1"], "c": [said], "all": [None, "x://1", said], "none": [], "other": []}
    assert {name: one.heard for name, one in ears.items()} == expected
    for end in ends:
        end()
        end()
    changes.tell("acme")
    assert {name: one.heard for name, one in ears.items()} == expected


def test_that_a_tool_came_is_told_to_those_who_may_use_it() -> None:
    boards = Boards()
    checkpoint = Checkpoint([boards.capability])
    ears = {"boards": Ears(), "other": Ears()}
    for scope, one in ears.items():
        checkpoint.listen(who(scope), one)
    boards.plug("lamp")
    boards.unplug("lamp")
    assert (ears["boards"].heard, ears["other"].heard) == (["tools"] * 2, [])


def test_that_a_tool_came_is_told_to_its_own_tenant() -> None:
    boards = Boards(tenant="acme")
    checkpoint = Checkpoint([boards.capability])
    ears = {"acme": Ears(), "globex": Ears()}
    for tenant, one in ears.items():
        checkpoint.listen(who("*", tenant=tenant), one)
    boards.plug("lamp")
    assert (ears["acme"].heard, ears["globex"].heard) == (["tools"], [])


def test_pages_and_streams_are_let_in_by_scope() -> None:
    [capability] = Checkpoint([Shop().capability]).visible(who("shop:read"))
    assert [one.path for one in capability.web] == ["/shop/open/", "/shop/upload", "/shop/events", "/shop/ws/"]


@pytest.mark.parametrize("scope", ["", frozenset[str](), frozenset({"a", ""})])
def test_nothing_is_served_with_an_empty_scope(scope: Scope) -> None:
    nothing: Any = None
    for served in (
        Capability("x", "x", (), resource_changes=Changes(scope=scope)),
        Capability("x", "x", (), announcements=Announcements(scope=scope)),
        Capability("x", "x", (), prompts=(Prompt("p", "A prompt.", nothing, scope=scope),)),
        Capability("x", "x", (), web=(Page("/x", nothing, scope=scope),)),
    ):
        with pytest.raises(ValueError, match="without a scope"):
            Checkpoint([served])
