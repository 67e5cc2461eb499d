"""Runs a unit of work to its end, and passes its exception from one thread to another."""

from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self, TypeVar

from kho.kernel import Tx, errors

T = TypeVar("T")


class FinishableTx(Tx, Protocol):
    """A transaction as seen by the code that commits it."""

    failure: errors.KhoError | None
    """Why the transaction is lost, if a statement failed; the work may have swallowed the exception."""

    def end(self) -> None: ...


def finish(work: Callable[[Tx], T], tx: FinishableTx) -> T:
    """Run the work and return its value, if the transaction can be committed; else raise."""
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


class CapturedError:
    """Context manager that stores an exception, for a caller in another thread, instead of raising it."""

    error: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.error = error
        return True
