"""Documents into both indexes: passages, words, vectors, and keeping them up to date."""
