"""Calls of devices' tools: what is asked, what came of it, what waits for a device that is away."""
