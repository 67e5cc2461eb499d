"""How many passages a document may have: whoever writes it, at whatever operation, is refused, and nothing changes."""

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kho.app import open_hub
from kho.kernel.call import Call, Principal
from kho.kernel.errors import KhoError
from kho.kernel.hub import Hub
from kho.kernel.limits.settings import LimitSettings
from kho.research.settings import ResearchSettings
from kho.settings import Settings

Json = dict[str, Any]
MOST = 5
FITS = "\n".join(f"# T{number}\nText {number}." for number in range(MOST))
OVER = f"{FITS}\n# One more\nText."
KEY = Principal("ann", "local", frozenset({"*"}), "key", key="k1")


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres_schema_url")
    research = ResearchSettings(roots=[str(tmp_path / "papers")])
    limits = LimitSettings(passages=MOST, embedding=MOST)
    return Settings(home=tmp_path / "home", database_url=url, research=research, limits=limits)


@pytest.fixture
async def hub(store: Settings) -> AsyncIterator[Hub]:
    async with open_hub(store) as hub:
        yield hub


async def call(hub: Hub, name: str, principal: Principal | None = None, **arguments: Any) -> Json:
    operation = next(one for one in hub.registry.operations(hub.local) if name in (one.tool, one.action, one.rpc))
    outcome = await hub.registry.call(operation, arguments, Call(principal or hub.local))
    if outcome.error is not None:
        raise outcome.error
    return outcome.value


def line(text: str) -> Json:
    return {"kind": "document", "id": "d2", "collection": "papers", "title": "T", "text": text, "hash": "h", "size_bytes": 1,
            "cut": "markdown"}  # fmt: skip


def writes(text: str) -> list[tuple[str, Json]]:
    collection = {"collection": "papers", "force": True}
    return [
        ("create_document", {"document_id": "new", "content": {"body": text}}),
        ("update_document", {"document_id": "old", "patch": {"content": {"body": text}}}),
        ("augment_knowledge", {"content": text, "source": "s", **collection}),
        (
            "upload_document",
            {"filename": "x.md", "content": base64.b64encode(text.encode()).decode(), **collection},
        ),
        ("import_knowledge", {"lines": [line(text)]}),
        ("memory_add_message", {"conversation_id": "c", "role": "user", "content": text.replace("Text", "word " * 50)}),
    ]


async def state(hub: Hub) -> list[Json]:
    asked: list[tuple[str, Json]] = [
        ("list_documents", {}),
        ("get_document", {"document_id": "old"}),
        ("export_knowledge", {}),
        ("memory_export", {}),
        ("audit_log", {}),
    ]
    return [await call(hub, name, **arguments) for name, arguments in asked]


async def test_every_writer_is_refused_and_changes_nothing(hub: Hub) -> None:
    await call(hub, "create_document", document_id="old", content={"body": "Before."})
    await call(hub, "manage_collections", action="create", collection_name="papers")
    before = await state(hub)
    for name, arguments in writes(OVER):
        with pytest.raises(KhoError) as caught:
            await call(hub, name, **arguments)
        error = caught.value
        assert (error.code, error.status) == ("TOO_MANY_PASSAGES", 413), name
        assert f"more than {MOST} passages" in error.message
        assert "KHO_LIMITS__PASSAGES" in error.guidance
        assert await state(hub) == before, name
    for name, arguments in writes(FITS):
        await call(hub, name, **arguments)


async def test_a_file_with_too_many_is_reported_and_the_others_are_taken(hub: Hub, tmp_path: Path) -> None:
    folder = tmp_path / "papers"
    folder.mkdir()
    (folder / "fits.md").write_text(FITS, "utf-8")
    (folder / "over.md").write_text(OVER, "utf-8")
    await call(hub, "manage_collections", action="create", collection_name="papers")
    done = await call(hub, "ingest_documents", path=str(folder), collection="papers")
    assert "TOO_MANY_PASSAGES" in str(done)
    kept = await call(hub, "list_kb_documents", collection="papers")
    assert [one["title"] for one in kept["documents"]] == ["T0"]
