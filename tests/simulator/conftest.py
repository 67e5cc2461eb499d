"""Virtual boards connect to hubs as those of tests/devices do."""

from tests.devices.conftest import ground, mac, worker, workers

__all__ = ["ground", "mac", "worker", "workers"]
