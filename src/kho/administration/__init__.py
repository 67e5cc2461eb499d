"""Administration of a hub: its keys, tenants and settings, for those who may do that."""
