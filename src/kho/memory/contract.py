"""Shared contract of the conversation operations: `memory/{verb}` at /jsonrpc, `memory_{verb}` elsewhere."""

from kho.kernel.contract import Contract

MEMORY = Contract(
    "memory",
    read_scope="memory:read",
    write_scope="memory:write",
    rpc=lambda wire: wire.replace("_", "/", 1),
)
SOME = {"conversation_id": "chat_1"}
