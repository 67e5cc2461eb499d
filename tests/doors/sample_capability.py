"""A small capability of many commands, whose contract has error numbers of its own and speaks Markdown.

Run as a program (`PROGRAM`), it is served over stdio (`stdio`) or is a command line of its own.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any, Literal

from pydantic import Field
from tests.doors.command_line import program_of

from kho.app import open_hub
from kho.doors.cli import build
from kho.doors.mcp.stdio import serve
from kho.kernel.call import Call
from kho.kernel.capability import Capability
from kho.kernel.command import Command
from kho.kernel.errors import KhoError
from kho.kernel.hints import Hint, Op
from kho.kernel.operation import Operation
from kho.kernel.params import Params, Result
from kho.kernel.toolset import ALL
from kho.settings import Settings

ROOT = str(Path(__file__).resolve().parents[2])
PROGRAM = (
    sys.executable,
    "-c",
    f"import runpy, sys; sys.path.insert(0, {ROOT!r}); runpy.run_module({__name__!r}, run_name='__main__')",
)


class ShelfError(KhoError):
    """The shelf cannot be used like this."""

    code = "SHELF_ERROR"
    rpc = -32002
    status = 400
    guidance = Hint("See what there is with ", Op("manage_shelves", action="list"), ".")


class UnknownShelf(ShelfError):
    """There is no shelf of that name."""

    code = "SHELF_NOT_FOUND"
    status = 404


class ShelfNotEmpty(ShelfError):
    """The shelf is not empty."""

    code = "SHELF_NOT_EMPTY"
    status = 409
    confirmable = True


class Manage(Params):
    action: Literal["create", "list", "delete", "rename"]
    shelf_name: str | None = None
    shelf_type: Literal["wood", "steel"] = Field("wood", description="What it is made of.")
    new_name: str | None = None
    labels: str | list[str] | None = Field(None, description="For finding it.")
    books: list[str] | None = None
    width: int = Field(1, ge=1, le=9)
    locked: bool = False
    confirm: bool = False


class Managed(Result):
    action: str
    shelves: dict[str, dict[str, Any]]


class Count(Params):
    words: str
    fail: str | None = None


class Counted(Result):
    words: list[str]


class Shelves:
    def __init__(self) -> None:
        self.shelves: dict[str, dict[str, Any]] = {"full": {"books": ["Kiều"]}}

    async def manage(self, params: Manage, call: Call) -> Managed:
        name = params.shelf_name or ""
        match params.action:
            case "create":
                given = params.model_dump(exclude={"action", "shelf_name", "confirm", "new_name"}, exclude_unset=True)
                self.shelves[name] = given
            case "delete":
                if self._known(name).get("books") and not params.confirm:
                    raise ShelfNotEmpty(f"1 book of '{name}' would be lost.", books=1)
                del self.shelves[name]
            case "rename":
                self.shelves[params.new_name or ""] = self._known(name)
                del self.shelves[name]
            case "list":
                pass
        return Managed(action=params.action, shelves=self.shelves)

    async def count(self, params: Count, call: Call) -> Counted:
        for step in (1, 2, 3):
            await call.progress(step, 3, f"step [{step}]")
        match params.fail:
            case "bug":
                raise RuntimeError("the secret ingredient is umami")
            case "shelf":
                raise UnknownShelf(name=params.words)
            case _:
                return Counted(words=params.words.split())

    def _known(self, name: str) -> dict[str, Any]:
        if name not in self.shelves:
            raise UnknownShelf(f"There is no shelf '{name}'.", name=name)
        return self.shelves[name]

    @property
    def capability(self) -> Capability:
        names = {"shelf_name": "name", "shelf_type": "type"}
        manage = Operation(
            "shelves.manage",
            "Manages shelves.",
            Manage,
            self.manage,
            "shelves",
            "destructive",
            result=Managed,
            tool="manage_shelves",
            rpc="manage_shelves",
            action="manage_shelves",
            protocol_errors=True,
            markdown=True,
            text=lambda result: f"**{result.action}**: {', '.join(result.shelves) or 'none'}",
            example={"action": "create", "shelf_name": "top shelf", "shelf_type": "steel", "labels": ["a", "b"]},
            cli=(
                Command(
                    "shelves create",
                    ("shelf_name",),
                    fixed={"action": "create"},
                    names=names,
                    shows=("shelf_type", "labels", "books", "width", "locked"),
                    summary="Make a shelf.",
                    group="Shelves: what books stand on.",
                ),
                Command(
                    "shelves list",
                    fixed={"action": "list"},
                    shows=(),
                    reads=True,
                    summary="List the shelves.",
                    example={},
                ),
                Command(
                    "shelves rename",
                    ("shelf_name", "new_name"),
                    fixed={"action": "rename"},
                    names={**names, "new_name": "new"},
                    shows=(),
                    example={"shelf_name": "old", "new_name": "new one"},
                ),
                Command(
                    "shelves delete",
                    ("shelf_name",),
                    fixed={"action": "delete"},
                    names=names,
                    shows=(),
                    confirms=True,
                    example={"shelf_name": "old", "confirm": True},
                ),
            ),
        )
        count = Operation(
            "shelves.count",
            "Counts words.",
            Count,
            self.count,
            "shelves",
            result=Counted,
            tool="count_words",
            rpc="count_words",
            protocol_errors=True,
            example={"words": "one two"},
            cli=(Command("count", ("words",), sentence=True),),
        )
        return Capability("shelves", "shelves-server", (manage, count), "Everything about shelves.")


if __name__ == "__main__":
    if sys.argv[1:] == ["stdio"]:
        asyncio.run(serve(lambda: open_hub(Settings(), (Shelves().capability,)), "0", {}, ALL, 200))
    else:
        build(program_of(Settings(), Shelves().capability))(prog_name="kho")
