"""Ends a worker whose supervisor is gone. One that is killed cannot tell its workers, and they would hold the port."""

import multiprocessing
import os
import signal
from threading import Thread


def end_with_supervisor() -> None:
    """Stop this process, as for SIGTERM, once the one that started it as a worker has ended."""
    supervisor = multiprocessing.parent_process()
    if supervisor is None:
        return

    def wait() -> None:
        supervisor.join()
        os.kill(os.getpid(), signal.SIGTERM)

    Thread(target=wait, daemon=True, name="supervision").start()
