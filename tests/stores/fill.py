"""The data of a kept store: something of every slice, written by the operations themselves.

A change that adds a table, a column or a state adds data here, so that the next store that is kept has it.
"""

import asyncio
import json
from base64 import b64encode
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from tests.audit.conftest import Office as Trail
from tests.documents.webhook_receiver import Receiver
from tests.doors.doors import Served, bearer, new_key, served
from tests.parsers import samples
from tests.timeouts import PATIENCE

from kho.app import open_hub, opened
from kho.audit import chain, retention
from kho.documents.settings import DocumentSettings
from kho.kernel.call import Call
from kho.lib.clock import DAY
from kho.memory.settings import MemorySettings
from kho.research.settings import ResearchSettings
from kho.settings import Settings
from kho.simulator import simulator
from kho.simulator.simulator import BoardEvent, Simulated

Json = dict[str, Any]
CENTURY = 36_500 * DAY
FOLDER = Path("/tmp/kho-store")
"""Where files are ingested and exported while a store is made. The path is kept in the store, so it names no one's home."""
NOBODY = "http://127.0.0.1:9/hook"
"""A webhook address where nobody listens."""
MESSAGES = 300
"""Messages of the other tenant: more than 256, so that some of their vectors are packed into a block on SQLite."""

HANDBOOK: dict[str, tuple[str, str, list[str], str]] = {
    "handbook": ("root", "Handbook", ["team"], "# Handbook\n\nHow we run the workshop, room by room.\n"),
    "kettle": (
        "handbook",
        "Descaling the kettle",
        ["kitchen", "care"],
        "# Descaling the kettle\n\nTwenty grams of citric acid in a litre of water take limescale off the coil.\n\n"
        "## How often\n\nEvery second month, sooner where water is hard.\n",
    ),
    "tra-xanh": (
        "handbook",
        "Pha trà xanh",
        ["kitchen", "trà"],
        "# Pha trà xanh\n\nĐun nước đến tám mươi độ, tráng ấm rồi hãm trà trong hai phút.\n",
    ),
    "fire-drill": (
        "handbook",
        "消防演习",
        ["安全"],
        "# 消防演习\n\n每年三月和九月举行消防演习,集合地点在北门停车场。\n",
    ),
    "old": ("handbook", "Old rota", [], "The rota of last year.\n"),
    "old/monday": ("old", "Monday", [], "Monday was for inventory.\n"),
    "leaflet": ("handbook", "Leaflet", [], "A leaflet that came back.\n"),
    "lease": ("root", "Lease of the hall", ["contract"], "The lease of the hall ends in the year 2098.\n"),
    "shredded": ("root", "Shredded", [], "This must be nowhere any more.\n"),
}
"""Documents by id: parent, title, tags, body."""

REPEATED: Json = {
    "action": "update_document",
    "request_id": "receipt-1",
    "payload": {
        "document_id": "kettle",
        "patch": {"content": {"body": HANDBOOK["kettle"][3] + "\nVinegar does as well, and smells.\n"}},
        "last_known_revision": 1,
    },
}
"""An action with a request id: whoever sends it again gets the first answer."""

EXPERIENCES: list[Json] = [
    {
        "title": "Migration waits for a lock for ever",
        "problem_description": "An ALTER TABLE on PostgreSQL hung because an idle transaction held the table.",
        "root_cause": "A worker kept a transaction open while it waited for the network.",
        "solution": "Set lock_timeout, end idle transactions, run the migration again.",
        "keywords": ["postgresql", "migration", "lock"],
        "context": "PostgreSQL 16, nightly deployment",
    },
    {
        "title": "Tiếng Việt hiển thị sai trên cửa sổ dòng lệnh",
        "problem_description": "Chữ có dấu bị vỡ khi chạy chương trình trên Windows.",
        "root_cause": "Trang mã của cửa sổ không phải UTF-8.",
        "solution": "Đặt PYTHONUTF8=1 hoặc chạy chcp 65001 trước khi mở chương trình.",
        "keywords": ["windows", "utf-8", "tiếng việt"],
    },
    {
        "title": "容器里的时区不对",
        "problem_description": "日志时间比本地时间晚八个小时。",
        "root_cause": "镜像里没有安装时区数据。",
        "solution": "安装 tzdata 并设置 TZ=Asia/Shanghai。",
        "keywords": ["docker", "时区"],
    },
    {
        "title": "Flaky port in the test suite",
        "problem_description": "Two tests asked for the same port and one of them failed now and then.",
        "solution": "Bind to port 0 and read the port that was given.",
        "keywords": ["tests", "ports"],
    },
]

