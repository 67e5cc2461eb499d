"""Storage of collections, documents and projects, each with its SQL; export and import."""
