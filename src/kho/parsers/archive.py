"""A look at a ZIP file before anything of it is unpacked."""

import io
import zipfile

from kho.parsers.model import Limits, Unreadable

_SMALL = 2**20
"""Below this no ratio is suspicious: a page of blanks packs very well."""
_BOMB = "it is made to fill the memory (a zip bomb)"


def check(data: bytes, limits: Limits) -> set[str]:
    """The names of the parts. Sizes are those of the directory at the end; a part that is larger than stated there
    fails when it is unpacked, because zipfile stops at the stated size and then checks the sum."""
    # The number of entries stands in the directory too; it is read before zipfile builds an object for each.
    end = data.rfind(b"PK\x05\x06")
    if end < 0:
        raise Unreadable("it is no DOCX file, or it is cut off", "Copy or download it again.")
    if data.count(b"PK\x01\x02") > limits.members * 2:
        raise Unreadable(_BOMB)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            parts = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as error:
        raise Unreadable("it is no DOCX file, or it is damaged", "Open it in Word and save it again.") from error
    names = {part.filename for part in parts}
    if (
        len(parts) > limits.members
        or len(names) < len(parts)
        or sum(part.file_size for part in parts) > limits.unpacked
    ):
        raise Unreadable(_BOMB)
    for part in parts:
        if part.flag_bits & 1:
            raise Unreadable("it needs a password", "Save it without a password first.")
        if part.file_size > _SMALL and part.file_size > limits.ratio * max(1, part.compress_size):
            raise Unreadable(_BOMB)
    _overlap(parts)
    return names


def _overlap(parts: list[zipfile.ZipInfo]) -> None:
    """Parts that share their packed bytes: the trick that makes a small file hold petabytes."""
    end = 0
    for part in sorted(parts, key=lambda part: part.header_offset):
        if part.header_offset < end:
            raise Unreadable(_BOMB)
        end = part.header_offset + part.compress_size
