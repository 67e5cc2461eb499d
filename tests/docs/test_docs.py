"""The documentation does what it says: every code block of README.md and docs/ is run.

- `bash`, `sh` and `python` blocks must end with status 0; each is a process of its own. They run in the page's order,
  in one empty folder that is also $HOME, with a fresh KHO_HOME.
- `console` blocks are `$ command` lines with the output below; there `...` stands for any text, alone for any lines, and `<id>`,
  `<time>` and `<number>` for what differs from run to run.
- `json` blocks must parse.
- `<!-- test: serve -->` in a page's first line starts a hub for it; 127.0.0.1:8001 then means that one.
- `<!-- test: skip, reason -->` before a block leaves it out.
"""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token
from tests.timeouts import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
RUN = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINKED = sorted({*ROOT.glob("*.md"), *RUN})
ADDRESS = re.compile(r"(127\.0\.0\.1|localhost):8001")
RUNNABLE = ("bash", "sh", "python", "console", "json")
SHOWN = ("text", "toml", "yaml", "ini", "sql", "http", "typescript", "javascript", "cpp", "diff", "mermaid")
STANDS_FOR = {
    "<id>": r"[A-Za-z0-9._:/-]+",
    "<time>": r"\d{4}-\d\d-\d\dT[\d:.]+Z",
    "<number>": r"\d+(\.\d+)?",
    "...": ".*",
}


@dataclass(frozen=True)
class Block:
    line: int
    language: str
    text: str
    skipped: bool = False


def blocks(page: str) -> Iterator[Block]:
    previous: Token | None = None
    for token in MarkdownIt().parse(page):
        if token.type == "fence":
            line = (token.map or [0])[0] + 1
            if token.info not in RUNNABLE + SHOWN:
                raise ValueError(f"line {line}: the language '{token.info}' is neither run nor listed as only shown")
            yield Block(line, token.info, token.content, previous is not None and skips(previous.content, line))
        previous = token if token.type == "html_block" else None


def skips(comment: str, line: int) -> bool:
    found = re.fullmatch(r"<!-- test: (.*?) -->\s*", comment)
    if not found or found[1] == "serve":
        return False
    if not re.fullmatch(r"skip, \S.*", found[1]):
        raise ValueError(f"line {line}: write <!-- test: skip, reason -->")
    return True


def commands(console: str) -> Iterator[tuple[str, str]]:
    """Each `$ command`, continued lines joined, with the output that is expected of it."""
    if not console.startswith("$ "):
        raise ValueError("a console block begins with '$ command'")
    for found in re.finditer(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", console, re.MULTILINE):
        yield found[1], found[2]


def matches(expected: str, output: str) -> bool:
    pattern = ""
    for line in expected.strip("\n").splitlines():
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
            continue
        for text in re.split("(" + "|".join(map(re.escape, STANDS_FOR)) + ")", line):
            pattern += STANDS_FOR.get(text) or re.escape(text)
        pattern += r"[ \t]*\n"
    return re.fullmatch(pattern, output.strip("\n") + "\n" if output.strip() else "") is not None


def run(block: Block, folder: Path, environment: dict[str, str]) -> None:
    def output(command: list[str]) -> str:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, f"line {block.line}:\n{block.text}\n{done.stdout}{done.stderr}"
        return done.stdout

    if block.language in ("bash", "sh"):
        output(["bash", "-euo", "pipefail", "-c", block.text])
    elif block.language == "python":
        output([sys.executable, "-c", block.text])
    elif block.language == "json":
        json.loads(block.text)
    for command, expected in commands(block.text) if block.language == "console" else ():
        got = output(["bash", "-euo", "pipefail", "-c", command])
        assert matches(expected, got), f"line {block.line}: $ {command}\nexpected:\n{expected}\ngot:\n{got}"


@contextlib.contextmanager
def hub(folder: Path, environment: dict[str, str]) -> Generator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with (folder / "serve.log").open("wb") as log:
        command = [sys.executable, "-m", "kho", "serve", "--port", str(port)]
        server = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
                break
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((folder / "serve.log").read_text("utf-8"))
            time.sleep(0.05)
        yield f"127.0.0.1:{port}"
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(PATIENCE)


def run_page(page: str, folder: Path) -> None:
    work = folder / "work"
    work.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KHO_")}
    environment |= {"HOME": str(work), "KHO_HOME": str(folder / "kho")}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    with contextlib.ExitStack() as stack:
        if "<!-- test: serve -->" in page.partition("\n")[0]:
            page = ADDRESS.sub(stack.enter_context(hub(folder, environment)), page)
        for block in blocks(page):
            if not block.skipped:
                run(block, work, environment)


def broken_links(page: Path) -> list[str]:
    links = [link for link in targets(page) if not re.match(r"[a-z]+:|#", link)]
    return [link for link in links if not (page.parent / link.partition("#")[0]).exists()]


def targets(page: Path) -> Iterator[str]:
    for token in MarkdownIt().parse(page.read_text("utf-8")):
        for child in token.children or []:
            target = child.attrGet("href") or child.attrGet("src")
            if isinstance(target, str):
                yield target


@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_code_blocks_work(page: Path, tmp_path: Path) -> None:
    run_page(page.read_text("utf-8"), tmp_path)


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_resolve(page: Path) -> None:
    assert broken_links(page) == []


def test_every_page_can_be_reached() -> None:
    starts = [start for start in (ROOT / "README.md", ROOT / "docs" / "index.md") if start.exists()]
    reached = {(start.parent / link.partition("#")[0]).resolve() for start in starts for link in targets(start)}
    assert [str(page.relative_to(ROOT)) for page in RUN if page not in reached | set(starts)] == []


GOOD = (
    "```sh\necho '{\"a\": 1}' > a.json\n```\n\n```python\nimport json; json.load(open('a.json'))\n```\n\n"
    '```console\n$ cat a.json\n{"a": <number>}\n$ printf "1\\n2\\n3\\n"\n...\n3\n```\n\n```json\n{}\n```\n\n'
    "<!-- test: skip, it would never end -->\n```bash\nfalse\n```\n"
)
BAD = {
    "a failing command": "```bash\nfalse | true\n```\n",
    "failing Python": "```python\n1 / 0\n```\n",
    "another output": "```console\n$ echo 1\n2\n```\n",
    "more output": "```console\n$ printf '1\\n2\\n'\n1\n```\n",
    "no command": "```console\n2\n```\n",
    "broken JSON": "```json\n{,}\n```\n",
    "no reason": "<!-- test: skip -->\n```bash\ntrue\n```\n",
    "an unknown language": "```shell\ntrue\n```\n",
}


def test_a_good_page_passes(tmp_path: Path) -> None:
    run_page(GOOD, tmp_path)


@pytest.mark.parametrize("page", BAD.values(), ids=BAD.keys())
def test_a_bad_page_fails(page: str, tmp_path: Path) -> None:
    with pytest.raises((AssertionError, ValueError)):
        run_page(page, tmp_path)


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("[a](page.md#there) [b](gone.md) [c](https://example.org/) ![d](gone.png)", encoding="utf-8")
    assert broken_links(page) == ["gone.md", "gone.png"]
