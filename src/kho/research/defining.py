"""How the operations of research are defined: one name on all wires, who may use them, and for how long."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from kho.kernel.call import Call
from kho.kernel.errors import Timeout
from kho.kernel.operation import Operation
from kho.research import model
from kho.research.augment import Augment
from kho.research.collections import Collections
from kho.research.documents import Documents
from kho.research.feedback import Feedback
from kho.research.history import History
from kho.research.ingest import Ingest
from kho.research.limits import Limits
from kho.research.projects import Projects
from kho.research.queries import Queries
from kho.research.transfer import Transfer

READ, WRITE = "research:read", "research:write"
LOOKS_ONLY = ("list", "info", "detect")
"""Actions that change nothing, for which the right to read is enough."""
LENGTHY = ("delete", "move-documents")
"""Actions that take as long as the collection is large."""

Run = Callable[[Any, Call], Awaitable[Any]]
SOME_ID = "550e8400-e29b-41d4-a716-446655440000"


@dataclass(frozen=True, slots=True)
class Services:
    queries: Queries
    collections: Collections
    projects: Projects
    ingest: Ingest
    augment: Augment
    documents: Documents
    transfer: Transfer
    feedback: Feedback
    history: History
    limits: Limits


def define(*, wire: str, tool: bool = False, **rest: Any) -> Operation:
    """One name on all wires, and the contract's errors and Markdown."""
    named = {"tool": wire if tool else None, "rpc": wire, "action": wire}
    return Operation(**named, protocol_errors=True, markdown=True, **rest)


def within(seconds: float, run: Run) -> Run:
    """Gives up after so many seconds, or at the caller's own deadline if that is nearer."""

    async def bounded(params: Any, call: Call) -> Any:
        left = call.remaining(seconds)
        call.deadline = time.monotonic() + left
        try:
            async with asyncio.timeout(left):
                return await run(params, call)
        except TimeoutError:
            raise Timeout(guidance="Look whether a change was made after all, then try again.") from None

    return bounded


def acting(limits: Limits, run: Run) -> Run:
    """For what has an `action`: some only look, and some take their time."""
    shortly = within(limits.simple_timeout, run)

    async def act(params: model.ManageCollections | model.ManageProjects, call: Call) -> Any:
        if params.action not in LOOKS_ONLY:
            call.need(WRITE)
        return await (run if params.action in LENGTHY else shortly)(params, call)

    return act
