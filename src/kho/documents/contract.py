"""Contracts of the document operations: one for the tree, one for admins."""

from kho.kernel.contract import Contract

DOCUMENTS = Contract("documents", read_scope="docs:read", write_scope="docs:write", named_by="wire")
ADMIN = Contract("documents", read_scope="admin", write_scope="admin", named_by="wire")
"""Webhooks, and the purge, which cannot be undone. Not for models, so none of these operations is a tool."""
ID = {"document_id": "doc-onboarding"}
"""The document used in all examples."""
DELETED = {"include_deleted": "deleted"}
