"""A slice is in `search`, `fetch` and `recent` by its declaration alone, and its ids are known to all tools."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel
from tests.recall.conftest import Desk, settings_of

from kho import slices
from kho.app import open_hub
from kho.kernel.call import Call
from kho.kernel.capability import Capability
from kho.kernel.contract import Contract
from kho.kernel.params import Params
from kho.kernel.ports import SearchFilter, Tx
from kho.kernel.searchable import FoundPassage, Item, Searchable
from kho.kernel.vocabulary import Kind
from kho.search.core import Core
from kho.search.indexing.index import Document, Field, Passage, prepare

RECIPES = Contract("recipes", read_scope="recipes:read", write_scope="recipes:write")
KIND = Kind("recipe", "recipe", "read_recipe")
SPACE = "recipes"


class Cook(Params):
    name: str
    text: str


class Cooked(BaseModel):
    name: str


class Recipes:
    """Keeps recipes in memory, and indexes them."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.kept: dict[str, str] = {}

    @RECIPES.write("cook", cli=())
    async def cook(self, params: Cook, call: Call) -> Cooked:
        """Keep a recipe."""
        self.kept[params.name] = params.text
        document = Document(SPACE, call.tenant, params.name, [Passage((Field(params.text),))], created_at=7)
        entry = prepare(document)
        await self.core.db.write(lambda tx: self.core.index.put(tx, [entry]))
        return Cooked(name=params.name)

    def item(self, name: str) -> Item | None:
        return Item(name, name.title(), 7, self.kept[name]) if name in self.kept else None

    def described(self, tx: Tx, tenant: str, found: Sequence[FoundPassage]) -> list[Item | None]:
        return [self.item(one.key) for one in found]

    async def fetch(self, call: Call, id: str) -> Item | None:
        return self.item(id)

    def recent(self, tx: Tx, where: SearchFilter, limit: int) -> list[Item]:
        return [item for name in self.kept if (item := self.item(name)) is not None][:limit]


def capability(core: Core) -> Capability:
    recipes = Recipes(core)
    searchable = Searchable(
        KIND, SPACE, RECIPES.read_scope, described=recipes.described, fetch=recipes.fetch, recent=recipes.recent
    )
    return Capability("recipes", "recipes-server", RECIPES.bind(recipes), searchable=(searchable,))


async def test_a_new_slice_is_searched_by_its_declaration_alone(tmp_path: Path) -> None:
    async with open_hub(settings_of(tmp_path / "home", None), more=lambda core: [capability(core)]) as hub:
        desk = Desk(hub)
        await desk.do("cook", name="pho", text="Simmer the bones with star anise for six hours.")
        await desk.do("remember", text="Lan likes star anise.")
        assert {one["id"] for one in await desk.found("star anise")} == {"recipe:pho"} | {
            one["id"] for one in await desk.found("star anise", kinds=["fact"])
        }
        assert [one["id"] for one in await desk.found("star anise", kinds=["recipe"])] == ["recipe:pho"]
        item = await desk.do("fetch", id="recipe:pho")
        assert (item["title"], item["metadata"]["kind"]) == ("Pho", "recipe")
        assert "recipe:pho" in {one["id"] for one in (await desk.do("recent"))["results"]}
        only = desk.as_("acme", "recipes:read")  # its scope alone opens search, and nothing else
        assert [one["id"] for one in await only.found("star anise")] == ["recipe:pho"]
        assert "recipe:pho" not in str(await desk.as_("acme", "facts:read").found("star anise"))
        assert (await desk.as_("acme", "facts:read").refused("fetch", id="recipe:pho")).code == "NOT_FOUND"
        error = await desk.refused("get_document", document_id="recipe:pho")
        assert "is an id of another kind (recipe), which 'fetch' or 'read_recipe' reads" in error.message


async def test_what_slices_say_of_their_kinds_is_what_they_declare(desk: Desk) -> None:
    """Commands, which open one slice only, know the kinds of all."""
    declared = [one.kind for capability in desk.hub.registry.capabilities for one in capability.searchable]
    assert slices.kinds() == declared
    assert len({kind.prefix for kind in declared}) == len(declared) == 5
    for kind in declared:
        assert desk.hub.registry.tool(kind.tool) is not None
