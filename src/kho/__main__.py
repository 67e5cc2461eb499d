"""Entry point of `kho`, `research-agent` and `python -m kho`."""

import gc
import os
import sys
from importlib import import_module

from kho import __version__


def main() -> None:
    if sys.argv[1:] == ["--version"]:  # for scripts; importing everything else takes longer
        sys.stdout.write(f"kho, version {__version__}\n")
    else:
        gc.disable()  # until a hub is open: see entrypoint.collect_garbage
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")  # Kho has none, and looking for them takes 10 ms
        import_module("kho.entrypoint").main()


if __name__ == "__main__":
    main()
