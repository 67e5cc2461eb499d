"""Asks a store for everything that is in it, and notes the answers.

The requests are noted with their answers as they go over the wire, so that a test can ask them again without this file.
A change that adds an operation which reads adds its requests here, for the next store that is kept.
"""

from typing import Any

from tests.doors.doors import Served
from tests.stores.fill import REPEATED
from tests.stores.kept import Json, exchange, lasting, problems

PAGE = 200


class Recorder:
    def __init__(self, hub: Served, keys: dict[str, str]) -> None:
        self.exchanges: list[Json] = []
        self._hub = hub
        self._keys = keys

    async def ask(self, method: str, /, key: str = "local", **params: Any) -> Any:
        """Notes the answer to a JSON-RPC method, and returns its result."""
        answer = await self.post("/jsonrpc", key, _rpc(method, params))
        return answer["result"]

    async def find(self, method: str, *wanted: str, key: str = "local", **params: Any) -> None:
        """A search: `wanted` are ids or titles that it must find, in whichever order."""
        await self.post("/jsonrpc", key, _rpc(method, params), finds=wanted)

    async def write(self, method: str, *shows: str, key: str = "local", **params: Any) -> None:
        """What is written and what is read after it. `shows` are words that the answer must hold."""
        await self.post("/jsonrpc", key, _rpc(method, params), shows=shows)

    async def post(self, path: str, key: str, body: Json, **expected: Any) -> Any:
        asked = {"path": path, "key": key, "body": body}
        answer = await exchange(self._hub, self._keys, asked)
        noted = {**asked, **(expected or {"answer": lasting(answer)})}
        assert not (wrong := problems(noted, answer)), wrong
        self.exchanges.append(noted)
        return answer


def _rpc(method: str, params: Json) -> Json:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


async def record(hub: Served, keys: dict[str, str]) -> list[Json]:
    """All that can be read, as requests with their answers. Searches come last: they leave traces."""
    recorder = Recorder(hub, keys)
    for slice in (_documents, _experiences, _memory, _facts, _research, _devices, _audit, _identity, _searches):
        await slice(recorder)
    return recorder.exchanges


async def _documents(recorder: Recorder) -> None:
    async def ask(operation: str, /, **params: Any) -> Any:
        return await recorder.ask(f"documents-server/{operation}", **params)

    listed = await ask("list_documents", recursive=True, include_deleted=True, limit=PAGE)
    await ask("list_documents", recursive=True, limit=PAGE)
    await ask("list_documents", parent_id="handbook", sort="title")
    for id in [one["document_id"] for one in listed["documents"]]:
        document = await ask("get_document", document_id=id, include_deleted=True)
        await ask("document_history", document_id=id)
        for revision in range(1, document["revision"]):
            await ask("get_document", document_id=id, revision=revision, include_deleted=True)
            await ask("diff_revisions", document_id=id, from_revision=revision)
    await ask("audit_log", limit=PAGE)
    await ask("audit_log", document_id="kettle")
    await ask("list_webhooks")
    await ask("dead_deliveries")
    await ask("list_documents", key="acme", recursive=True, include_deleted=True)
    await ask("audit_log", key="acme")


async def _experiences(recorder: Recorder) -> None:
    async def ask(operation: str, /, **params: Any) -> Any:
        return await recorder.ask(f"experiences-server/{operation}", **params)

    exported = await ask("export_experiences", include_deleted=True)
    await ask("export_experiences")
    for one in exported["data"]["experiences"]:
        if not one.get("deleted_at"):
            await ask("get_experience", id=one["id"])
            for revision in range(1, one["revision"]):
                await ask("get_experience", id=one["id"], revision=revision)
    await ask("export_experiences", key="acme", include_deleted=True)


async def _memory(recorder: Recorder) -> None:
    async def ask(operation: str, /, **params: Any) -> Any:
        return await recorder.ask(f"memory-server/{operation}", **params)

    for key in ("local", "acme"):
        listed = await ask("memory/list", key=key)
        for id in [one["conversation_id"] for one in listed["conversations"]]:
            for operation in ("get_all_messages", "get_old_messages", "get_summary", "get_context"):
                await ask(f"memory/{operation}", key=key, conversation_id=id)
            await ask("memory/export", key=key, conversation_id=id, limit=PAGE)
        for resource in (await ask("resources/list", key=key))["resources"]:
            await ask("resources/read", key=key, uri=resource["uri"])


async def _facts(recorder: Recorder) -> None:
    async def ask(operation: str, /, **params: Any) -> Any:
        return await recorder.ask(f"facts-server/{operation}", **params)

    for key in ("local", "acme"):
        await ask("list_facts", key=key)
        await ask("list_facts", key=key, about="lan", include_forgotten=True, include_expired=True)
        for one in (await ask("export_facts", key=key))["lines"]:
            await ask("get_fact", key=key, id=one["id"])
            await ask("fact_history", key=key, id=one["id"])


