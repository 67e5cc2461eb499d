"""Virtual boards: they speak to a hub as firmware does, over its doors, and know nothing else of it."""
