"""Virtual boards: they talk to a hub as firmware does, through its doors, and know nothing else of it."""
