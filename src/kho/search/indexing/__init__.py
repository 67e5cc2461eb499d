"""Indexing of documents: passages, words, vectors, and keeping them up to date."""
