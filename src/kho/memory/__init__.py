"""Conversation memory: stored messages, a rolling summary, and search over all of them (contract 002)."""
