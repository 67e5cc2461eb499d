"""Calls of devices' tools: arguments, outcomes, log, and the queue for devices that are offline."""
