"""Documents as callers see them."""

from collections.abc import Mapping, Sequence
from difflib import unified_diff
from typing import Any

import orjson

from kho.documents import results, store, tree
from kho.documents.deleting import due_at
from kho.documents.store import Document, Revision, Saying
from kho.kernel.ports import Tx
from kho.lib.clock import iso


def summaries(tx: Tx, tenant: str, documents: Sequence[Document], depths: Mapping[str, int]) -> list[results.Summary]:
    facts = _facts(tx, tenant, documents)
    return [results.Summary(**facts[one.id], depth=depths[one.id]) for one in documents]


def whole(tx: Tx, tenant: str, documents: Sequence[Document]) -> list[results.Document]:
    facts = _facts(tx, tenant, documents)
    return [
        results.Document(
            **facts[one.id],
            content=results.Content(
                mime_type=one.saying.mime_type, body=store.body(tx, tenant, one.id, one.saying.body_of)
            ),
            path=tree.above(tx, tenant, one.id)[::-1],
        )
        for one in documents
    ]


def _facts(tx: Tx, tenant: str, documents: Sequence[Document]) -> dict[str, dict[str, Any]]:
    if not documents:
        return {}
    ids = [one.id for one in documents]
    orderings = tree.orderings(tx, tenant, documents)
    children = tree.children(tx, tenant, ids)
    due = due_at(tx, tenant, [one.id for one in documents if not one.deleted])
    return {
        one.id: {
            "document_id": one.id,
            "parent_id": one.parent,
            "ordering": orderings.get(one.id),
            "revision": one.revision,
            "mime_type": one.saying.mime_type,
            "metadata": one.saying.metadata,
            "is_human_readable": one.saying.is_human_readable,
            "children": children.get(one.id, 0),
            "created_at": iso(one.created_at),
            "updated_at": iso(one.updated_at),
            "deleted": one.deleted,
            "deleted_at": None if one.deleted_at is None else iso(one.deleted_at),
            "delete_at": iso(due[one.id]) if one.id in due else None,
        }
        for one in documents
    }


def revision(one: Revision, before: Revision | None) -> results.Revision:
    """`before` is the revision that it followed: none before the first."""
    return results.Revision(
        revision=one.revision,
        change=one.change,
        made_by=one.made_by,
        made_at=iso(one.made_at),
        mime_type=one.saying.mime_type,
        metadata=one.saying.metadata,
        is_human_readable=one.saying.is_human_readable,
        body_changed=before is None or one.saying.body_of != before.saying.body_of,
    )


def difference(id: str, old: Revision, new: Revision, before: str, after: str) -> results.Difference:
    was, is_ = old.saying, new.saying
    keys = [key for key in {**was.metadata, **is_.metadata} if _json(was, key) != _json(is_, key)]
    return results.Difference(
        document_id=id,
        from_revision=old.revision,
        to_revision=new.revision,
        body=_diff(before, after, old.revision, new.revision),
        metadata={key: {"from": was.metadata.get(key), "to": is_.metadata.get(key)} for key in keys},
        mime_type=None if was.mime_type == is_.mime_type else {"from": was.mime_type, "to": is_.mime_type},
        is_human_readable=None
        if was.is_human_readable == is_.is_human_readable
        else {"from": was.is_human_readable, "to": is_.is_human_readable},
    )


def _json(saying: Saying, key: str) -> bytes:
    """To Python 1, 1.0 and True are equal; in JSON they are not."""
    return orjson.dumps(saying.metadata.get(key), option=orjson.OPT_SORT_KEYS)


def _diff(before: str, after: str, old: int, new: int) -> str:
    marked = before.endswith("\n") != after.endswith("\n")
    lines = unified_diff(
        _lines(before, marked), _lines(after, marked), f"revision {old}", f"revision {new}", lineterm="", n=3
    )
    return "\n".join(lines)


def _lines(body: str, marked: bool) -> list[str]:
    """Split where `diff` and `git` split, and `marked` as they do where only one of two bodies ends its last line."""
    *lines, last = body.split("\n")
    return [*lines, f"{last}\n\\ No newline at end of file" if marked else last] if last else lines
