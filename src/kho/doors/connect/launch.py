"""How a client starts `kho stdio`, or where it reaches the hub."""

import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

PASSED_ON = ("KHO_HOME", "KHO_CONFIG")
"""Variables that are paths and go into an entry. Others may be secrets: a settings file is the place for them."""


def program(argv0: str, executable: str = sys.executable) -> list[str]:
    """The command that starts Kho, with its full path: clients started from a desktop have another PATH."""
    name = Path(argv0).name
    if re.fullmatch(r"(kho|research-agent)(\.exe)?", name):
        typed = Path(argv0 if "/" in argv0 or "\\" in argv0 else shutil.which(argv0) or argv0)
        found = typed.absolute().with_name(name.replace("research-agent", "kho"))
        for path in (found, found.with_name(f"{found.name}.exe")):
            if path.is_file():
                return [str(path)]
    beside = Path(executable).with_name("kho")
    return [str(beside)] if beside.is_file() else [executable, "-m", "kho"]


def stdio(kho: Sequence[str], tools: str) -> list[str]:
    return [*kho, "stdio", *(["--tools", tools] if tools else [])]


def passed_on(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: str(Path(environment[name]).absolute()) for name in PASSED_ON if environment.get(name)}


def left_out(environment: Mapping[str, str]) -> list[str]:
    """Settings of this shell that the client's server will not have."""
    ours = {name for name, value in environment.items() if value and name.startswith("KHO_")}
    return sorted(name for name in ours - {*PASSED_ON} if "__" in name or name == "KHO_DATABASE_URL")


def endpoint(hub: str, tools: str) -> str:
    """Where a client reaches MCP at the hub with this address."""
    return f"{hub}/mcp" + (f"?tools={quote(tools, safe=',')}" if tools else "")
