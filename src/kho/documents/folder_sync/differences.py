"""What a file says otherwise than the document in the store."""

from typing import Any

from kho.documents import model
from kho.documents.folder_sync.document_file import Written, title
from kho.documents.store import Document
from kho.kernel import values


def differences(written: Written, name: str, document: Document, body: str) -> dict[str, Any]:
    """As a patch. Of a file that Kho did not write, only what it says counts: the rest stays as it is."""
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


def stated(written: Written, name: str, before: dict[str, Any] | None = None) -> dict[str, Any]:
    """The metadata. A file that names its document says all of it."""
    if written.id is not None:
        return written.metadata
    return {"title": title(written, name), **(before or {}), **written.metadata}
