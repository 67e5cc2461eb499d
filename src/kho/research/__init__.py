"""Research collections: folders of papers and notes that are ingested, searched and grouped into projects (contract
004)."""

from kho.kernel.toolset import Instructions
from kho.kernel.vocabulary import Kind

KIND = Kind("research", "kb", "get_kb_document")
INSTRUCTIONS = Instructions(
    "The user's papers, notes and code: ask query_knowledge_base and cite it; add with ingest_documents or "
    "augment_knowledge."
)
"""Instructions for models, read before they choose a tool. Kept in `__init__` so that MCP clients get them without
waiting for the rest of the slice to be imported."""