TALK = [
    ("user", "We plan the move of the workshop to Hà Nội in March 2027."),
    ("assistant", "Noted: the move to Hà Nội, March 2027. How many machines go?"),
    ("user", "Seven machines, 1,250 kg in all; the lathe alone weighs 480 kg."),
    ("assistant", "Seven machines, 1,250 kg. The lathe needs a crane of its own."),
    ("user", "Xe tải của anh Bình chở được 900 kg, nên phải đi hai chuyến."),
    ("assistant", "Vậy hai chuyến xe tải, mỗi chuyến tối đa 900 kg."),
    ("user", "保险由东方公司承担,保额三十万元。"),
    ("assistant", "保险:东方公司,保额三十万元。"),
    ("user", "The electrician comes on 4 March, the crane on 5 March at eight o'clock."),
    ("assistant", "Electrician 4 March, crane 5 March, 8:00."),
    ("user", "The budget is 85 million đồng; the crane takes 12 million of it."),
    ("assistant", "Budget 85 million, crane 12 million, 73 million left."),
    ("user", "Who keeps the keys of the old hall until the landlord is back?"),
    ("assistant", "Nobody is named yet. Shall I put it on the list?"),
    ("user", "Yes. And the sign over the door goes to the museum."),
    ("assistant", "On the list: keys of the old hall; sign to the museum."),
]

NOTES: dict[str, bytes] = {
    "kettle.md": b"---\ntitle: Kettles\ntags: [kitchen, care]\nauthor: Workshop\ndate: 2025-04-01\n---\n# Kettles\n\n"
    b"Citric acid takes limescale off the coil of a kettle.\n\n| water | grams |\n|---|---|\n| hard | 20 |\n",
    "meo.txt": "Con mèo ngủ trên mái nhà suốt buổi chiều, đến tối mới xuống ăn.\n".encode(),
    "cu.txt": samples.windows_1258("Quán cũ ở phố cổ bán bánh mì và cà phê sữa đá từ năm 1986.\n"),
    "图书馆.html": "<html><title>图书馆</title><h1>开放时间</h1><p>图书馆周一到周五早上九点开门。</p></html>".encode(),
    "models.csv": b"model,size\ne5-small,118\ne5-base,278\n",
    "limits.json": b'{"queue": {"limit": 100, "unit": "calls"}}',
    "bands.py": b'"""MinHash bands."""\n\n\ndef bands(signature):\n    return [hash(tuple(signature[at : at + 4])) for at in (0, 4)]\n',
    "torque.rst": b"Torque\n======\n\nThe bolts of the lathe take forty newton metres, crosswise.\n",
    "book.ipynb": json.dumps(
        {
            "nbformat": 4,
            "nbformat_minor": 5,
            "metadata": {},
            "cells": [{"cell_type": "markdown", "metadata": {}, "source": ["# Cells\n", "A notebook about kilns."]}],
        }
    ).encode(),
    "manual.pdf": samples.pdf(["The saw blade turns left.\nChange it every hundred hours."], title="Saw manual"),
    "contract.docx": samples.word(lambda document: document.add_paragraph("The supplier delivers oak boards in May.")),
    "broken.pdf": b"%PDF-1.7\nnothing that follows is a PDF\n",
    "leaves.md": b"# Leaves\n\nThis file goes away before the second look.\n",
}
"""Files of every format that is read, one of them broken."""


