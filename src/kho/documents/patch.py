"""Apply a patch with an optional update_mask to a document."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kho.documents.errors import WrongMask
from kho.documents.model import PLAIN, Patch, check_json, is_too_large
from kho.documents.store import DocumentVersion

PATHS = ("content", "content.body", "content.mime_type", "metadata", *PLAIN)
_KEY = "metadata."


def check(patch: Patch, mask: Sequence[str] | None) -> None:
    """Raise WrongMask if the mask names unknown or missing parts of the patch, or if the patch is empty."""
    if mask is None:
        if all(_missing(patch, part) for part in Patch.model_fields):
            raise WrongMask("'patch' is empty: say what to change.", field="patch")
        return
    if not mask:
        raise WrongMask("'update_mask' is empty. Leave it out to apply the whole patch.", field="update_mask")
    known = f"{', '.join(PATHS)} and {_KEY}KEY"
    for path in mask:
        if path not in PATHS and not (path.startswith(_KEY) and len(path) > len(_KEY)):
            raise WrongMask(f"'update_mask' names '{path}', which is none of {known}.", field="update_mask")
        if _missing(patch, path):
            raise WrongMask(f"'update_mask' names '{path}', but 'patch' does not have it.", field="update_mask")


def patched(
    before: DocumentVersion, patch: Patch, mask: Sequence[str] | None, body: str
) -> tuple[DocumentVersion, str | None]:
    """Return the patched version, and the new body or None if it is unchanged. `body` is the current one."""
    paths = set(mask) if mask is not None else patch.model_fields_set
    version, new = before, None
    if patch.content is not None:
        whole = "content" in paths
        if patch.content.mime_type is not None and (whole or "content.mime_type" in paths):
            version = replace(version, mime_type=patch.content.mime_type)
        if patch.content.body not in (None, body) and (whole or "content.body" in paths):
            new = patch.content.body
    if patch.metadata is not None and "metadata" in paths:
        version = replace(version, metadata=patch.metadata)
    keys = [path.removeprefix(_KEY) for path in paths if path.startswith(_KEY)]
    if keys:
        for key in keys:
            if key not in version.metadata and key not in (patch.metadata or {}):
                raise WrongMask(
                    f"'update_mask' names '{_KEY}{key}', which neither the patch nor the document has.",
                    field="update_mask",
                )
        merged = _merged(version.metadata, patch.metadata or {}, keys)
        if is_too_large(merged):
            raise WrongMask(
                "'patch.metadata': with what the document has already, it is more than 64 KiB of JSON. Remove a key.",
                field="patch.metadata",
            )
        version = replace(version, metadata=merged)
    plain = {name: getattr(patch, name) for name in PLAIN if name in paths and not _missing(patch, name)}
    version = replace(version, **plain)
    if new is not None or version.mime_type != before.mime_type:
        check_json(version.mime_type, body if new is None else new)
    return version, new


def _merged(metadata: dict[str, Any], patch: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    kept = {key: value for key, value in metadata.items() if key not in keys}
    return kept | {key: patch[key] for key in keys if key in patch}


def _missing(patch: Patch, path: str) -> bool:
    if path.startswith(_KEY):
        return False  # a key that the patch lacks is removed
    if path == "content":
        return _missing(patch, "content.body") and _missing(patch, "content.mime_type")
    value: Any = patch
    for name in path.split("."):
        value = None if value is None else getattr(value, name)
    return value is None
