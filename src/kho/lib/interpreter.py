"""Which releases of Python have what Kho relies on."""

import sys

MENDED = {(3, 11): 12, (3, 12): 9, (3, 13): 2}
"""The first patch release of each version in which all of it is mended: which addresses are public (CVE-2024-4032),
brackets in the host of a URL (CVE-2025-0938), archives whose parts overlap (CVE-2024-0450), endless names in them
(CVE-2024-8088). Versions that are not named have it from the start. Kho checks addresses and archives itself, too."""


def warnings(version: tuple[int, int, int] = sys.version_info[:3]) -> list[str]:
    major, minor, patch = version
    wanted = MENDED.get((major, minor), 0)
    if patch >= wanted:
        return []
    return [
        f"Python {major}.{minor}.{patch} has known security faults, some in what Kho relies on to check addresses and "
        f"files. {major}.{minor}.{wanted} or a later release has them mended."
    ]
