"""Backups of a whole store: one file format for both databases, written from a snapshot and loaded as a whole."""
