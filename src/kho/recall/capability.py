"""Wiring of recall into the hub. Which slices it reads is known once all are open."""

from collections.abc import Sequence
from dataclasses import replace

from kho.kernel.capability import Capability
from kho.kernel.checkpoint import search_scope
from kho.recall import INSTRUCTIONS
from kho.recall.service import RECALL, RecallService
from kho.search.core import Core


def described(service: RecallService | type[RecallService] = RecallService) -> Capability:
    """Return the description and operations; with the class instead of an instance they serve help texts."""
    return Capability(
        RECALL.capability,
        "recall-server",
        RECALL.bind(service),
        "Search, fetch and recent: one search over everything.",
        instructions=INSTRUCTIONS,
    )


def capability(core: Core, slices: Sequence[Capability], address: str) -> Capability:
    """Wire the slice. `slices` are the enabled ones, read at each call; `address` is where callers reach the hub."""
    service = RecallService(db=core.db, searcher=core.searcher, slices=slices, address=address)
    return replace(described(service), finish=finished)


def finished(own: Capability, slices: Sequence[Capability]) -> Capability:
    """The scope of any kind is enough to call it: results are then limited to the kinds that the caller may read."""
    scope = search_scope(slices)
    return replace(own, operations=tuple(replace(operation, scope=scope) for operation in own.operations))
