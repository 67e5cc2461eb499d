"""`python -m packages write`: the committed manifests. `python -m packages bundle WHEEL FOLDER`: the bundle's files."""

import shutil
import sys
from pathlib import Path

from packages import manifests


def main(command: str, *arguments: str) -> None:
    match command, *arguments:
        case ["write"]:
            for path, text in manifests.committed().items():
                _write(manifests.ROOT / path, text.encode())
        case ["bundle", wheel, folder]:
            shutil.rmtree(folder, ignore_errors=True)
            for path, content in manifests.bundle(Path(wheel)).items():
                _write(Path(folder, path), content)
        case _:
            raise SystemExit(__doc__)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


main(*sys.argv[1:])
