"""`kho`, `research-agent` and `python -m kho`."""

import sys
from importlib import import_module

from kho import __version__


def main() -> None:
    if sys.argv[1:] == ["--version"]:  # scripts ask for it, and everything else takes longer to load than to do
        sys.stdout.write(f"kho, version {__version__}\n")
    else:
        import_module("kho.start").main()


if __name__ == "__main__":
    main()
