"""`kho`, `research-agent` and `python -m kho`."""

import gc
import sys
from importlib import import_module

from kho import __version__


def main() -> None:
    if sys.argv[1:] == ["--version"]:  # scripts ask for it, and everything else takes longer to load than to do
        sys.stdout.write(f"kho, version {__version__}\n")
    else:
        # What is imported stays: looking through it for garbage while it grows takes a tenth of a start.
        gc.disable()
        entrypoint = import_module("kho.entrypoint")
        gc.freeze()
        gc.enable()
        entrypoint.main()


if __name__ == "__main__":
    main()
