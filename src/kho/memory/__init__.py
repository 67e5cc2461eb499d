"""Conversation memory: messages that stay, a summary that grows with them, and search over all of it (contract 002)."""
