"""Experience records: problem, cause, solution; ranked by relevance, use and freshness (contract 003)."""

from kho.kernel.toolset import Instructions
from kho.kernel.vocabulary import Kind

KIND = Kind("experience", "exp", "get_experience")
INSTRUCTIONS = Instructions(
    "Before solving a problem, call query_experiences; after solving one, offer submit_experience."
)
"""MCP instructions for models. Kept in this light module, so that a starting hub can answer its client before it loads
the slice."""
