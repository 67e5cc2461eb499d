"""Documents: a tenanted tree with revisions, optimistic locking, soft delete and answered questions (contract 000)."""
