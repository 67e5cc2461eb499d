"""Restricts reading to allowed folders, however a path is written and whatever it links to.

A path is first resolved, links and `..` included; the result must lie below an allowed folder and not in a forbidden
one. Between that check and the opening somebody could replace a folder by a link (a race). So a file is not opened by
its path: `Roots.open` descends from the allowed folder one name at a time, opening each relative to the one before
(`openat`) with O_NOFOLLOW. The resolved path contained no links, so a link met on the way was added later, and opening
it fails. The opened file is checked once more through its descriptor, which nobody can swap. This needs neither /proc
nor a second look at the path, which could be swapped again.
"""

import os
import re
import stat
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from kho.kernel.hints import Hint, Op
from kho.lib.dataclass import dataclass
from kho.research.errors import PathRefused, Unreadable
from kho.research.ingest.safe_open import (
    FILE,
    WAY,
    Identity,
    identity,
    identity_of,
    need_file,
    need_single,
    opened,
    refusal,
    status_of,
)

MAX_PATH = 4096
MAX_NAME = 255
SYSTEM = (Path("/proc"), Path("/sys"), Path("/dev"))
"""Never read: these are interfaces of the kernel, not files."""
NEVER_BY_DEFAULT = tuple(
    Path(name)
    for name in "/bin /boot /dev /etc /lib /lib32 /lib64 /proc /run /sbin /sys /usr/bin /usr/lib /usr/sbin "
    "/Applications /Library /System".split()
)
"""Folders of the system: neither they nor what is below them is open unless the settings name it."""
TOO_WIDE = frozenset(Path(name) for name in "/ /private /usr /var /var/lib /var/log".split())
"""Folders that hold those of many programs: not open as a whole unless the settings name them."""

URL = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*://|file:)", re.IGNORECASE)
DRIVE = re.compile(r"^[A-Za-z]:([\\/]|$)")
NETWORK = ("//", "\\\\")

OPEN_LOCALLY = (
    "To open another folder, name it in KHO_RESEARCH__ROOTS, e.g. KHO_RESEARCH__ROOTS='[\"/data/papers\"]', "
    "and start Kho again."
)
OPEN_REMOTELY = Hint(
    "Send the text itself with ",
    Op("augment_knowledge"),
    ". An admin of the hub may open a folder of the server with KHO_RESEARCH__SHARED_ROOTS.",
)


@dataclass(frozen=True, slots=True)
class Located:
    """A file or folder that may be read."""

    path: Path
    """Resolved: no links, no '..'."""
    root: Path
    """The allowed folder that contains it, resolved."""
    folder: bool


