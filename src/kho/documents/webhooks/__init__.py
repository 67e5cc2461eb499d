"""Webhooks: addresses that Kho notifies of what happens to documents."""
