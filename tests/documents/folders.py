"""Folders of documents, as tests of exports and imports use them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.documents.document_harness import Desk, Json

from kho.kernel.call import Call
from kho.kernel.errors import KhoError
from kho.kernel.registry import Outcome

TIME = "2024-02-29T01:02:03.000004Z"
BODIES = {
    "no newline": "plain",
    "newlines": "\n\nfirst\n\n\n",
    "crlf": "# a\r\nb\r\n\r\n",
    "cr": "a\rb\u2028c\x85d",
    "front matter": '---\nid: "other"\ntitle: x\n---\nbody',
    "a rule": "---\ntext\n---",
    "bom": "\ufeffbody",
    "tabs": "\t x \x0b\x0c y",
    "unicode": "Lộ trình 路线 🛰️ ̀",
}
METADATA: dict[str, Json] = {
    "shapes": {
        "deep": [1, {"a": None, "b": [True, 1.5, -7, 2.5e22]}],
        "empty": {},
        "none": [],
        "text": "a: b # c\n---",
    },
    "names": {"id": 5, "order": "x", "metadata": {"a": 1}, "created_at": "", "is_human_readable": "no"},
    "odd names": {"on": 1, "Yes": 2, "a b": 3, "ключ": 4, "": 5, "-": 6, "title": "Tên", "tags": ["một", "a,b"]},
    "signs": {"a": "\x7f\x85\u2028\ufeff\x01\t\\ \" ' 🛰️"},
}


async def run(desk: Desk, name: str, directory: Path, **more: Any) -> Json:
    outcome = await ask(desk, name, directory, desk.call(), **more)
    assert outcome.error is None, outcome.error.as_dict()
    return outcome.value


async def ask(desk: Desk, name: str, directory: Path, call: Call, **more: Any) -> Outcome:
    operation = next(one for one in desk.capability.operations if one.name == f"documents.{name}")
    return await desk.registry.call(operation, {"directory": str(directory), **more}, call)


async def refused(desk: Desk, name: str, directory: Path, **more: Any) -> KhoError:
    outcome = await ask(desk, name, directory, desk.call(), **more)
    assert outcome.error is not None
    assert outcome.error.status < 500
    return outcome.error


async def tree(desk: Desk, parent: str = "root") -> list[Json]:
    """All that an export promises to keep."""
    found: list[Json] = []
    for one in await desk.pages("list_documents", "documents", parent_id=parent, recursive=True):
        whole = await desk.get(one["document_id"])
        kept = ("document_id", "parent_id", "ordering", "content", "metadata", "is_human_readable", "created_at")
        found.append({key: whole[key] for key in kept})
    return found


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }


def write(folder: Path, content: Mapping[str, str]) -> None:
    for name, text in content.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())


async def grown(desk: Desk) -> None:
    """A tree with everything that is hard to keep."""
    await desk.create("z", body="last in the alphabet, first in the tree")
    for number, (name, body) in enumerate(BODIES.items()):
        await desk.create(f"body-{number}", "z", body, metadata={"title": name}, created_at=TIME)
    for number, (name, metadata) in enumerate(METADATA.items()):
        await desk.create(f"meta/{number}:x", "z", f"{name}\n", metadata=metadata, is_human_readable=number % 2 == 0)
    await desk.create("text", "z", "text\n", mime_type="text/plain", metadata={"title": "con"})
    await desk.create("json", "z", ' {"a":\r\n [1, 1E40]}\n\n', mime_type="application/json", metadata={"title": "J"})
    await desk.create("below-json", "json", "child")
    for id, title in {
        "a1": "Same",
        "a2": "SAME",
        "a3": "same",
        "a4": "Same-2",
        "a5": "same.md",
        "a6": "same.json",
    }.items():
        await desk.create(id, "text", id, metadata={"title": title})
        await desk.create(f"{id}-below", id, id, mime_type="application/json" if id == "x" else "text/plain")
    for id, title in {"b1": "../../etc/x", "b2": "...", "b3": "đ" * 250, "b4": "đ" * 251, "b5": "a\u0301"}.items():
        await desk.create(id, "root", id, metadata={"title": title})
    await desk.create("b6", "root", "6", metadata={"title": "\u00c1"})
    await desk.move("b4", "root", ordering=0)
