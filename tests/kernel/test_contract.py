"""Operations are declared on the methods that carry them out."""

from dataclasses import dataclass

from kho.kernel.call import Call, Principal
from kho.kernel.command import Command
from kho.kernel.contract import Contract
from kho.kernel.params import Params, Result

TEA = Contract("tea", read_scope="tea:read", write_scope="tea:write", rpc=lambda wire: wire.replace("_", "/", 1))
OTHER = Contract("other", read_scope="o", write_scope="o", named_by="wire")


class Brew(Params):
    leaf: str = "green"


class Cup(Result):
    tea: str


@dataclass(slots=True, kw_only=True)
class Kettle:
    water: str

    @TEA.write("tea_brew", cli=Command("tea brew", ("leaf",)), example={"leaf": "oolong"})
    async def brew(self, params: Brew, call: Call) -> Cup:
        """Brew a cup
        of tea.

        The longer it
        draws, the stronger it gets.
        """
        return Cup(tea=f"{params.leaf} with {self.water}")

    @TEA.read("tea_smell", tool=False, scope="tea:smell")
    async def smell_(self, params: Brew, call: Call) -> Cup:
        """Smell it."""
        return Cup(tea="air")

    @TEA.destroy("tea_spill")
    @OTHER.destroy("spill")
    async def spill(self, params: Brew, call: Call) -> Cup:
        """Pour it away."""
        return Cup(tea="nothing")


async def test_an_operation_is_what_its_method_says() -> None:
    brew, smell, spill = TEA.bind(Kettle(water="rain"))
    assert (brew.name, brew.tool, brew.rpc, brew.action) == ("tea.brew", "tea_brew", "tea/brew", "tea_brew")
    assert (brew.summary, brew.description) == (
        "Brew a cup of tea.",
        "The longer it draws, the stronger it gets.",
    )
    assert (brew.params, brew.result, brew.effect, brew.scope) == (Brew, Cup, "write", "tea:write")
    assert [command.words for command in brew.cli] == ["tea brew"]
    assert (smell.name, smell.tool, smell.scope, smell.effect) == ("tea.smell", None, "tea:smell", "read")
    assert (spill.effect, spill.scope) == ("destructive", "tea:write")
    call = Call(Principal("me", "t", frozenset({"*"})))
    assert await brew.run(Brew(leaf="black"), call) == Cup(tea="black with rain")


def test_the_class_alone_tells_the_same_for_help_texts() -> None:
    alike = ("name", "summary", "params", "result", "scope", "effect", "tool", "rpc", "action", "cli", "example")
    for bound, described in zip(TEA.bind(Kettle(water="rain")), TEA.bind(Kettle), strict=True):
        assert all(getattr(bound, name) == getattr(described, name) for name in alike)


def test_a_method_may_serve_two_contracts() -> None:
    [spill] = OTHER.bind(Kettle)
    assert (spill.name, spill.scope) == ("other.spill", "o")
