"""Queries: scope, order of results, refinement hints, feedback and history."""
