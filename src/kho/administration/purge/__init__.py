"""Erasing for good: of a tenant, of a person, of what is old."""
