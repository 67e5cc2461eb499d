"""What to install for an optional feature, for error messages."""

import shlex
import sys


def install(extra: str) -> str:
    """Return the command that installs the packages of an extra. It names them one by one: 'kho[…]' would need Kho
    itself on the package index, and it may have been installed from a file."""
    from importlib.metadata import requires  # every start would load it, for a message that few ever see

    needed = (one.replace('"', "'").partition(";") for one in requires("kho") or ())
    packages = [name.strip() for name, _, condition in needed if f"extra == '{extra}'" in condition]
    return shlex.join([sys.executable, "-m", "pip", "install", *packages])


def version() -> str:
    """Return the version of the program, for a message that few ever see."""
    from importlib.metadata import version

    return version("kho")
