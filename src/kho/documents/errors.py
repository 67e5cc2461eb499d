"""Errors of documents. A class docstring is the default message sent to the caller."""

from typing import Any

from kho.kernel import Arg, Hint, Op, errors


class UnknownDocument(errors.NotFound):
    """There is no such document, or it is not yours."""

    guidance = Hint(
        Op("list_documents"), " shows which there are; a deleted one comes back with ", Op("restore_document"), "."
    )


class UnknownParent(errors.NotFound):
    """The parent does not exist or is deleted."""

    guidance = "Name a document that exists, or 'root' for the top of the tree."


class UnknownRevision(errors.NotFound):
    """The document has no such revision."""

    guidance = Hint(Op("document_history"), " lists its revisions.")


class UnknownWebhook(errors.NotFound):
    """There is no such webhook."""


class IdTaken(errors.Conflict):
    """A document with this id exists already."""

    guidance = Hint(
        "Take another document_id or leave it out; to change the document that is there, call ",
        Op("update_document"),
        ".",
    )


class IdOfDeleted(IdTaken):
    """A deleted document has this id, which stays taken."""

    guidance = Hint("Bring that document back with ", Op("restore_document"), ", or take another document_id.")


class Deleted(errors.Conflict):
    """The document is deleted."""

    guidance = Hint("Bring it back with ", Op("restore_document"), " first.")


class NotDeleted(errors.Conflict):
    """The document is not deleted."""

    guidance = Hint(
        "There is nothing to restore. To go back to what it said before, call ", Op("restore_revision"), "."
    )


class NotPurgeable(errors.Conflict):
    """Only a deleted document can be purged."""

    guidance = Hint("Delete it first with ", Op("delete_document"), ": that can be undone, a purge cannot.")


class BelowDeleted(errors.Conflict):
    """The document stands below one that is deleted."""


class Stale(errors.Conflict):
    """The document has changed since the revision you know."""

    guidance = Hint(
        "Read it again with ",
        Op("get_document"),
        ", apply your change to what it says now, and send the new revision.",
    )

    def __init__(self, *, expected: int, actual: int, **details: Any) -> None:
        super().__init__(
            f"The document is at revision {actual}, not {expected}: it has changed meanwhile.",
            expected_revision=expected,
            actual_revision=actual,
            **details,
        )


class Cycle(errors.InvalidParams):
    """A document cannot be moved below itself."""

    guidance = "Choose a parent that is not below the document."


class TooDeep(errors.InvalidParams):
    """The tree would become too deep."""


class WrongMask(errors.InvalidParams):
    """The update_mask does not fit the patch."""


class NotOnce(errors.InvalidParams):
    """The text to replace must occur exactly once."""


class ForeignTenant(errors.Forbidden):
    """filters.tenant_id is not the caller's tenant. Leave it out: a query never leaves it."""


class NotTheMachinesUser(errors.Forbidden):
    """Only this machine's own user can export to a folder or import from one."""


class WouldOverwrite(errors.Conflict):
    """Files in the folder would be lost."""

    guidance = Hint("Import them first, move them away, or give ", Arg("overwrite", True), " to replace them.")


class NotAllImported(errors.InvalidParams):
    """Some files could not be imported; all others were."""

    guidance = "Fix the files that are named and import the folder again: what was imported already is left as it is."
