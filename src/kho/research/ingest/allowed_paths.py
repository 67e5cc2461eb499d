"""Which paths may be read: only what lies below allowed folders, however a path is written and whatever it links to.

A path is judged by where it really leads. It is resolved first, links and `..` included, and the result must lie below
an allowed folder and not in a forbidden one. Between that check and the opening somebody could put a link in the place
of a folder. So a file is not opened by its path: `Roots.open` goes down from the allowed folder one name at a time,
each opened relative to the one before (`openat`) and with O_NOFOLLOW. The resolved path held no links, so a link on the
way is one that came later, and opening it fails. What was opened in the end is looked at once more through its
descriptor, which nobody can exchange. This needs no /proc and no second look at the path, which could be swapped again.
"""

import os
import re
import stat
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from kho.research.errors import PathRefused, Unreadable
from kho.research.ingest.safe_open import (
    FILE,
    WAY,
    Identity,
    identity,
    identity_of,
    need_file,
    opened,
    refusal,
    status_of,
)

MAX_PATH = 4096
MAX_NAME = 255
SYSTEM = (Path("/proc"), Path("/sys"), Path("/dev"))
"""Not files but the machine itself."""

URL = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*://|file:)", re.IGNORECASE)
DRIVE = re.compile(r"^[A-Za-z]:([\\/]|$)")
NETWORK = ("//", "\\\\")

OPEN_LOCALLY = (
    "To open another folder, name it in KHO_RESEARCH__ROOTS, e.g. KHO_RESEARCH__ROOTS='[\"/data/papers\"]', "
    "and start Kho again."
)
OPEN_REMOTELY = (
    "Send the text itself with augment_knowledge. An admin of the hub may open a folder of the server with "
    "KHO_RESEARCH__SHARED_ROOTS."
)


@dataclass(frozen=True, slots=True)
class Located:
    """A file or folder that may be read."""

    path: Path
    """Resolved: no links, no '..'."""
    root: Path
    """The allowed folder that it lies in, resolved."""
    folder: bool


@dataclass(frozen=True, slots=True)
class Roots:
    """Folders that may be read, and folders within them that may not. With no folder, nothing may be read."""

    folders: tuple[Path, ...]
    """A relative path begins at the first one."""
    forbidden: tuple[Path, ...] = ()
    home: Path | None = None
    """What '~' means; nothing when None."""
    how_to_open: str = OPEN_LOCALLY

    def narrowed(self, stated: Iterable[str]) -> "Roots":
        """Those parts that lie in the folders that a client states, too, as file:// addresses. A client that states
        none has opened none."""
        theirs = [Path(os.path.realpath(path)) for path in map(_path_of, stated) if path]
        both: list[Path] = []
        for folder in self.folders:
            real = Path(os.path.realpath(folder))
            inside = [path for path in theirs if path.is_relative_to(real)]
            both += [real] if any(real.is_relative_to(path) for path in theirs) else inside
        how = "The client that calls narrows this to its own folders (MCP roots): open the folder there."
        return replace(self, folders=tuple(dict.fromkeys(both)), how_to_open=how)

    def locate(self, given: str) -> Located:
        """The file or folder that a user's path means. That may change: open it with `open`, not by name."""
        if not self.folders:
            raise PathRefused("No folder may be read here.", guidance=self.how_to_open, path=given)
        self._check_form(given)
        typed = self._absolute(given)
        real, root = self._allowed(typed, given)
        found = _as_spelt(real, root)
        if found != real:  # the name is written with other code points on disk, and may be a link there
            real, root = self._allowed(found, given)
        return Located(real, root, self._kind(real, given))

    def open(self, located: Located) -> BinaryIO:
        """The file, opened as the module's text says. It is a regular file, and still the one that may be read."""
        parent = self.open_folder(located.root, located.path.parent)
        try:
            name, shown = located.path.name, str(located.path)
            need_file(status_of(name, parent, shown), shown)  # merely opening a device can have an effect
            descriptor = opened(name, FILE, parent, shown)
        finally:
            os.close(parent)
        file = os.fdopen(descriptor, "rb")
        try:
            need_file(os.fstat(descriptor), shown)
        except PathRefused:
            file.close()
            raise
        return file

    def read(self, located: Located, limit: int) -> bytes:
        """The whole of a file that has at most `limit` bytes."""
        with self.open(located) as file:
            size = os.fstat(file.fileno()).st_size
            content = b"" if size > limit else file.read(limit + 1)
        if size > limit or len(content) > limit:
            raise Unreadable(
                f"The file is larger than {limit} bytes.",
                guidance="Split it, or raise the limit in the settings (section 'research').",
                path=str(located.path),
            )
        return content

    def open_folder(self, root: Path, folder: Path) -> int:
        """A descriptor of a folder below `root`, to open what is in it; for the caller to close."""
        closed = self._identities()
        descriptor = opened(str(root), WAY, None, str(folder))
        for name in folder.relative_to(root).parts:
            try:
                deeper = opened(name, WAY, descriptor, str(folder))
            finally:
                os.close(descriptor)
            descriptor = deeper
            if identity(os.fstat(descriptor)) in closed:
                os.close(descriptor)
                raise self._refused_as_own(str(folder))
        return descriptor

    def _check_form(self, given: str) -> None:
        reason = _wrong_form(given)
        if reason:
            shown = given.replace("\0", "\\0")[:200]
            raise PathRefused(reason, guidance="Name a file or folder of this machine, e.g. 'notes/a.md'.", path=shown)

    def _absolute(self, given: str) -> Path:
        if given == "~" or given.startswith("~/"):
            if self.home is None:
                raise PathRefused("'~' means nothing here.", guidance="Name the folder in full.", path=given)
            return self.home / given[2:]
        return self.folders[0] / given

    def _allowed(self, path: Path, given: str) -> tuple[Path, Path]:
        """Where it really leads, and the allowed folder that this lies in."""
        try:
            real = Path(os.path.realpath(path))
        except OSError as problem:
            raise refusal(problem, given) from None
        typed = Path(os.path.normpath(path))
        if any(place.is_relative_to(system) for place in (typed, real) for system in SYSTEM):
            raise PathRefused(
                "It belongs to the system: devices, processes and the kernel are not read.",
                guidance="Name a file or folder of your own.",
                path=given,
            )
        within = [root for root in map(_resolved, self.folders) if real.is_relative_to(root) and root.is_dir()]
        if not within:
            raise self._refused_as_outside(given, linked=any(map(typed.is_relative_to, self.folders)))
        closed = self._identities()
        if any(identity_of(place) in closed for place in (real, *real.parents)) or self._is_forbidden(real):
            raise self._refused_as_own(given)
        # The outermost: what lies above it is the user's own choice, all below is opened name by name.
        return real, min(within, key=lambda root: len(root.parts))

    def _is_forbidden(self, real: Path) -> bool:
        """By name, too: the folder may not exist yet."""
        return any(real.is_relative_to(folder) for folder in map(_resolved, self.forbidden))

    def _identities(self) -> set[Identity]:
        """By what they are, for a folder can have other names: other cases on some disks, other mounts."""
        return {found for found in map(identity_of, self.forbidden) if found is not None}

    def _kind(self, real: Path, given: str) -> bool:
        try:
            status = real.lstat()
        except OSError as problem:
            raise refusal(problem, given) from None
        if stat.S_ISDIR(status.st_mode):
            return True
        need_file(status, given)
        return False

    def _refused_as_outside(self, given: str, *, linked: bool) -> PathRefused:
        why = "A symbolic link leads" if linked else "The path leads"
        allowed = ", ".join(map(str, self.folders))
        return PathRefused(
            f"{why} out of the folders that may be read.",
            guidance=f"Allowed are: {allowed}. {self.how_to_open}",
            path=given,
        )

    def _refused_as_own(self, given: str) -> PathRefused:
        return PathRefused(
            "Kho's own data is not read.", guidance="Use 'kho … export' to take data out of Kho.", path=given
        )


