"""Ingest of local files: which may be read, which changed, and jobs that survive a restart."""
