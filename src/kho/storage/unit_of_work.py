"""Running a piece of work to its end, and carrying what it raised from one thread to another."""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Protocol, Self, TypeVar

from kho.kernel import errors
from kho.kernel.ports import Tx

T = TypeVar("T")


class FinishableTx(Tx, Protocol):
    """A transaction as whoever commits it sees it."""

    failure: errors.KhoError | None
    """Why the transaction is lost, if a statement failed; the work may have looked away."""

    def end(self) -> None: ...


def finish(work: Callable[[Tx], T], tx: FinishableTx) -> T:
    """The work's value, if the transaction is fit to be committed."""
    try:
        value = work(tx)
        if tx.failure is not None:
            raise tx.failure
        return value
    except StopIteration as error:
        # A future does not accept it, and its waiter would hang.
        raise RuntimeError("The work raised StopIteration.") from error
    finally:
        tx.end()


async def within(timeout: float | None, work: Awaitable[T]) -> T:
    """The work's value, or `errors.Timeout` after so many seconds. A timeout inside of the work stays what it is."""
    deadline = asyncio.timeout(timeout)
    try:
        async with deadline:
            return await work
    except TimeoutError as error:
        if not deadline.expired():
            raise
        raise errors.Timeout() from error


class CapturedError:
    """A `with` block whose exception is kept for the caller in another thread instead of going further up."""

    error: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.error = error
        return True
