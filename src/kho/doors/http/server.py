"""The web server of `kho serve`."""

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Sequence
from importlib import import_module

import uvicorn

from kho.doors.http.uvicorn_protocols import guarded_protocol
from kho.lib.open_files import make_room

CONNECTIONS = 20_000
"""Number of clients and boards to reserve file descriptors for, as far as the system allows."""

HUNG = 60
"""Seconds without a health-check answer after which a worker is killed and replaced. uvicorn's default of 5 killed
workers that a busy machine was still starting, and their successors, so that a hub could take minutes to answer."""


def run(
    asgi: str,
    host: str,
    port: int,
    workers: int,
    reload: bool,
    *,
    tls: tuple[str, str] | None,
    modules: Sequence[str],
    trusted_proxies: Sequence[str],
    header_timeout: float,
    body_timeout: float,
) -> None:
    """Run uvicorn. `asgi` is where a worker process finds the application; `modules` are the modules that it
    imports; `tls` are the files of a certificate and of its key. Only `trusted_proxies` can say that a request comes
    from another address than its connection: uvicorn believes every program of this machine by default."""
    make_room(CONNECTIONS)
    certificate, private_key = tls or (None, None)
    if workers > 1 or reload:
        os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", tempfile.mkdtemp(prefix="kho-metrics-"))
        if not reload:
            _fork_workers(modules)
    uvicorn.run(
        asgi,
        host=host,
        port=port,
        workers=None if reload else workers,
        reload=reload,
        http=guarded_protocol(header_timeout, body_timeout),
        proxy_headers=bool(trusted_proxies),
        forwarded_allow_ips=list(trusted_proxies),
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=10,
        timeout_worker_healthcheck=HUNG,
        ssl_certfile=certificate,
        ssl_keyfile=private_key,
    )


def _fork_workers(modules: Sequence[str]) -> None:
    """Make workers forks of a process that has imported everything and opened nothing.

    uvicorn starts a new interpreter for each worker, which takes 1.3 s of CPU time, nearly all of it for imports; a
    fork takes 0.1 s. Not used with `--reload`, whose workers must import changed source. Linux only: elsewhere the
    system's own libraries may not survive a fork.
    """
    if sys.platform == "linux":
        multiprocessing.set_forkserver_preload(["uvicorn.main", __name__, *modules])
        vars(import_module("uvicorn._subprocess"))["spawn"] = multiprocessing.get_context("forkserver")
