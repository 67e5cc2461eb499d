"""GET /health, /servers and /servers/{name}/capabilities, exactly as contract 002 shows them."""

from typing import Any

from kho.kernel import Call, Capability, Hub, KhoError, NotFound, Principal
from kho.kernel.vocabulary import synonym

MOST_RESOURCES = 100


async def health(hub: Hub) -> tuple[int, dict[str, Any]]:
    names = [capability.server for capability in hub.registry.capabilities]
    try:
        await hub.ping()
    except KhoError:
        return 503, {"status": "unhealthy", "servers": names}
    return 200, {"status": "healthy", "servers": names}


async def servers(hub: Hub, principal: Principal) -> dict[str, Any]:
    listed = [
        {"name": capability.server, "capabilities": await _capabilities(capability, principal)}
        for capability in hub.registry.checkpoint.visible(principal)
    ]
    return {"servers": listed}


async def capabilities_of(hub: Hub, name: str, principal: Principal) -> dict[str, Any]:
    known = hub.registry.checkpoint.visible(principal)
    name = synonym(name, [capability.server for capability in known])
    for capability in known:
        if capability.server == name:
            return {"server_name": name, "capabilities": await _capabilities(capability, principal)}
    raise NotFound("There is no such server. GET /servers lists them all.")


async def _capabilities(capability: Capability, principal: Principal) -> dict[str, Any]:
    """Describe `capability` as the caller may see it."""
    tools = [
        {"name": operation.tool, "description": operation.summary, "inputSchema": operation.input_schema}
        for operation in capability.operations
        if operation.tool and capability.lists_tools
    ]
    resources: list[dict[str, Any]] = []
    if capability.resources is not None:
        page, _ = await capability.resources.page(Call(principal, "servers"), None)
        resources = [
            {"uri": r.uri, "name": r.name, "description": r.description, "mimeType": r.mime_type}
            for r in page[:MOST_RESOURCES]
        ]
    prompts = [{"name": prompt.name, "description": prompt.description} for prompt in capability.prompts]
    return {"tools": tools, "resources": resources, "prompts": prompts}
