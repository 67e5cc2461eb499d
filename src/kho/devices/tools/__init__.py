"""Tools of boards as models know them: names, schemas, and what changed since they were approved."""
