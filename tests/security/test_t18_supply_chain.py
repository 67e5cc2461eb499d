"""T18: a package is replaced by another, or does something when it is installed or imported."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.acceptance.processes import Place
from tests.timeouts import PATIENCE

ROOT = Path(__file__).parents[2]
WATCHED = """
import sys, pkgutil, importlib
asked = []
NETWORK = {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "subprocess.Popen", "os.system"}
sys.addaudithook(lambda event, arguments: asked.append((event, arguments)) if event in NETWORK else None)
import kho
count = 0
for module in pkgutil.walk_packages(kho.__path__, "kho."):
    if module.name.endswith("__main__") or ".migrations" in module.name:
        continue
    try:
        importlib.import_module(module.name)
        count += 1
    except ModuleNotFoundError as missing:  # an extra that is not installed
        assert not str(missing.name).startswith("kho"), missing
assert count > 200, count
assert not asked, asked
print("nothing was asked for")
"""


@pytest.mark.parametrize("name", ["runtime.txt", "dev.txt", "build.txt", "setup.txt"])
def test_t18_every_requirement_is_pinned_with_its_hash(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text("utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("#", "-"))]
    assert lines
    for line in lines:
        assert re.match(r"[\w.\[\]-]+==[\w.+!]+", line), line
        assert "--hash=sha256:" in line, line
    assert "--index-url" not in text
    assert "git+" not in text
    assert "://" not in re.sub(r"#.*", "", text)


def test_t18_importing_everything_asks_the_network_for_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WATCHED], capture_output=True, timeout=PATIENCE, check=False,
        env=Place(tmp_path).environment(), cwd=tmp_path,
    )  # fmt: skip
    assert done.stdout == b"nothing was asked for\n", done.stderr[-2000:]
