"""Requests to an index server that the settings name: each with a deadline and a most, and none while it hangs.

The server's own client is for threads, and waits for ever for an answer that comes a byte at a time. So its requests
are carried out on the event loop, where a deadline is for all of an answer and the end of the hub ends them.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import CancelledError

import httpx
import httpx2

from kho.kernel.errors import Unavailable
from kho.lib import safe_http

MAX_ANSWER = 16 * 1024 * 1024
"""Bytes of an answer. The largest that is meant, a few dozen vectors of 4,000 numbers, has some 5 MB."""
IN_A_ROW = 3
"""Requests without an answer in time after which the server is left alone."""
PAUSE = 30.0
"""Seconds for which it is. Then one request tries."""
OVER = "the hub stops"
OWN_HEADERS = frozenset(("host", "connection", "content-length", "transfer-encoding", "accept-encoding"))
"""Those that the one who sends a request writes."""


class IndexServer(httpx.BaseTransport):
    """Bound to the event loop that it is made in."""

    def __init__(self, url: str, timeout: float, ticks: Callable[[], float] = time.monotonic) -> None:
        self._timeout = timeout
        self._ticks = ticks
        self._loop = asyncio.get_running_loop()
        self._client = safe_http.operator_client(url, {}, timeout)
        self._requests: set[asyncio.Task[httpx.Response]] = set()
        self._over = False
        self._late = 0
        """Requests in a row that had no answer in time."""
        self._until = 0.0

    def need(self) -> None:
        """Raise Unavailable while the server hangs. Called on the event loop."""
        if self._late < IN_A_ROW:
            return
        now = self._ticks()
        if now < self._until:
            left = max(1, round(self._until - now))
            raise Unavailable(f"The index server does not answer in time. It is asked again in {left} seconds.")
        self._until = now + PAUSE  # the others wait for what becomes of this one

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Called in a thread."""
        if self._over:
            raise httpx.ReadError(OVER)
        try:
            return asyncio.run_coroutine_threadsafe(self._begun(request), self._loop).result()
        except CancelledError:  # an error of the thread, which must not look like an end of who waits for it
            raise httpx.ReadError(OVER) from None

    async def aclose(self) -> None:
        """End the requests under way, and refuse others."""
        self._over = True
        for one in self._requests:
            one.cancel()
        await self._client.aclose()

    async def _begun(self, request: httpx.Request) -> httpx.Response:
        task = asyncio.current_task()
        assert task is not None
        self._requests.add(task)
        try:
            return await self._answer(request)
        finally:
            self._requests.discard(task)

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        headers = {name: value for name, value in request.headers.items() if name not in OWN_HEADERS}
        body = request.read()
        try:
            response, content = await safe_http.ask_operator(
                self._client, request.method, str(request.url), body, headers, seconds=self._timeout, most=MAX_ANSWER
            )
        except (TimeoutError, httpx2.TimeoutException):
            self._late += 1
            if self._late == IN_A_ROW:
                self._until = self._ticks() + PAUSE
            raise httpx.ReadTimeout(f"its answer did not end within {self._timeout:g} s") from None
        self._late = 0
        kept = {name: response.headers[name] for name in ("content-type", "retry-after") if name in response.headers}
        return httpx.Response(response.status_code, headers=kept, content=content)
