"""The `Vectors` port on each engine: SQLite, PostgreSQL (pgvector) and Qdrant."""
