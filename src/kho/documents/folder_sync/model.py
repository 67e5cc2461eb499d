"""Parameters and results of `kho docs export` and `kho docs import`."""

from typing import Annotated

from pydantic import Field

from kho.documents.model import ROOT, AnyDocument
from kho.kernel.params import Params, Result

Directory = Annotated[str, Field(min_length=1, description="The folder.")]


class ExportDocuments(Params):
    directory: Directory
    parent_id: Annotated[AnyDocument, Field(description="Export what is below this document; 'root' for all.")] = ROOT
    overwrite: Annotated[
        bool, Field(description="Also overwrite files that no export wrote, or that were changed since.")
    ] = False


class ImportDocuments(Params):
    directory: Directory
    parent_id: Annotated[AnyDocument, Field(description="The document to import them below, or 'root'.")] = ROOT
    prune: Annotated[bool, Field(description="Delete what is below the parent and not in the folder.")] = False
    dry_run: Annotated[bool, Field(description="Only say what would be done.")] = False


class ExportedFolder(Result):
    directory: str
    documents: int
    written: int = Field(description="Files that are new or changed.")
    unchanged: int
    removed: int = Field(description="Files of an earlier export whose documents are gone.")


class ImportCounts(Result):
    created: int = 0
    updated: int = 0
    renamed: int = 0
    moved: int = 0
    restored: int = 0
    deleted: int = 0
    unchanged: int = 0
    ignored: int = Field(default=0, description="Files of other kinds.")


class FileChange(Result):
    path: str
    document_id: str
    done: list[str]


class Gone(Result):
    path: str
    document_id: str


class FailedFile(Result):
    path: str
    reason: str


class ImportedFolder(Result):
    counts: ImportCounts
    changes: list[FileChange]
    gone: list[Gone] | None = Field(
        default=None,
        description="Documents that were imported from the folder before and whose files are gone or another's now.",
    )
    dry_run: bool | None = None
    notes: list[str] | None = None
