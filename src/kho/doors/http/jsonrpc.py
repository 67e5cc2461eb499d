"""POST /jsonrpc: full JSON-RPC 2.0, with methods named `{server}/{operation}`."""

from functools import partial
from typing import Any

import orjson

from kho.kernel import Call, KhoError, Principal, Registry, TooManyRequests, validation
from kho.kernel.limits.limiter import Limiter
from kho.lib import jsonrpc
from kho.lib.jsonrpc import InvalidMessage, RpcRequest, RpcResponse

LARGEST_BATCH = 100


class JsonRpc:
    def __init__(self, registry: Registry, limiter: Limiter, *, answer_without_id: bool = False) -> None:
        self._registry = registry
        self._limiter = limiter
        self._answer_without_id = answer_without_id

    async def answer(self, body: bytes, principal: Principal, warnings: list[str] | None = None) -> bytes | None:
        """Return the response to a request body; None if it held only notifications. `warnings` gets what the caller
        should know beside it."""
        told = [] if warnings is None else warnings
        try:
            messages, batch = await validation.read_large(len(body), partial(jsonrpc.parse, body, most=LARGEST_BATCH))
        except jsonrpc.ParseError as problem:
            return orjson.dumps(jsonrpc.error(None, jsonrpc.PARSE_ERROR, "Parse error", str(problem)))
        # In order: a caller may put a write before the read that depends on it.
        replies: list[dict[str, Any]] = []
        for place, message in enumerate(messages):
            answer = self._further if place else self._reply
            if (reply := await answer(message, principal, told)) is not None:
                replies.append(reply)
        if not replies:
            return None
        return orjson.dumps(replies if batch else replies[0])

    async def _reply(self, message: jsonrpc.Message, principal: Principal, told: list[str]) -> dict[str, Any] | None:
        if isinstance(message, InvalidMessage):
            return message.reply
        if isinstance(message, RpcResponse):
            why = "The hub sends no requests here, so it accepts no responses."
            return jsonrpc.error(message.id, jsonrpc.INVALID_REQUEST, "Invalid Request", why)
        reply = await self._run(message, principal, told)
        return None if message.is_notification and not self._answer_without_id else reply

    async def _further(self, message: jsonrpc.Message, principal: Principal, told: list[str]) -> dict[str, Any] | None:
        """Answer a further message of a batch, each of which counts as a request."""
        try:
            self._limiter.request(principal)
        except TooManyRequests as error:
            if isinstance(message, RpcRequest) and not message.is_notification:
                return failure(message.id, error, contract=False)
            return message.reply if isinstance(message, InvalidMessage) else None
        return await self._reply(message, principal, told)

    async def _run(self, request: RpcRequest, principal: Principal, told: list[str]) -> dict[str, Any]:
        operation = self._registry.method(request.method)
        if operation is None:
            why = "GET /servers lists the servers; a method is '{server}/{operation}'."
            return jsonrpc.error(request.id, jsonrpc.METHOD_NOT_FOUND, "Method not found", why)
        if isinstance(request.params, list):
            why = "Give the parameters by name, as an object."
            return jsonrpc.error(request.id, jsonrpc.INVALID_PARAMS, "Invalid params", why)
        outcome = await self._registry.call(operation, request.params or {}, Call(principal, "jsonrpc"))
        told += outcome.warnings
        if outcome.error is None or outcome.value is not None:
            return jsonrpc.result(request.id, outcome.value)
        return failure(request.id, outcome.error, contract=operation.protocol_errors)


def failure(id: jsonrpc.Id, error: KhoError, *, contract: bool) -> dict[str, Any]:
    told = error.contract_data()
    if contract:
        return jsonrpc.error(id, error.contract_code, error.message, told)
    data = {"code": error.code, **error.details, "guidance": told["guidance"]}
    return jsonrpc.error(id, error.rpc, error.message, data)
