"""Hybrid search: from a query to a ranked list of passages."""
