"""SQLite: the `Database` port on one file, with one writer and a few readers."""
