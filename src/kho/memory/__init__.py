"""Conversation memory: stored messages, a rolling summary, and search over all of them (contract 002)."""

from kho.kernel.vocabulary import Kind

KIND = Kind("message", "msg", "fetch")
