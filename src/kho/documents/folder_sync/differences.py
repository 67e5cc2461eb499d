"""Differences between a file and the document in the store."""

from typing import Any

from kho.documents import model
from kho.documents.folder_sync.document_file import DocumentFile, title
from kho.documents.store import Document
from kho.kernel import values


def differences(written: DocumentFile, name: str, document: Document, body: str) -> dict[str, Any]:
    """The differences as a patch. A file that Kho did not write changes only what it has; the rest stays as it is."""
    version = document.version
    metadata = stated(written, name, version.metadata)
    patch: dict[str, Any] = {}
    content = {
        key: value
        for key, value, now in (("mime_type", written.mime_type, version.mime_type), ("body", written.body, body))
        if value != now
    }
    if content:
        patch["content"] = content
    values.check(metadata)
    if model.Patch.model_validate({"metadata": metadata}).metadata != version.metadata:
        patch["metadata"] = metadata
    if written.is_human_readable not in (None, version.is_human_readable):
        patch["is_human_readable"] = written.is_human_readable
    return patch


def stated(written: DocumentFile, name: str, before: dict[str, Any] | None = None) -> dict[str, Any]:
    """The metadata. A file that names its document says all of it."""
    if written.id is not None:
        return written.metadata
    return {"title": title(written, name), **(before or {}), **written.metadata}
