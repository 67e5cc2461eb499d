"""SQLite and PostgreSQL behind the same ports, with migrations, word and vector indexes, leases, keys and receipts."""
