"""HTTP client for model servers: retries a busy one, reports a broken one in plain words, never quotes the key."""

import asyncio
import random
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import field
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import orjson

from kho.kernel.errors import KhoError, Unavailable
from kho.lib.dataclass import dataclass
from kho.lib.lazy_module import lazy

if TYPE_CHECKING:
    import httpx2

    from kho.lib import safe_http
else:
    (safe_http,) = lazy("kho.lib.safe_http")

T = TypeVar("T")

RETRIED_STATUSES = {408, 409, 425, 429, 500, 502, 503, 504, 529}
MAX_BACKOFF = 30.0
"""If a server asks for a longer pause, the request fails; the embedding queue retries later."""
MAX_ANSWER = 32 * 1024 * 1024
"""Bytes of an answer, unpacked. The largest that is meant, of 64 vectors of 4,096 numbers, has some 6 MB."""
QUOTED_STATUSES = {400, 404, 413, 422}
"""For these the server's own message helps (unknown model, text too long). In others it may quote the rejected key."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    timeout: float = 30.0
    """Timeout of one request, in seconds."""
    attempts: int = 4
    backoff: float = 0.5
    """Seconds before the second attempt, doubled each time. The actual pause is random, up to that."""


@dataclass
class ModelClient:
    url: str
    api_key: str = field(default="", repr=False)
    patience: RetryPolicy = field(default_factory=RetryPolicy)
    _client: "httpx2.AsyncClient | None" = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise KhoError("The address of a model server must begin with http:// or https://.")
        self._host = parts.hostname
        """Server name for messages. The URL may contain a password."""
        self._place = parts.netloc.rpartition("@")[2]
        """Same with the port: several servers may run on one machine."""
        self.api_key = self.api_key.strip()
        if not (self.api_key.isascii() and self.api_key.isprintable()):
            raise KhoError("The API key of the model server holds characters that cannot be sent.")

    async def post(
        self, path: str, body: Mapping[str, Any], read: Callable[[Any], T], *, attempts: int | None = None
    ) -> T:
        """Post JSON and pass the answer to `read` in a thread, since it may be large. If `read` raises `Unavailable`,
        the request is not retried."""
        import httpx2

        attempts = attempts or self.patience.attempts
        content = await asyncio.to_thread(orjson.dumps, body)
        for attempt in range(1, attempts + 1):
            pause = random.uniform(0, self.patience.backoff * 2 ** (attempt - 1))
            try:
                response, answer = await self._ask(path, content)
            except httpx2.TransportError as problem:
                trouble = f"{self._place} cannot be reached ({type(problem).__name__})"
            except (httpx2.RequestError, httpx2.InvalidURL) as problem:
                raise Unavailable(f"{self._host} cannot be asked ({type(problem).__name__})") from None
            except TimeoutError:
                trouble = f"{self._place} did not end its answer within {self.patience.timeout:g} s"
            else:
                if response.is_success:
                    return await asyncio.to_thread(self._parse, answer, read)
                trouble = self._complaint(response.status_code, answer)
                if response.status_code not in RETRIED_STATUSES:
                    raise Unavailable(trouble)
                pause = max(pause, _retry_after(response.headers.get("retry-after", "")))
            if attempt == attempts or pause > MAX_BACKOFF:
                raise Unavailable(trouble)
            await asyncio.sleep(pause)
        raise AssertionError("at least one attempt is made")

    async def _ask(self, path: str, content: bytes) -> "tuple[httpx2.Response, bytes]":
        url, seconds = self.url.rstrip("/") + path, self.patience.timeout
        try:
            return await safe_http.ask_operator(self._http(), "POST", url, content, seconds=seconds, most=MAX_ANSWER)
        except safe_http.TooLarge:
            raise Unavailable(f"{self._host} sent more than {MAX_ANSWER // (1024 * 1024)} MiB") from None
        except safe_http.Unreachable as problem:
            raise Unavailable(f"{self._host} cannot be read: {problem}") from None

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    def _http(self) -> "httpx2.AsyncClient":
        if self._client is None:
            headers = {"content-type": "application/json"}
            if self.api_key:
                headers["authorization"] = f"Bearer {self.api_key}"
            self._client = safe_http.operator_client(self.url, headers, self.patience.timeout)
        return self._client

    def _parse(self, content: bytes, read: Callable[[Any], T]) -> T:
        try:
            answer = orjson.loads(content)
        except orjson.JSONDecodeError:
            raise Unavailable(f"{self._host} did not answer in JSON") from None
        try:
            return read(answer)
        except (KeyError, TypeError, ValueError, IndexError):
            raise Unavailable(f"{self._host} answered in an unknown form") from None

    def _complaint(self, status: int, answer: bytes) -> str:
        trouble = f"{self._host} answered {status}"
        if status in {401, 403}:
            return f"{trouble}: the key is missing or not accepted"
        if status in QUOTED_STATUSES:
            words = " ".join(answer[:1200].decode(errors="replace")[:300].split())
            return f"{trouble}: {words.replace(self.api_key, '…') if self.api_key else words}"
        return trouble


async def gather_all(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return all results in order. The first failure cancels the others and is raised unchanged."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _retry_after(value: str) -> float:
    """Parse seconds or a date; 0 for anything else."""
    if not value:
        return 0.0
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return 0.0
