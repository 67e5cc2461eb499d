"""Params of `audit_log`. Its results are in `kernel/audit.py`, which documents use for their part of the trail, too."""

from typing import Annotated

from pydantic import Field

from kho.kernel.audit import AuditFilters, Outcome
from kho.kernel.params import Id, of_kind


class AuditLog(AuditFilters):
    slice: Annotated[
        str | None, Field(max_length=64, description="Only of this part of Kho, e.g. documents, memory, devices.")
    ] = None
    subject: Annotated[
        str | None, Field(max_length=512, description="Only about this: the id of a document, conversation, device …")
    ] = None
    document_id: Annotated[
        Annotated[Id, of_kind("doc")] | None,
        Field(description="Only about this document: the same as subject, with slice 'documents'."),
    ] = None
    outcome: Annotated[
        Outcome | None, Field(description="'done': it changed something; 'refused': the credential did not allow it.")
    ] = None
