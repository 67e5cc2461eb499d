"""What goes wrong with facts, each with what to do about it."""

from typing import Any

from kho.facts.store import Fact
from kho.kernel.errors import Conflict, NotFound
from kho.kernel.hints import Hint, Op


class UnknownFact(NotFound):
    """There is no fact with that id."""

    guidance = Hint("Find it with ", Op("list_facts"), ".")


def forgotten(id: str) -> UnknownFact:
    return UnknownFact(
        "That fact was forgotten.", guidance=Hint("Bring it back with ", Op("restore_fact", id=id), " first.")
    )


def replaced(id: str, newer: Fact | None) -> Conflict:
    """`newer` is what counts now; None if it is not in this store, as after the import of a part."""
    if newer is None:
        return Conflict("That fact was replaced by another one, which is not here.", id=id)
    return Conflict(
        f"That fact was replaced. What counts now is: {newer.text}",
        guidance=f"Use the newer one, {newer.id}, if that is what you mean.",
        newer=_shown(newer),
    )


def equal(other: Fact) -> Conflict:
    """The words that an update wants are those of another fact."""
    return Conflict(
        "Another fact says exactly that already.",
        guidance=Hint("Keep one of them: ", Op("forget", id=other.id), " removes the other."),
        other=_shown(other),
    )


def _shown(fact: Fact) -> dict[str, Any]:
    return {"id": fact.id, "text": fact.text}
