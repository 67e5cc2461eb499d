"""What is kept: collections, documents and projects, each with its SQL; export and import."""
