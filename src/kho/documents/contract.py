"""The contracts of documents: the tree itself, and what only an admin may do."""

from kho.kernel.contract import Contract

DOCUMENTS = Contract("documents", read_scope="docs:read", write_scope="docs:write", named_by="wire")
ADMIN = Contract("documents", read_scope="admin", write_scope="admin", named_by="wire")
"""Webhooks, and the one deletion that cannot be undone. Models have no business there, so none of them is a tool."""
ID = {"document_id": "doc-onboarding"}
"""The document of all examples."""
DELETED = {"include_deleted": "deleted"}
