"""The web server of `kho serve`."""

import os
import tempfile

import uvicorn

from kho.doors.http.uvicorn_protocols import GuardedProtocol, guarded_protocol
from kho.lib.open_files import make_room

CONNECTIONS = 20_000
"""Clients and boards that a hub has room for, as far as the system lets it."""


def run(
    asgi: str, host: str, port: int, workers: int, reload: bool, *, header_timeout: float, body_timeout: float
) -> None:
    """`asgi` is where a worker process finds the application."""
    make_room(CONNECTIONS)
    if workers == 1 and not reload:
        protocol = guarded_protocol(header_timeout, body_timeout)
    else:
        protocol = GuardedProtocol  # workers are spawned: what they are given must have a name
        os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", tempfile.mkdtemp(prefix="kho-metrics-"))
    uvicorn.run(
        asgi,
        host=host,
        port=port,
        workers=None if reload else workers,
        reload=reload,
        http=protocol,
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=10,
    )
