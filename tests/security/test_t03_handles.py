"""T3: a handle of another tenant is replayed. Unknown and foreign handles are answered byte for byte alike."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.doors.doors import Served, bearer, new_key, served

from kho.settings import Settings

pytestmark = pytest.mark.anyio
MARK = "zyxmark"
REQUEST = "7d0cd3ae-5f0c-4a8f-9a3e-0d6c3b1f2a11"


async def furnished(hub: Served, key: str) -> Mapping[str, str]:
    """Handles of all kinds that belong to the key's tenant."""

    async def made(operation: str, **payload: Any) -> Any:
        answer = await hub.act(operation, payload, key=key)
        assert answer.status_code == 200, answer.text
        found = answer.json()["result"]
        return found.get("data", found)

    await made("create_document", document_id="plan-0001", content={"body": MARK}, metadata={"title": MARK})
    await made("memory_add_message", conversation_id="chat-0001", role="user", content=MARK)
    fact = await made("remember", text=MARK)
    record = await made("submit_experience", title=MARK, problem_description=MARK, solution=MARK)
    await made("manage_collections", action="create", collection_name=MARK, collection_type="fundamental")
    await made("augment_knowledge", content=MARK, source="x", collection=MARK, title=MARK)
    return {"document": "plan-0001", "chat": "chat-0001", "fact": fact["id"], "record": record["id"]}


def calls(document: str, chat: str, fact: str, record: str) -> list[tuple[str, dict[str, Any]]]:
    return [
        ("get_document", {"document_id": document}),
        ("document_history", {"document_id": document}),
        ("delete_document", {"document_id": document, "reason": "x"}),
        ("update_document", {"document_id": document, "patch": {"metadata": {"title": "x"}}}),
        ("memory_get_all_messages", {"conversation_id": chat}),
        ("memory_get_summary", {"conversation_id": chat}),
        ("memory_delete", {"conversation_id": chat}),
        ("get_fact", {"id": fact}),
        ("forget", {"id": fact, "reason": "x"}),
        ("fact_history", {"id": fact}),
        ("get_experience", {"id": record}),
        ("delete_experience", {"id": record, "reason": "x"}),
        ("rate_experience", {"id": record, "helpful": True}),
        ("list_kb_documents", {"collection": MARK if document == "plan-0001" else "x" * 7}),
        ("fetch", {"id": f"doc:{document}"}),
        ("fetch", {"id": f"fact:{fact}"}),
        ("fetch", {"id": f"exp:{record}"}),
    ]


async def test_t03_a_foreign_handle_is_answered_as_an_unknown_one(both_settings: Settings) -> None:
    mine, theirs = await new_key(both_settings, "acme"), await new_key(both_settings, "umbrella")
    nobody = "00000000-0000-4000-8000-000000000000"
    async with served(both_settings) as hub:
        known = await furnished(hub, theirs)
        foreign = calls(known["document"], known["chat"], known["fact"], known["record"])
        unknown = calls("plan-9999", "chat-9999", nobody, nobody)
        for (action, payload), (_, other) in zip(foreign, unknown, strict=True):
            theirs_answer = await hub.act(action, payload, key=mine, request_id=REQUEST)
            nobodys_answer = await hub.act(action, other, key=mine, request_id=REQUEST)
            assert theirs_answer.status_code == nobodys_answer.status_code
            said, expected = theirs_answer.text, nobodys_answer.text
            for handle, stranger in zip(payload.values(), other.values(), strict=True):
                said = said.replace(str(handle), "<id>")
                expected = expected.replace(str(stranger), "<id>")
            assert said == expected, action
            assert MARK not in said
            without = await hub.act(action, payload)
            assert without.status_code == 401
        for action, payload in foreign:
            if not action.startswith(("delete", "forget", "memory_delete", "update", "rate")):
                still = await hub.act(action, payload, key=theirs)
                assert still.status_code == 200, "nothing of the other tenant was changed"


async def test_t03_a_session_of_mcp_is_its_key_s_alone(settings: Settings) -> None:
    mine, theirs = await new_key(settings, "acme"), await new_key(settings, "umbrella")
    hello = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }  # fmt: skip
    accept = {"accept": "application/json, text/event-stream"}
    async with served(settings) as hub:
        session = (await hub.post("/mcp", hello, **accept, **bearer(theirs))).headers["mcp-session-id"]
        assert len(session) >= 32
        ends = [
            await hub.http.delete("/mcp", headers={"mcp-session-id": named, **bearer(mine)})
            for named in (session, "0" * len(session))
        ]
        assert (ends[0].status_code, ends[0].content) == (ends[1].status_code, ends[1].content)
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        alive = await hub.post("/mcp", ping, mcp_session_id=session, **accept, **bearer(theirs))
        assert alive.status_code == 200
