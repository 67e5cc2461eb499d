"""The mark of a store's schema: one row in the table of migrations, renewed whenever Kho's own migrations are applied.

A process remembers the mark that it found when it opened the store, and every write compares: one that still runs when
another version has brought the store up to date must not write what it knows by what it remembers of the tables.
"""

OWNER = "kho"
"""Stands where the rows of migrations have the name of their slice; the row's number is 0."""
READ = f"SELECT sha256 FROM migrations WHERE slice = '{OWNER}' AND number = 0"
