"""Kho: one hub that gives agents, chatbots and small devices a shared, lasting memory."""

__version__ = "0.1.0"
