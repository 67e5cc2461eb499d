"""From found passages to an answer with citations, and to highlighted snippets."""