class Caller:
    """Somebody with a key, at a hub."""

    def __init__(self, hub: Served, key: str) -> None:
        self._hub = hub
        self._key = key

    async def ask(self, method: str, /, **params: Any) -> Any:
        """The result of a JSON-RPC method."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = (await self._hub.post("/jsonrpc", body, **bearer(self._key))).json()
        assert "result" in answer, (method, params, answer)
        return answer["result"]

    async def act(self, body: Json) -> None:
        answer = await self._hub.post("/actions", body, **bearer(self._key))
        assert answer.status_code == 200, answer.text


async def until(condition: Callable[[], Awaitable[object]]) -> None:
    """Waits for what a hub does in the background."""
    async with asyncio.timeout(PATIENCE):
        while not await condition():  # noqa: ASYNC110 - a script that nobody waits for
            await asyncio.sleep(0.05)


async def fill(settings: Settings) -> dict[str, str]:
    """Fills an empty store. Answers the keys that open it, by name: of two tenants, one expired and one revoked."""
    notes = FOLDER / "notes"
    notes.mkdir(parents=True, exist_ok=True)
    for name, content in NOTES.items():
        (notes / name).write_bytes(content)
    settings = settings.model_copy(
        update={
            "research": ResearchSettings(shared_roots=[str(notes)], wait=60),
            "memory": MemorySettings(summary_max_chars=400),
            "documents": DocumentSettings(webhook_backoff=[0.01], webhook_hosts=["127.0.0.1"]),
        }
    )
    keys = {
        "local": await new_key(settings, "local", "*", "admin", sub="ada", lifetime=CENTURY),
        "acme": await new_key(settings, "acme", "*", sub="bot", lifetime=CENTURY),
        "expired": await new_key(settings, "acme", "docs:read", sub="guest", lifetime=1),
        "revoked": await new_key(settings, "acme", "*", sub="gone", lifetime=CENTURY),
    }
    async with open_hub(settings) as hub:
        await hub.keys.revoke(keys["revoked"].split("_")[1], hub.clock())
    async with served(settings, serving=True) as hub:
        ada, bot = Caller(hub, keys["local"]), Caller(hub, keys["acme"])
        await _documents(ada, bot)
        await _experiences(ada, bot)
        await _memory(ada, bot)
        await _facts(ada, bot)
        await _research(ada, notes)
        await _devices(ada, hub.url)
        await _purge(ada)
    # One more webhook, whose next attempt is a day away: what waits for it is still waiting when the store is opened.
    slow = settings.model_copy(
        update={"documents": DocumentSettings(webhook_backoff=[86_400.0], webhook_hosts=["127.0.0.1"])}
    )
    async with served(slow, serving=True) as hub:
        ada = Caller(hub, keys["local"])
        await ada.ask("documents-server/add_webhook", url=NOBODY, events=["document.created"], secret="w" * 20)
        for name in ("late", "later"):
            await ada.ask("documents-server/create_document", document_id=name, content={"body": f"Written {name}."})

        async def tried() -> bool:
            [hook] = [one for one in (await ada.ask("documents-server/list_webhooks"))["webhooks"] if one["waiting"]]
            return "problem" in hook

        await until(tried)
    async with open_hub(settings) as hub:
        await _folder(hub)
        assert hub.backlog is not None
        await hub.backlog.settle(lambda done, total: None)
    await _chain(settings)
    return keys


async def _chain(settings: Settings) -> None:
    """Every row of the audit trail has its link. Of a third tenant, one row has left and one has lost its text."""
    async with opened(settings, only=["audit"]) as (core, _):
        trail = Trail(core.db)
        numbers = await trail.sealed(3, tenant="initech")
        await core.db.write(lambda tx: retention.erase(tx, "initech", numbers[1:2], trail.clock()))
        times = await trail.all(f"SELECT at FROM audit WHERE number = {numbers[1]}")
        assert await trail.retention.remove("initech", times[0][0]) == 1
        for tenant in await core.db.read(chain.tenants):
            await trail.sealer.seal_all(tenant)


async def _documents(ada: Caller, bot: Caller) -> None:
    async def do(operation: str, /, **params: Any) -> Any:
        return await ada.ask(f"documents-server/{operation}", **params)

    receiver = Receiver()
    async with receiver.listening():
        await do("add_webhook", url=receiver.url, events=["document.restored"], secret="r" * 20)
        await do("add_webhook", url=NOBODY, events=["document.deleted"], secret="d" * 20)
        for id, (parent, title, tags, body) in HANDBOOK.items():
            content = {"mime_type": "text/markdown", "body": body}
            about = {"title": title, "tags": tags}
            await do("create_document", document_id=id, parent_id=parent, content=content, metadata=about)
        await do(
            "create_document",
            document_id="limits",
            parent_id="handbook",
            content={"mime_type": "application/json", "body": '{"doors": 4, "fire": "北门"}'},
            metadata={"title": "Limits", "owner": {"name": "An", "since": 2019}},
            is_human_readable=False,
            created_at="2019-05-06T07:08:09Z",
        )
        await ada.act(REPEATED)
        await do("edit_document", document_id="kettle", old_text="second month", new_text="third month")
        await do(
            "update_document",
            document_id="kettle",
            patch={"metadata": {"title": "Descaling kettles", "room": "kitchen"}},
            update_mask=["metadata.title", "metadata.room"],
        )
        await do("restore_revision", document_id="kettle", revision=2)
        await do("move_document", document_id="tra-xanh", new_parent_id="kettle")
        await do("move_document", document_id="fire-drill", new_parent_id="handbook", position={"before": "kettle"})
        await do("delete_document", document_id="old", reason="nobody keeps it any more", deleted_by="An")
        await do("delete_document", document_id="leaflet", reason="by mistake")
        await do("restore_document", document_id="leaflet", reason="it was right")
        await do("delete_document", document_id="lease", reason="it has ended", delete_at="2098-01-01T00:00:00Z")
        await do("delete_document", document_id="shredded")
        await do("purge_document", document_id="shredded", reason="it named a person")
        await bot.ask(
            "documents-server/create_document", document_id="kettle", content={"body": "Another tenant's kettle."}
        )
        await receiver.has(1)

    async def told() -> bool:
        hooks = (await do("list_webhooks"))["webhooks"]
        return not any(one["waiting"] for one in hooks)

    await until(told)


async def _folder(hub: Any) -> None:
    """Documents that went out to a folder and came back: the store remembers which file is which document."""
    operations = {one.name: one for one in hub.registry.operations(hub.local)}
    folder = FOLDER / "handbook"

    async def do(name: str, **params: Any) -> None:
        outcome = await hub.registry.call(operations[name], {"directory": str(folder), **params}, Call(hub.local))
        assert outcome.error is None, outcome.error

    await do("documents.export", overwrite=True)
    (folder / "written by hand.md").write_text("# By hand\n\nThis came from a file, 从文件来, từ một tệp.\n", "utf-8")
    await do("documents.import")


async def _experiences(ada: Caller, bot: Caller) -> None:
    async def do(operation: str, /, **params: Any) -> Any:
        return await ada.ask(f"experiences-server/{operation}", **params)

    for one in EXPERIENCES:
        await do("submit_experience", **one)
    await bot.ask("experiences-server/submit_experience", **EXPERIENCES[0])
    lines = (await do("export_experiences", include_deleted=True))["data"]["experiences"]
    ids = {line["title"]: line["id"] for line in lines}
    lock, wrong, _, ports = (ids[one["title"]] for one in EXPERIENCES)
    await do("update_experience", id=lock, expected_revision=1, solution="Set lock_timeout to 5s and run it again.")
    await do("update_experience", id=lock, expected_revision=2, title="A migration waits for a lock", context=None)
    await do("rate_experience", id=lock, helpful=True, note="It was the idle worker here as well.")
    await do("rate_experience", id=wrong, helpful=False)
    await do("query_experiences", keywords="migration lock")
    await do("delete_experience", id=ports, reason="The suite has no fixed ports any more.")
    await do("delete_experience", id=wrong)
    await do("restore_experience", id=wrong)


async def _facts(ada: Caller, bot: Caller) -> None:
    """Current, edited, replaced, forgotten, expiring and restored ones."""

    async def do(operation: str, /, **params: Any) -> Any:
        return await ada.ask(f"facts-server/{operation}", **params)

    lived = await do("remember", text="Lan lives in Đà Nẵng.", about="Lan", tags=["places"], source="the first letter")
    await do("remember", text="Lan moved to Huế.", about="LAN", replaces=lived["id"])
    lathe = await do("remember", text="The lathe needs three-phase power.", about="workshop")
    await do("update_fact", id=lathe["id"], text="The lathe needs three-phase power and a fuse of 32 A.")
    await do("remember", text="周会改到星期二上午十点。", expires_at="2100-01-01T00:00:00Z", tags=["meetings"])
    kiln = await do("remember", text="The kiln stands in the shed.", about="workshop")
    await do("forget", id=kiln["id"], reason="It was sold.")
    door = await do("remember", text="The side door sticks in winter.")
    await do("forget", id=door["id"])
    await do("restore_fact", id=door["id"])
    await bot.ask("facts-server/remember", text="Lan lives in Cần Thơ.", about="Lan")


async def _memory(ada: Caller, bot: Caller) -> None:
    async def do(operation: str, /, **params: Any) -> Any:
        return await ada.ask(f"memory-server/memory/{operation}", **params)

    for name in ("move", "cleared", "set", "gone"):
        await do("get_or_create", conversation_id=name)
    for number, (role, content) in enumerate(TALK):
        more = {"message_id": f"m{number}", "metadata": {"number": number, "nơi": "Hà Nội"}} if number < 3 else {}
        await do("add_message", conversation_id="move", role=role, content=content, **more)
    for name, content in (("cleared", "Soon forgotten."), ("set", "What colour is the door?"), ("gone", "Deleted.")):
        await do("add_message", conversation_id=name, role="user", content=content)
    await do("clear", conversation_id="cleared", reason="said twice")
    await do("delete", conversation_id="gone")
    await do("set_summary", conversation_id="set", summary="The client says: the door is green.")

    async def summarised() -> bool:
        return "Hà Nội" in ((await do("get_summary", conversation_id="move"))["summary"])

    await until(summarised)
    await bot.ask("memory-server/memory/get_or_create", conversation_id="log")
    log = {"conversation_id": "log", "role": "system"}
    readings = [{**log, "content": f"Reading {number}: {number * 37 % 100} degrees"} for number in range(MESSAGES)]
    # All but some at once: each call is a row of the audit trail, and the store is to stay small.
    lines = [
        {
            "type": "message",
            "id": f"r{number}",
            "created_at": f"2026-11-16T08:{number // 60:02}:{number % 60:02}Z",
            **one,
        }
        for number, one in enumerate(readings[:-20])
    ]
    await bot.ask("memory-server/memory/import", lines=lines)
    for one in readings[-20:]:
        await bot.ask("memory-server/memory/add_message", **one)


async def _research(ada: Caller, notes: Path) -> None:
    async def do(operation: str, /, **params: Any) -> Any:
        return await ada.ask(f"research-server/{operation}", **params)

    async def collections(action: str, name: str, **params: Any) -> None:
        await do("manage_collections", action=action, collection_name=name, **params)

    async def projects(action: str, name: str, **params: Any) -> None:
        await do("manage_projects", action=action, project_name=name, **params)

    await collections("create", "Notes", collection_type="fundamental", description="Files of the workshop.")
    await collections("create", "Quellen", collection_type="project-specific")
    await collections("create", "Spare")
    await collections("rename", "Quellen", new_name="Sources")
    await do("ingest_documents", path=str(notes), collection="Notes")
    (notes / "leaves.md").unlink()
    (notes / "torque.rst").write_text("Torque\n======\n\nThe bolts take forty-five newton metres, crosswise.\n")
    await do("ingest_documents", path=str(notes), collection="Notes", prune=True)
    await do(
        "augment_knowledge",
        content="Kilns for porcelain reach 1,300 °C; the glaze is fired for eight hours.",
        source="https://example.org/kilns",
        collection="Sources",
        title="Kilns",
        tags=["kiln", "porcelain"],
        author="Example",
        date="2024-11-05",
    )
    gom = b64encode("# Gốm Bát Tràng\n\nMen rạn là nét riêng của gốm Bát Tràng.\n".encode()).decode()
    await do("upload_document", filename="gom.md", content=gom, collection="Sources", tags=["gốm"])
    await do("augment_knowledge", content="A text that moves on.", source="note", collection="Spare", title="Mover")
    await collections("move-documents", "Spare", documents=["Mover"], target_collection="Sources")
    await projects("create", "Kiln", description="A kiln for the yard.", collections=["Sources"])
    await projects("link", "Kiln", collections=["Notes"])
    await projects("set-defaults", "Kiln", collections=["Notes"])
    await projects("create", "Closed", collections=["Notes"])
    await projects("archive", "Closed")
    await do("query_knowledge_base", query="limescale kettle", collections=["Notes"])
    await do("query_knowledge_base", query="porcelain kiln glaze", project="Kiln")
    listed = (await do("list_kb_documents", collection="Notes"))["documents"]
    kettle = next(one["id"] for one in listed if one["title"] == "Kettles")
    await do("submit_feedback", document_id=kettle, chunk=0, verdict="positive", reason="exact", query="limescale")
    await do("submit_feedback", document_id=kettle, verdict="negative", reason="the table is old")


async def _devices(ada: Caller, url: str) -> None:
    async def do(operation: str, /, **params: Any) -> Any:
        return await ada.ask(f"devices-server/{operation}", **params)

    codes: dict[str, asyncio.Future[str]] = {}
    names = {number: simulator.mac(number) for number in (1, 2, 3)}
    loop = asyncio.get_running_loop()
    codes.update({mac: loop.create_future() for mac in names.values()})

    def tell(happening: BoardEvent) -> None:
        if happening.what == "waiting" and not codes[happening.device].done():
            codes[happening.device].set_result(happening.more["code"])

    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(simulator.http())
        boards = [Simulated(board, url, http, tell=tell) for board in simulator.boards(3)]
        running = [asyncio.ensure_future(board.run()) for board in boards]
        for number, label in ((1, "kitchen"), (2, "hall")):
            await do("device_approve", code=await codes[names[number]], label=label)
            await boards[number - 1].connected.wait()
        await codes[names[3]]

        async def ready() -> bool:
            listed = [await do("device_tools", device=label) for label in ("kitchen", "hall")]
            return all(one["tools"] for one in listed)

        await until(ready)
        volume = "self.audio_speaker.set_volume"
        await do("device_call", device="kitchen", tool=volume, arguments={"volume": 37})
        await do("device_call", device="hall", tool="self.get_device_status")
        await do("device_label", device="kitchen", label="bếp")
        await boards[0].become("speaking")
        await boards[0].become("idle")

        async def noted() -> bool:
            return len((await do("device_notifications"))["notifications"]) >= 2

        await until(noted)
        await do("device_revoke", device="hall")
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

        async def away() -> bool:
            listed = (await do("devices_list"))["devices"]
            return not any(one["status"] == "connected" for one in listed)

        await until(away)
    await do("device_call", device="bếp", tool=volume, arguments={"volume": 12}, queue_for="7d")


async def _purge(ada: Caller) -> None:
    """Somebody was there, and is not any more."""
    await ada.ask("facts-server/remember", text="Vi drives the van on Mondays.", about="Vi")
    purge = {"subject": "Vi", "reason": "left the workshop", "wipe": False, "confirm": True}
    assert (await ada.ask("administration-server/purge", **purge))["finished"]
