"""Receipts: the answer to a write, kept under the caller's request id, so that a retry gets it again."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from kho.kernel.call import Receipt


@dataclass(frozen=True, slots=True)
class Kept:
    digest: str
    """Of the request, to tell a retry from another request under the same id."""
    answer: bytes


class Receipts(Protocol):
    async def find(self, tenant: str, request_id: str) -> Kept | None: ...

    def issue(self, tenant: str, request_id: str, digest: str, render: Callable[[Any], bytes]) -> Receipt:
        """A receipt to put on a Call. Claiming it fails with UniqueViolation if the id is taken."""
        ...
