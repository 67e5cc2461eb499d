"""T5: a path leads out of the folders that may be read."""

import os
from pathlib import Path

import pytest
from tests.doors.doors import Served, new_key, served

from kho.doctor import change
from kho.settings import Settings

pytestmark = pytest.mark.anyio
CANARY = "zyxcanary"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "inside").mkdir(parents=True)
    (root / "inside" / "note.md").write_text("Inside.", encoding="utf-8")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text(CANARY, encoding="utf-8")
    sibling = tmp_path / "root-sibling"
    sibling.mkdir()
    (sibling / "secret.md").write_text(CANARY, encoding="utf-8")
    (root / "link.md").symlink_to(outside / "secret.md")
    (root / "linked").symlink_to(outside, target_is_directory=True)
    os.mkfifo(root / "pipe.md")
    return root


async def test_t05_no_path_leads_out_of_the_opened_folder(settings: Settings, root: Path, home: Path) -> None:
    key = await new_key(settings)
    async with served(change(settings, {"research": {"shared_roots": [str(root)]}})) as hub:
        papers = {"action": "create", "collection_name": "papers", "collection_type": "fundamental"}
        assert (await hub.act("manage_collections", papers, key=key)).status_code == 200
        outside = str(root.parent / "outside")
        for path in (
            outside, f"{outside}/secret.md", f"{root}/../outside", f"{root}/inside/../../outside/secret.md",
            f"{root}-sibling", f"{root}/link.md", f"{root}/linked", f"{root}/linked/secret.md", f"{root}/pipe.md",
            "/proc/self/environ", "/dev/zero", "/etc/passwd", "file:///etc/passwd", "~root", f"{root}/\0", str(home),
            "../outside", "/", f"{root}/．．/outside",
        ):  # fmt: skip
            answer = await hub.act("ingest_documents", {"path": path, "collection": "papers"}, key=key)
            assert CANARY not in answer.text
            if answer.status_code == 200:
                await ended(hub, key)
        inside = await hub.act(
            "ingest_documents", {"path": str(root), "collection": "papers", "recursive": True}, key=key
        )
        assert inside.status_code == 200, inside.text
        await ended(hub, key)
        exported = (await hub.act("export_knowledge", {}, key=key)).text
        assert "Inside." in exported
        assert CANARY not in exported
        assert "root:" not in exported


async def ended(hub: Served, key: str) -> None:
    """Waits until no job is running."""
    while True:
        jobs = (await hub.act("list_jobs", {}, key=key)).json()["result"]
        states = [job["state"] for job in jobs.get("jobs", jobs.get("data", {}).get("jobs", []))]
        if not {"queued", "running"} & set(states):
            return


async def test_t05_without_an_opened_folder_a_key_reads_none(settings: Settings, root: Path) -> None:
    key = await new_key(settings)
    async with served(settings) as hub:
        for path in (str(root), str(root / "inside"), "."):
            answer = await hub.act("ingest_documents", {"path": path, "collection": "papers"}, key=key)
            assert answer.status_code in (400, 403), answer.text
