"""Real `kho` processes, and clients that talk to them over real sockets."""

import http.client
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson
from tests.timeouts import PATIENCE

KHO = [sys.executable, "-m", "kho"]


def until(condition: Callable[[], object], what: str, *processes: "subprocess.Popen[bytes]") -> None:
    """Waits for it, for as long as the processes run that are to bring it about."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        ended = [process.returncode for process in processes if process.poll() is not None]
        assert not ended, f"who was to bring about {what} ended with {ended}"
        assert time.monotonic() < deadline, f"waited {PATIENCE} s in vain for {what}"
        time.sleep(0.005)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a hub keeps its data."""

    home: Path
    database_url: str | None = None

    def environment(self, **more: str) -> dict[str, str]:
        """This one's, without what the developer may have set for a hub of their own."""
        own = {name: value for name, value in os.environ.items() if not name.startswith(("KHO_", "PROMETHEUS_"))}
        own |= {"KHO_SEARCH__EMBEDDER__PROVIDER": "none"}  # what a process does with the model is tested elsewhere
        own |= {"KHO_TOOLBOX__SEARCH_PROXY": "http://127.0.0.1:9"}  # nobody listens there: no test searches the web
        own |= {"KHO_HOME": str(self.home), "KHO_OBSERVE__LOG_LEVEL": "WARNING", **more}
        return own if self.database_url is None else own | {"KHO_DATABASE_URL": self.database_url}

    def run(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """One command of the command line, to its end."""
        return subprocess.run(
            [*KHO, *arguments], input=stdin, capture_output=True, env=self.environment(), timeout=PATIENCE, check=False
        )


class Hub:
    """`kho serve` on a free port. Leaving the `with` block kills it, if nothing did before."""

    def __init__(self, place: Place, *options: str, program: Sequence[str] = KHO, **environment: str) -> None:
        self._log = place.home.parent / f"serve-{time.monotonic_ns()}.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*program, "serve", "--port", "0", *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=place.environment(**environment),
                start_new_session=True,
            )
        self.port = 0

    @property
    def log(self) -> str:
        return self._log.read_text("utf-8", "replace")

    def ready(self) -> Self:
        """Waits until it answers."""
        until(self._answers, "the hub to answer")
        return self

    def _answers(self) -> bool:
        assert self.process.poll() is None, f"the hub ended with {self.process.returncode}: {self.log}"
        if not self.port:
            found = re.search(r"answers at http://127\.0\.0\.1:(\d+)", self.log)
            self.port = int(found[1]) if found else 0
        if not self.port:
            return False
        try:
            with Client(self.port) as client:
                return client.get("/health")["status"] == "healthy"
        except OSError:
            return False

    def kill(self) -> None:
        """At once, with the workers if it has any: they are in a session of their own."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)

    def terminate(self) -> int:
        """Asks it to stop, and gives back its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.kill()


class Client:
    """One connection, kept open. Raises OSError or HTTPException when the hub goes away."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)

    def get(self, path: str) -> Any:
        return orjson.loads(self.text(path))

    def text(self, path: str) -> bytes:
        self._connection.request("GET", path)
        return self._connection.getresponse().read()

    def post(self, path: str, body: bytes, **headers: str) -> tuple[int, bytes]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._connection.request("POST", path, body, {"Content-Type": "application/json", **named})
        response = self._connection.getresponse()
        return response.status, response.read()

    def act(self, action: str, **payload: Any) -> Any:
        """The data of an action that must succeed."""
        status, answer = self.post("/actions", orjson.dumps({"action": action, "payload": payload}))
        assert status == 200, answer
        return orjson.loads(answer)["result"]["data"]

    def batch(self, calls: Sequence[tuple[str, dict[str, Any]]]) -> list[Any]:
        """The data of many calls that must succeed, a hundred in one request."""
        data: list[Any] = []
        for start in range(0, len(calls), 100):
            requests = [
                {"jsonrpc": "2.0", "id": n, "method": f"experiences-server/{name}", "params": params}
                for n, (name, params) in enumerate(calls[start : start + 100])
            ]
            _, answer = self.post("/jsonrpc", orjson.dumps(requests))
            for reply in orjson.loads(answer):
                assert reply["result"]["success"], reply
                data.append(reply["result"]["data"])
        return data

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
