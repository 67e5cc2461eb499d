"""Documents: one tree per tenant, revisions, optimistic locking, soft delete and answered questions (contract 000)."""

from kho.kernel.toolset import Instructions
from kho.kernel.vocabulary import Kind

KIND = Kind("document", "doc", "get_document")
INSTRUCTIONS = Instructions(
    "The team's documents: ask query_knowledge, and send last_known_revision when you change one."
)
"""MCP instructions for models. Kept in this light module, so that a starting hub can answer its client before it loads
the slice."""