@dataclass(frozen=True, slots=True)
class Roots:
    """Allowed folders, and forbidden folders within them. Without any folder nothing may be read."""

    folders: tuple[Path, ...]
    """Relative paths start at the first one."""
    forbidden: tuple[Path, ...] = ()
    home: Path | None = None
    """The folder that '~' stands for; None if '~' is not supported."""
    how_to_open: str = OPEN_LOCALLY
    hard_links: bool = True
    """False: a file that has a second name is refused, because nothing tells where that lies."""

    def narrowed(self, stated: Iterable[str]) -> "Roots":
        """Return the roots limited to folders that the client states, too (MCP roots, as file:// URIs). A client that
        states none has opened none."""
        theirs = [Path(os.path.realpath(path)) for path in map(_path_of, stated) if path]
        both: list[Path] = []
        for folder in self.folders:
            real = Path(os.path.realpath(folder))
            inside = [path for path in theirs if path.is_relative_to(real)]
            both += [real] if any(real.is_relative_to(path) for path in theirs) else inside
        how = "The client that calls narrows this to its own folders (MCP roots): open the folder there."
        return replace(self, folders=tuple(dict.fromkeys(both)), how_to_open=how)

    def locate(self, given: str) -> Located:
        """Resolve a user's path and check that it may be read. The file may be swapped later: open it with `open`, not
        by name."""
        if not self.folders:
            raise PathRefused("No folder may be read here.", guidance=self.how_to_open, path=given)
        self._check_form(given)
        typed = self._absolute(given)
        real, root = self._allowed(typed, given)
        found = _as_spelt(real, root)
        if found != real:  # the name has other code points on disk, and may be a link there
            real, root = self._allowed(found, given)
        return Located(real, root, self._kind(real, given))

    def open(self, located: Located) -> BinaryIO:
        """Open the file as described in the module's docstring. It is a regular file, and still the one that was
        allowed."""
        parent = self.open_folder(located.root, located.path.parent)
        try:
            name, shown = located.path.name, str(located.path)
            need_file(status_of(name, parent, shown), shown)  # merely opening a device can have side effects
            descriptor = opened(name, FILE, parent, shown)
        finally:
            os.close(parent)
        file = os.fdopen(descriptor, "rb")
        try:
            status = os.fstat(descriptor)
            need_file(status, shown)
            if not self.hard_links:
                need_single(status, shown)
        except PathRefused:
            file.close()
            raise
        return file

    def read(self, located: Located, limit: int) -> bytes:
        """Return the whole content of a file of at most `limit` bytes."""
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
        """Open a folder below `root` and return its descriptor, for opening what is in it. The caller closes it."""
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
                raise PathRefused("'~' is not supported here.", guidance="Name the folder in full.", path=given)
            return self.home / given[2:]
        return self.folders[0] / given

    def _allowed(self, path: Path, given: str) -> tuple[Path, Path]:
        """Return the resolved path and the allowed folder that contains it."""
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
        # The outermost allowed folder: the path above it is the user's own choice, everything below is opened name by
        # name.
        return real, min(within, key=lambda root: len(root.parts))

    def _is_forbidden(self, real: Path) -> bool:
        """Compare by name, too: the forbidden folder may not exist yet."""
        return any(real.is_relative_to(folder) for folder in map(_resolved, self.forbidden))

    def _identities(self) -> set[Identity]:
        """Device and inode of the forbidden folders: a folder can have other names (other case on some disks, other
        mounts)."""
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
    """Allowed folders: those of the local user, and those that an admin opened for everybody else."""

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
        """Build from the settings. Without `roots` the local user's are the home directory and the working directory,
        if that is one of his: services and desktop programs often start in `/`, which is the whole disk."""
        home = home or Path.home()
        cwd = cwd or Path.cwd()
        by_default = [folder for folder in (cwd, home) if not _is_of_the_system(folder, home)]
        named = [_from_settings(root, home, cwd) for root in roots] or by_default
        theirs = [_from_settings(root, home, cwd) for root in shared]
        return cls(
            Roots(tuple(named), (kho_home,), home),
            Roots(tuple(theirs), (kho_home,), None, OPEN_REMOTELY, hard_links=False),
        )

    def for_caller(self, *, shared: bool, stated: Iterable[str] | None = None) -> Roots:
        """Return the roots of a caller. `shared` means a remote credential; `stated` are the MCP roots that the client
        states, None if it states none."""
        roots = self.shared if shared else self.local
        return roots if stated is None else roots.narrowed(stated)


def _is_of_the_system(folder: Path, home: Path) -> bool:
    """True for the whole disk, the folders above the user's home, and folders of the operating system."""
    real = folder.resolve()
    return (
        real in TOO_WIDE
        or real in home.resolve().parents
        or any(real == system or system in real.parents for system in NEVER_BY_DEFAULT)
    )


def _from_settings(root: str | Path, home: Path, cwd: Path) -> Path:
    text = str(root)
    return cwd / (home / text[2:] if text == "~" or text.startswith("~/") else text)


def _path_of(address: str) -> str:
    """Return the path of a local file:// URI; empty for anything else."""
    parts = urlsplit(address)
    path = unquote(parts.path)
    local = parts.scheme == "file" and parts.netloc in ("", "localhost")
    return path if local and path.startswith("/") and "\0" not in path else ""


def _wrong_form(given: str) -> str:
    """Return a sentence on why a text is not a path of this machine; empty if it may be one."""
    if not given.strip():
        return "The path is empty."
    if "\0" in given:
        return "A path cannot contain the NUL character."
    if URL.match(given):
        return "An address (URL) is not a path."
    if given.startswith(NETWORK):
        return "Paths of other machines (\\\\server\\share) are not read."
    if DRIVE.match(given):
        return "A path with a drive letter is not a path of this machine."
    try:
        sizes = [len(os.fsencode(name)) for name in given.split("/")]
    except UnicodeEncodeError:
        return "The path is not valid Unicode."
    if max(sizes) > MAX_NAME or sum(sizes) + len(sizes) > MAX_PATH:
        return "The path is too long."
    return ""


def _as_spelt(path: Path, root: Path) -> Path:
    """Return the path as spelt on disk: the same letters may have other code points there (NFC, NFD)."""
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
        except OSError:  # a folder that is missing or cannot be listed has no other spelling
            return path
        found /= min(same, default=name)
    return found


def _resolved(folder: Path) -> Path:
    return Path(os.path.realpath(folder))
