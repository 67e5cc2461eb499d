"""Tools of boards as offered to models: names, schemas, and changes since approval."""