async def _research(recorder: Recorder) -> None:
    async def ask(operation: str, /, **params: Any) -> Any:
        return await recorder.ask(f"research-server/{operation}", **params)

    collections = await ask("manage_collections", action="list")
    for one in collections["collections"]:
        await ask("manage_collections", action="info", collection_name=one["name"])
        for document in (await ask("list_kb_documents", collection=one["name"]))["documents"]:
            await ask("get_kb_document", document=document["id"], text=True)
    projects = await ask("manage_projects", action="list", include_archived=True)
    for one in projects["projects"]:
        await ask("manage_projects", action="info", project_name=one["name"])
    for job in (await ask("list_jobs"))["jobs"]:
        await ask("job_status", job_id=job["job_id"])
    for operation in ("query_history", "feedback_analytics", "knowledge_base_status", "export_knowledge"):
        await ask(operation)
    await ask("list_kb_documents", key="acme")


async def _devices(recorder: Recorder) -> None:
    async def ask(operation: str, /, **params: Any) -> Any:
        return await recorder.ask(f"devices-server/{operation}", **params)

    listed = await ask("devices_list")
    for one in listed["devices"]:
        await ask("device_tools", device=one["device"])
    await ask("device_notifications")
    await ask("device_log")
    await ask("devices_list", key="acme")


async def _audit(recorder: Recorder) -> None:
    async def ask(**params: Any) -> Any:
        return await recorder.ask("audit-server/audit_log", **params)

    await ask(limit=PAGE)
    await ask(subject="old/monday")  # which went with the document above it
    await ask(slice="devices", action="device_call")
    await ask(key="acme", limit=PAGE)


async def _identity(recorder: Recorder) -> None:
    """Keys that are refused, and the answer that a repeated request id gets."""
    for key in ("expired", "revoked"):
        await recorder.post("/actions", key, {"action": "list_documents", "payload": {}})
    await recorder.post("/actions", "local", REPEATED)


async def _searches(recorder: Recorder) -> None:
    find = recorder.find
    documents, experiences = "documents-server/query_knowledge", "experiences-server/query_experiences"
    research, memory = "research-server/query_knowledge_base", "memory-server/memory/search"
    await find(documents, "kettle", query="limescale citric acid")
    await find(documents, "tra-xanh", query="hãm trà xanh bao lâu")
    await find(documents, "tra-xanh", query="ham tra xanh")
    await find(documents, "fire-drill", query="消防演习在哪里集合")
    await find(experiences, "A migration waits for a lock", keywords="postgresql migration lock")
    await find(experiences, "容器里的时区不对", keywords="时区")
    await find(research, "Kettles", query="limescale kettle", collections=["Notes"])
    await find(research, "Kilns", query="porcelain glaze", collections=["Sources"])
    await find(memory, "m2", query="how much does the lathe weigh")
    await find(memory, "log", key="acme", query="reading 123")


async def record_writes(hub: Served, keys: dict[str, str]) -> list[Json]:
    """A write or two to what is there, in every slice, and whether it can be read and found."""
    recorder = Recorder(hub, keys)
    do = recorder.write
    docs, memory, kb = "documents-server/", "memory-server/memory/", "research-server/"
    await do(f"{docs}edit_document", document_id="kettle", old_text="second month", new_text="fortnight")
    await do(f"{docs}get_document", "Every fortnight", document_id="kettle")
    await do(f"{docs}query_knowledge", "kettle", query="fortnight")
    await do(f"{docs}restore_document", document_id="old")
    await do(f"{docs}create_document", document_id="new", parent_id="old/monday", content={"body": "A new leaf."})
    await do(f"{docs}audit_log", "create_document", document_id="new")
    exported = await recorder.ask("experiences-server/export_experiences")
    first = exported["data"]["experiences"][0]
    recorder.exchanges.pop()
    changes = {"id": first["id"], "expected_revision": first["revision"], "solution": "Ask the quartermaster."}
    await do("experiences-server/update_experience", **changes)
    await do("experiences-server/rate_experience", id=first["id"], helpful=True)
    await do("experiences-server/query_experiences", "quartermaster", keywords="quartermaster")
    await do(f"{memory}add_message", conversation_id="move", role="user", content="The piano stays behind.")
    await do(f"{memory}search", "The piano stays behind.", query="piano")
    note = {"content": "Celadon is a green glaze.", "source": "note", "collection": "Sources", "title": "Celadon"}
    await do(f"{kb}augment_knowledge", **note)
    await do(f"{kb}query_knowledge_base", "Celadon", query="celadon glaze", collections=["Sources"])
    await do("facts-server/remember", "known", text="Lan moved to Huế.", about="Lan")
    await do("facts-server/remember", text="The lathe was sold.", about="workshop")
    await do("facts-server/list_facts", "The lathe was sold.", "fuse of 32 A", about="Workshop")
    await do("devices-server/device_label", device="bếp", label="khu bếp")
    await do("devices-server/devices_list", "khu bếp")
    return recorder.exchanges
