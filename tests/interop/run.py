"""Other people's MCP clients against the hub: over HTTP at one `kho serve`, over stdio each with a `kho stdio`."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

HERE = Path(__file__).parent
VENV = HERE.parent.parent / ".venv"
NODE = VENV / "node"
BIN = NODE / "node_modules" / ".bin"
KHO = str(VENV / "bin" / "kho")
PATIENCE = 120.0

LEGACY, MODERN = "2025-11-25", "2026-07-28"


@dataclass(frozen=True)
class Client:
    name: str
    command: list[str]
    version: str
    """The protocol version that it and the hub should agree on."""


def clients() -> Iterator[Client]:
    """Each tells the story (see story.py) and prints the version that was agreed on."""
    node = str(BIN / "node")
    yield Client("typescript-sdk-1.32.2", [node, str(NODE / "ts_v1.mjs")], LEGACY)
    yield Client("typescript-client-2.4.0", [node, str(NODE / "ts_v2.mjs"), "default"], LEGACY)
    yield Client("typescript-client-2.4.0-auto", [node, str(NODE / "ts_v2.mjs"), "auto"], MODERN)
    yield Client("python-mcp-1.30.0", [str(VENV / "interop-mcp1/bin/python"), str(HERE / "python_mcp1.py")], LEGACY)
    yield Client("python-fastmcp-4.1.2", [sys.executable, str(HERE / "python_fastmcp.py")], MODERN)


class Failed(Exception):
    """What the client wrote before it failed."""


class Run:
    def __init__(self, work: Path) -> None:
        self._work = work
        self._homes = 0
        self.passed = 0
        self.failed = 0

    def environment(self) -> dict[str, str]:
        """An empty hub of its own, and none of the settings or files of the person who runs this."""
        self._homes += 1
        home = self._work / f"home-{self._homes}"
        home.mkdir()
        ours = {name: value for name, value in os.environ.items() if not name.startswith("KHO_")}
        return {**ours, "HOME": str(home), "KHO_HOME": str(home / "kho"), "KHO_OBSERVE__LOG_LEVEL": "WARNING"}

    def check(self, client: str, transport: str, version: str, work: Callable[[], None]) -> None:
        try:
            work()
        except (Failed, LookupError, ValueError) as failure:
            self.failed += 1
            say(f"FAILED  {client} {transport} {version}\n{failure}")
        else:
            self.passed += 1
            say(f"ok  {client} {transport} {version}")

    def tells_the_story(self, client: Client, transport: str, target: list[str]) -> None:
        def work() -> None:
            agreed = self._output([*client.command, transport, *target]).strip()
            if agreed != client.version:
                raise Failed(f"They agreed on {agreed}.")

        self.check(client.name, transport, client.version, work)

    def finds_nothing(self, transport: str, target: list[str], era: str, version: str) -> None:
        """Inspector looks for schemas that some clients refuse, warnings included."""

        def ask(*options: str) -> dict[str, Any]:
            command = [str(BIN / "node"), str(BIN / "mcp-inspector"), "--cli", *target, "--protocol-era", era]
            return json.loads(self._output([*command, "--format", "json", *options]))

        def work() -> None:
            agreed = ask("--method", "initialize")["result"]["protocolVersion"]
            if agreed != version:
                raise Failed(f"They agreed on {agreed}.")
            listed = ask("--method", "tools/list", "--strict")
            if "schemaFindings" in listed or not listed["result"]["tools"]:
                raise Failed(json.dumps(listed))

        self.check("inspector-2.12.0", transport, version, work)

    def _output(self, command: list[str]) -> str:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env=self.environment(),
            start_new_session=True,  # so that a hub which it started ends with it
        )
        try:
            out, err = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            raise Failed(f"It did not finish in {PATIENCE:.0f} s.\n{out}{err}") from None
        if process.returncode != 0:
            raise Failed(f"It ended with {process.returncode}.\n{out}{err}")
        return out


@contextmanager
def served(environment: dict[str, str], log: Path) -> Generator[str, None, None]:
    """A live `kho serve` on a free port; gives the address of its MCP endpoint."""
    with log.open("w") as errors:
        process = subprocess.Popen([KHO, "serve", "--port", "0"], env=environment, stderr=errors)
    try:
        yield _address(process, log)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    patience = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < patience:
        if found := re.search(r"http://127\.0\.0\.1:\d+", log.read_text()):
            try:
                with urlopen(f"{found[0]}/health", timeout=5):
                    return f"{found[0]}/mcp"
            except URLError:
                pass
        time.sleep(0.1)
    raise SystemExit(f"kho serve did not start.\n{log.read_text()}")


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(work: Path) -> bool:
    run = Run(work)
    for file in (HERE / "story.json", *HERE.glob("*.mjs")):
        shutil.copy(file, NODE)  # beside the packages that they import
    with served(run.environment(), work / "serve.log") as url:
        for client in clients():
            run.tells_the_story(client, "http", [url])
        run.finds_nothing("http", [url], "legacy", LEGACY)
        run.finds_nothing("http", [url], "modern", MODERN)
    for client in clients():
        run.tells_the_story(client, "stdio", [KHO, "stdio"])
    run.finds_nothing("stdio", [KHO, "stdio"], "legacy", LEGACY)
    say(f"{run.passed} passed, {run.failed} failed")
    return run.failed == 0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="kho-interop-") as folder:
        sys.exit(not main(Path(folder)))
