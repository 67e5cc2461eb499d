"""Experience records: problem, cause, solution; ranked by relevance, use and freshness (contract 003)."""
