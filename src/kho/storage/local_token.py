"""The token of this machine's user: a file in KHO_HOME that only this user can read.

Programs that this user starts, such as an editor that `kho connect --http` has set up, send it to the hub on the same
machine. So they go on when the hub gets keys, which everybody else then needs.
"""

import hmac
import os
from contextlib import suppress
from pathlib import Path

from kho.kernel import api_keys
from kho.kernel.errors import KhoError

NAME = "local.token"


class LocalTokenFile:
    def __init__(self, home: Path) -> None:
        self._path = home / NAME
        self._read_at: tuple[int, int] | None = None
        """Inode and time of change of the file that was read: deleting or replacing it takes effect at once."""
        self._text = ""

    def create(self) -> str:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = self._path.with_name(f"{NAME}.{os.getpid()}")
        try:
            file = os.open(made, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            try:
                os.write(file, api_keys.mint_local().encode())
            finally:
                os.close(file)
            with suppress(FileExistsError):  # of two at once, both return the first one's
                os.link(made, self._path)
        except OSError as problem:
            raise KhoError(f"{self._path} cannot be written: {problem.strerror}.") from None
        finally:
            made.unlink(missing_ok=True)
        if not (text := self._current()):
            raise KhoError(f"{self._path} cannot be used: others may read it. Delete it; then it is made anew.")
        return text

    def matches(self, text: str) -> bool:
        if not text.startswith(api_keys.LOCAL):
            return False
        known = self._current()
        return bool(known) and hmac.compare_digest(text.encode(), known.encode())

    def _current(self) -> str:
        try:
            found = self._path.stat()
            if os.name == "posix" and found.st_mode & 0o077:
                return ""  # others could have read it
            if (stamp := (found.st_ino, found.st_mtime_ns)) != self._read_at:
                self._text = self._path.read_text("ascii").strip()
                self._read_at = stamp
        except (OSError, UnicodeError):
            return ""
        return self._text
