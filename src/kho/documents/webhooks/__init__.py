"""Webhooks: addresses that Kho notifies of changes to documents."""
