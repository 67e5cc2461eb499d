"""The shared retrieval library."""