@dataclass(frozen=True, slots=True)
class AllowedPaths:
    """The folders of this machine's user, and those that an admin opened for everybody else."""

    local: Roots
    shared: Roots

    @classmethod
    def of(
        cls,
        roots: Sequence[str | Path],
        shared: Sequence[str | Path],
        *,
        kho_home: Path,
        cwd: Path | None = None,
        home: Path | None = None,
    ) -> "AllowedPaths":
        """From the settings. With no `roots` named, the user's are the working directory and the home."""
        home = home or Path.home()
        cwd = cwd or Path.cwd()
        named = [_from_settings(root, home, cwd) for root in roots] or [cwd, home]
        theirs = [_from_settings(root, home, cwd) for root in shared]
        return cls(
            Roots(tuple(named), (kho_home,), home),
            Roots(tuple(theirs), (kho_home,), None, OPEN_REMOTELY),
        )

    def for_caller(self, *, shared: bool, stated: Iterable[str] | None = None) -> Roots:
        """`shared` callers come with a remote credential. `stated` are the roots of a client that states some."""
        roots = self.shared if shared else self.local
        return roots if stated is None else roots.narrowed(stated)


def _from_settings(root: str | Path, home: Path, cwd: Path) -> Path:
    text = str(root)
    return cwd / (home / text[2:] if text == "~" or text.startswith("~/") else text)


def _path_of(address: str) -> str:
    """The path in a file:// address of this machine; empty for anything else."""
    parts = urlsplit(address)
    path = unquote(parts.path)
    local = parts.scheme == "file" and parts.netloc in ("", "localhost")
    return path if local and path.startswith("/") and "\0" not in path else ""


def _wrong_form(given: str) -> str:
    """Why a text is no path of this machine, in a sentence; empty if it may be one."""
    if not given.strip():
        return "The path is empty."
    if "\0" in given:
        return "A path cannot hold the NUL character."
    if URL.match(given):
        return "An address (URL) is not a path."
    if given.startswith(NETWORK):
        return "Paths of other machines (\\\\server\\share) are not read."
    if DRIVE.match(given):
        return "A path with a drive letter is none of this machine's."
    try:
        sizes = [len(os.fsencode(name)) for name in given.split("/")]
    except UnicodeEncodeError:
        return "The path is not valid Unicode."
    if max(sizes) > MAX_NAME or sum(sizes) + len(sizes) > MAX_PATH:
        return "The path is too long."
    return ""


def _as_spelt(path: Path, root: Path) -> Path:
    """The path as the disk has it: the same letters may be written with other code points (NFC, NFD)."""
    if os.path.lexists(path):
        return path
    found = root
    for name in path.relative_to(root).parts:
        if os.path.lexists(found / name):
            found /= name
            continue
        wanted = unicodedata.normalize("NFC", name)
        try:
            same = [e.name for e in found.iterdir() if unicodedata.normalize("NFC", e.name) == wanted]
        except OSError:  # a missing or closed folder has no other spelling to offer
            return path
        found /= min(same, default=name)
    return found


def _resolved(folder: Path) -> Path:
    return Path(os.path.realpath(folder))
