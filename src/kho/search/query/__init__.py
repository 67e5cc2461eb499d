"""Hybrid search: from a question to a ranked list of passages."""
