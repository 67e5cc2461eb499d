"""Where the rows live: SQLite and PostgreSQL behind the same ports, their migrations and word indexes."""
