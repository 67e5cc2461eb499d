"""The rules of the house, read from the source: who may import whom, where a broad `except` may stand, sizes.

Each rule is a function from one source file to what is wrong with it. The samples at the end feed every rule
a breach and a lawful twin, so that a rule that no longer bites fails too.
"""

import ast
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "kho"

LIBRARIES = {"parsers", "sanitizer", "search"}
"""What slices may import beside the kernel."""
SHARED = LIBRARIES | {"storage", "models"}
ROOMS = SHARED | {"kernel", "lib", "doors"}
ROOT = {"__init__", "__main__", "app", "backup", "client", "settings", "entrypoint", "doctor", "slices"}
"""The modules beside the rooms. Every other folder of the package is a slice."""
CLIENTS = {"evaluation", "simulator"}
"""Slices that also call a hub through its doors, as anybody does."""

BROAD_EXCEPTS = {"kernel/registry.py": 1, "kernel/background.py": 1}
NAMES_SLICES = {"slices", "doctor"}
LOADS_LATER = {"__main__": ("kho.entrypoint",)}
"""What they load when it is used: the SDK alone takes a second to import, and most commands need none of it. Others
name such modules at the top, with `lazy`."""
SERVED = {"Prompt", "Page", "Stream", "Socket", "Changes", "Announcements"}
"""What a slice serves beside operations, by the class it is declared with."""
RESOURCES = {"page", "read", "complete"}
"""The methods by which a class of resources is known."""
TOLD = {"announcements", "resource_changes"}
"""Parts of a capability that doors hear through the checkpoint."""
OWN_CHECKS = {"devices/contract.py", "experiences/review.py"}
"""Within a call that the checkpoint let pass: a board's tools for people are for admins; of waiting records reviewers see
all, others their own."""
MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 80
MAX_FOLDER_MODULES = 25
DIALS = {
    "lib/safe_http.py": "callers' addresses, guarded; model servers of the settings",
    "lib/mqtt_client.py": "the broker of the settings",
    "doors/mcp/dial_out.py": "the address on the command line",
    "doors/tracing.py": "the collector of the settings",
    "storage/vector_index/qdrant.py": "the server of the settings",
    "storage/vector_index/index_server.py": "the same",
    "toolbox/duckduckgo.py": "one search engine, or the proxy of the settings",
    "client.py": "a client of a hub",
    "simulator/simulator.py": "a client of a hub",
    "evaluation/hub_client.py": "a client of a hub, on loopback",
    "doors/cli/serve.py": "its own port",
    "doors/cli/hub_socket.py": "a unix socket",
    "lib/unix_lines.py": "a unix socket",
}
"""Where connections are made, and to whose address. Addresses that callers name have one way out, `lib/safe_http.py`."""
DIALLERS = {
    "aiohttp", "aiomqtt", "ddgs", "http.client", "httpx", "httpx2", "opentelemetry.exporter", "primp", "qdrant_client",
    "requests", "socket", "urllib.request", "urllib3", "websockets.asyncio.client", "websockets.client",
    "websockets.sync.client",
}  # fmt: skip
"""What connects to others."""
ERRORS_OF_DIALLERS = {"models/http_client.py": "httpx2"}
"""Names its errors, and gets its client from `safe_http`."""
NO_CONNECTION = {
    "lib/addresses.py": "resolves names",
    "lib/peer_account.py": "asks the kernel",
    "research/ingest/service.py": "the name of this machine",
    "doors/http/uvicorn_protocols.py": "an option of connections that were taken",
}
"""Uses `socket` for something else."""
CONNECTING = {"open_connection", "create_connection", "create_datagram_endpoint"}
USUAL_NAMES = {
    "chunking", "encoding", "forwarding", "gc_tuning", "indexing", "ordering", "paging", "pairing",
    "ranking", "reordering", "scoring", "tool_listing", "tracing",
}  # fmt: skip
"""Names of modules that look like participles and are words of the trade."""


@dataclass(frozen=True)
class Source:
    path: PurePosixPath
    """Below src/kho."""
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def room(self) -> str:
        """The folder, or the module's name at the root."""
        return self.path.parts[0].removesuffix(".py")

    @property
    def package(self) -> list[str]:
        return ["kho", *self.path.parts[:-1]]


def own_imports(source: Source, within: ast.AST | None = None) -> Iterator[tuple[int, str]]:
    """The line and the full dotted name of every import of ours, `import_module("kho.…")` and `lazy("kho.…")` too."""
    for node in ast.walk(within or source.tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = source.package[: len(source.package) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            names = [f"{module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__", "lazy")):
            names = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        for name in names:
            if name.split(".")[0] == "kho":
                yield node.lineno if isinstance(node, ast.stmt | ast.expr) else 0, name


def functions(source: Source) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def may_import(room: str, target: str) -> bool:
    if room in NAMES_SLICES:
        return True
    if room == "lib":
        return target == "lib"
    if room == "settings":
        return target in {"__init__", "kernel", "lib"} or target.endswith(".settings")
    if room in ROOT:
        return target in ROOMS | ROOT | CLIENTS
    if room == "evaluation" and target == "doors":
        return True
    if room in {"kernel", *SHARED, "doors", "simulator"}:  # virtual boards reach a hub from outside, as firmware does
        return target in {"lib", "kernel", room}
    return target in {"lib", "kernel", *LIBRARIES, room}


def imports_follow_the_directions(source: Source) -> Iterator[str]:
    for line, name in own_imports(source):
        target = "__init__" if name in {"kho", "kho.__version__"} else name.split(".")[1]
        if source.room == "settings":  # it composes the sections that slices own, and knows nothing else of them
            target = ".".join(name.split(".")[1:3]) if target not in {"__init__", "kernel", "lib"} else target
        if not may_import(source.room, target):
            yield f"line {line}: {source.room} must not import {name}"


def own_modules_are_imported_at_the_top(source: Source) -> Iterator[str]:
    for function in functions(source):
        for line, name in own_imports(source, function):
            allowed = LOADS_LATER.get(source.room, ())
            if name in allowed or name.startswith(tuple(one for one in allowed if one.endswith("."))):
                continue
            yield f"line {line}: {name} is imported inside {function.name}()"


def excepts_name_what_they_expect(source: Source) -> Iterator[str]:
    broad: list[int] = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ExceptHandler):
            kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"):
            kinds = node.args
        else:
            continue
        if any(kind is None or ast.unparse(kind) in {"Exception", "BaseException"} for kind in kinds):
            broad.append(node.lineno)
    if len(broad) > BROAD_EXCEPTS.get(str(source.path), 0):
        yield f"lines {broad}: broad except"


def only_the_command_line_prints(source: Source) -> Iterator[str]:
    if source.path.is_relative_to("doors/cli"):
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield f"line {node.lineno}: print()"


def files_are_short(source: Source) -> Iterator[str]:
    lines = len(source.text.splitlines())
    if lines > MAX_FILE_LINES:
        yield f"{lines} lines, {MAX_FILE_LINES} at most"


def functions_are_short(source: Source) -> Iterator[str]:
    for function in functions(source):
        lines = (function.end_lineno or function.lineno) - function.lineno + 1
        if lines > MAX_FUNCTION_LINES:
            yield f"line {function.lineno}: {function.name}() has {lines} lines, {MAX_FUNCTION_LINES} at most"


def what_is_served_has_a_scope(source: Source) -> Iterator[str]:
    kernel = ("kho.kernel.capability.", "kho.kernel.web.")
    served = SERVED & {name.rpartition(".")[2] for _, name in own_imports(source) if name.startswith(kernel)}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in served:
            scopes = [ast.unparse(keyword.value) for keyword in node.keywords if keyword.arg == "scope"]
            if not scopes or scopes[0] in {"''", "frozenset()"}:
                yield f"line {node.lineno}: {ast.unparse(node.func)}() without a scope"
        elif isinstance(node, ast.ClassDef) and source.room != "doors":
            named = {one.name for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}
            assigned = [one.targets[0] for one in node.body if isinstance(one, ast.Assign)]
            assigned += [one.target for one in node.body if isinstance(one, ast.AnnAssign)]
            if named >= RESOURCES and "scope" not in named | {ast.unparse(one) for one in assigned}:
                yield f"line {node.lineno}: {node.name} are resources without a scope"


def scopes_are_checked_in_the_kernel(source: Source) -> Iterator[str]:
    if source.room == "kernel":
        return
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Attribute):
            continue
        if node.attr == "allows" and str(source.path) not in OWN_CHECKS:
            yield f"line {node.lineno}: {ast.unparse(node)}: the checkpoint asks this"
        elif node.attr in TOLD and source.room == "doors":
            yield f"line {node.lineno}: {ast.unparse(node)}: listen at the checkpoint"


def connections_are_made_where_they_are_known(source: Source) -> Iterator[str]:
    path = str(source.path)
    if path in DIALS or path in NO_CONNECTION:
        return
    for node in ast.walk(source.tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in CONNECTING:
            yield f"line {node.lineno}: {ast.unparse(node.func)}() outside of the rooms that connect (DIALS)"
        for name in names:
            found = [one for one in DIALLERS if name == one or name.startswith(f"{one}.")]
            if found and ERRORS_OF_DIALLERS.get(path) != found[0]:
                yield f"line {getattr(node, 'lineno', 0)}: imports {name}: connections are made in DIALS"


Rule = Callable[[Source], Iterator[str]]
RULES: list[Rule] = [
    imports_follow_the_directions,
    own_modules_are_imported_at_the_top,
    excepts_name_what_they_expect,
    only_the_command_line_prints,
    files_are_short,
    functions_are_short,
    what_is_served_has_a_scope,
    scopes_are_checked_in_the_kernel,
    connections_are_made_where_they_are_known,
]


def crowded_folders(paths: Iterable[PurePosixPath]) -> Iterator[str]:
    modules = Counter(str(path.parent) for path in paths if path.name != "__init__.py")
    for folder, count in modules.items():
        if count > MAX_FOLDER_MODULES:
            yield f"{folder} has {count} modules, {MAX_FOLDER_MODULES} at most: cut it by subject"


def names_of_deeds(paths: Iterable[PurePosixPath]) -> Iterator[str]:
    """A module is named after what it holds (`queue`), not after what is done in it (`filling`) or to it (`listed`)."""
    for path in paths:
        if path.stem not in USUAL_NAMES and path.stem.endswith(("ing", "ed")):
            yield f"{path} is named by a participle"


def test_the_map_can_be_read() -> None:
    paths = [PurePosixPath(path.relative_to(PACKAGE).as_posix()) for path in PACKAGE.rglob("*.py")]
    assert [*crowded_folders(paths), *names_of_deeds(paths)] == []


def test_the_rules_of_the_map_bite() -> None:
    full = [PurePosixPath(f"memory/m{number}.py") for number in range(MAX_FOLDER_MODULES)]
    assert list(crowded_folders([*full, PurePosixPath("memory/one_more.py")]))
    assert not list(crowded_folders([*full, PurePosixPath("memory/__init__.py")]))
    for breach, lawful in (("telling", "report"), ("listed", "list"), ("filing", "indexing")):
        assert list(names_of_deeds([PurePosixPath(f"memory/{breach}.py")]))
        assert not list(names_of_deeds([PurePosixPath(f"memory/{lawful}.py")]))


def test_there_is_source_to_read() -> None:
    assert (PACKAGE / "kernel" / "__init__.py").is_file()
    assert [one for one in (*DIALS, *ERRORS_OF_DIALLERS, *NO_CONNECTION) if not (PACKAGE / one).is_file()] == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_source_keeps_the_rule(rule: Rule) -> None:
    problems = [
        f"src/kho/{source.path}: {problem}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for source in [Source(PurePosixPath(path.relative_to(PACKAGE).as_posix()), path.read_text("utf-8"))]
        for problem in rule(source)
    ]
    assert problems == []


CAPABILITY, WEB = "kho.kernel.capability", "kho.kernel.web"
SHELF = """
class NoteResources:
    scope = "notes:read"
    async def page(self, call, cursor): ...
    async def read(self, call, uri): ...
    async def complete(self, call, uri, argument, value): ...
"""
CATCH_ALL = "try:\n    work()\nexcept Exception:\n    pass\n"
LAZY = "def f():\n    from kho.kernel import call\n"

SAMPLES: list[tuple[Rule, str, str, str]] = [
    # rule, file, breach, lawful twin
    (imports_follow_the_directions, "lib/x.py", "from kho.kernel import errors", "from kho.lib import clock"),
    (imports_follow_the_directions, "kernel/x.py", "import kho.storage.sqlite.database", "import kho.kernel.call"),
    (imports_follow_the_directions, "kernel/x.py", "from kho.search import rank", "from kho.lib import clock"),
    (
        imports_follow_the_directions,
        "parsers/x.py",
        "from kho.search import core",
        "from kho.lib.chunking import chunker",
    ),
    (imports_follow_the_directions, "search/x.py", "from kho.parsers import read", "from kho.kernel import errors"),
    (imports_follow_the_directions, "sanitizer/x.py", "from kho.memory import model", "from kho.lib import clock"),
    (imports_follow_the_directions, "kernel/x.py", "from kho import settings", "from kho import kernel"),
    (imports_follow_the_directions, "kernel/x.py", "from ..search import rank", "from . import call"),
    (
        imports_follow_the_directions,
        "storage/x.py",
        "from kho.models import factory",
        "from kho.storage import migrate",
    ),
    (imports_follow_the_directions, "models/x.py", "from kho.search import fold", "from kho.kernel import ports"),
    (imports_follow_the_directions, "search/x.py", "from kho.storage import sqlite", "from .fold import fold"),
    (imports_follow_the_directions, "memory/x.py", "from kho.toolbox import model", "from kho.memory import model"),
    (imports_follow_the_directions, "memory/x.py", "from kho.storage import sqlite", "from kho.search import rank"),
    (imports_follow_the_directions, "simulator/x.py", "from kho.devices import model", "from kho.lib import jsonrpc"),
    (imports_follow_the_directions, "devices/x.py", "from kho.simulator import board", "from kho.devices import model"),
    (imports_follow_the_directions, "doors/x.py", "from kho.simulator import board", "from kho.lib import clock"),
    (imports_follow_the_directions, "memory/x.py", "from kho.doors import http", "from kho.kernel.call import Call"),
    (imports_follow_the_directions, "evaluation/x.py", "from kho.storage import sqlite", "from kho.doors import http"),
    (imports_follow_the_directions, "memory/x.py", "from kho.settings import Settings", "from .model import Message"),
    (imports_follow_the_directions, "doors/x.py", "from kho.memory import service", "from kho.doors import guard"),
    (imports_follow_the_directions, "doors/cli/x.py", "from ...storage import sqlite", "from ..guard import Guard"),
    (imports_follow_the_directions, "doors/x.py", "from kho.models import factory", "from kho.kernel import errors"),
    (imports_follow_the_directions, "doors/x.py", "from kho.search import rank", "import kho.kernel.errors"),
    (
        imports_follow_the_directions,
        "doors/x.py",
        "from kho.settings import Settings",
        "import kho.doors.auth.credentials",
    ),
    (imports_follow_the_directions, "doors/x.py", "from kho.app import build", "import starlette"),
    (
        imports_follow_the_directions,
        "settings.py",
        "from kho.memory.service import Service",
        "from kho.memory.settings import MemorySettings",
    ),
    (imports_follow_the_directions, "client.py", "from kho.memory import model", "from kho.kernel import errors"),
    (imports_follow_the_directions, "entrypoint.py", "from kho import memory", "from kho.app import build"),
    (imports_follow_the_directions, "entrypoint.py", "import kho.memory", "from kho import __version__"),
    (own_modules_are_imported_at_the_top, "app.py", LAZY, "from kho.kernel import call"),
    (own_modules_are_imported_at_the_top, "app.py", LAZY.replace("kho.kernel", "."), "def f():\n    import openai\n"),
    (
        own_modules_are_imported_at_the_top,
        "app.py",
        "async def f():\n    importlib.import_module('kho.memory')\n",
        "async def f():\n    importlib.import_module('openai')\n",
    ),
    (
        own_modules_are_imported_at_the_top,
        "entrypoint.py",
        "def f():\n    lazy('kho.doctor')\n",
        "(doctor,) = lazy('kho.doctor')",
    ),
    (imports_follow_the_directions, "doors/x.py", "(x,) = lazy('kho.memory.service')", "(x,) = lazy('kho.doors.y')"),
    (
        own_modules_are_imported_at_the_top,
        "__main__.py",
        "def f():\n    import_module('kho.app')\n",
        "def f():\n    import_module('kho.entrypoint')\n",
    ),
    (
        own_modules_are_imported_at_the_top,
        "doors/x.py",
        "def f():\n    import_module('kho.doors.http.app')\n",
        "import os",
    ),
    (excepts_name_what_they_expect, "memory/x.py", CATCH_ALL, CATCH_ALL.replace("Exception", "ValueError")),
    (excepts_name_what_they_expect, "memory/x.py", CATCH_ALL.replace(" Exception", ""), "try:\n    f()\nfinally: g()"),
    (
        excepts_name_what_they_expect,
        "memory/x.py",
        CATCH_ALL.replace("Exception", "(OSError, BaseException)"),
        CATCH_ALL.replace("Exception", "(OSError, ValueError)"),
    ),
    (
        excepts_name_what_they_expect,
        "memory/x.py",
        "with contextlib.suppress(Exception): work()",
        "with contextlib.suppress(OSError): work()",
    ),
    (excepts_name_what_they_expect, "kernel/registry.py", CATCH_ALL * 2, CATCH_ALL),
    (excepts_name_what_they_expect, "kernel/background.py", CATCH_ALL * 2, CATCH_ALL),
    (only_the_command_line_prints, "doors/http/app.py", "print('hello')", "log.info('hello')"),
    (files_are_short, "memory/x.py", "x = 1\n" * 601, "x = 1\n" * 600),
    *(
        (what_is_served_has_a_scope, "memory/x.py", f"{declaring}; {breach}", f"{declaring}; {lawful}")
        for declaring, breach, lawful in (
            (f"from {CAPABILITY} import Changes", "Changes()", "Changes(scope='memory:read')"),
            (f"from {CAPABILITY} import Prompt", "Prompt('p', scope='')", "Prompt('p', scope=SCOPE)"),
            (f"from {WEB} import Page", "Page('/x', f)", "Page('/x', f, scope=OPEN)"),
            (f"from {WEB} import Stream", "Stream('/x', f, scope=frozenset())", "Stream('/x', f, scope=READERS)"),
        )
    ),
    (
        what_is_served_has_a_scope,
        "memory/x.py",
        f"from {CAPABILITY} import Prompt; Prompt('p')",
        "from kho.kernel.ports import Prompt; Prompt('of a model')",
    ),
    (what_is_served_has_a_scope, "memory/x.py", SHELF.replace('scope = "notes:read"', "pass"), SHELF),
    (scopes_are_checked_in_the_kernel, "memory/x.py", "call.principal.allows('a')", "call.need('a')"),
    (scopes_are_checked_in_the_kernel, "doors/x.py", "principal.allows(x.scope)", "checkpoint.visible(principal)"),
    (scopes_are_checked_in_the_kernel, "doors/x.py", "one.announcements.subscribe(f)", "checkpoint.listen(who, f)"),
    *(
        (connections_are_made_where_they_are_known, "documents/x.py", breach, "from kho.lib import safe_http")
        for breach in (
            "import httpx2",
            "def f():\n    import httpx2\n",
            "from urllib.request import urlopen",
            "from urllib import request",
            "from websockets.asyncio.client import connect",
            "async def f():\n    await asyncio.open_connection('x', 1)\n",
        )
    ),
    (functions_are_short, "memory/x.py", "def f():\n" + "    x = 1\n" * 80, "def f():\n" + "    x = 1\n" * 79),
]


@pytest.mark.parametrize(("rule", "path", "breach", "lawful"), SAMPLES)
def test_the_rule_bites(rule: Rule, path: str, breach: str, lawful: str) -> None:
    assert list(rule(Source(PurePosixPath(path), breach)))
    assert not list(rule(Source(PurePosixPath(path), lawful)))


def test_the_command_line_may_print_and_the_list_of_slices_and_the_doctor_may_name_them() -> None:
    assert not list(only_the_command_line_prints(Source(PurePosixPath("doors/cli/tables.py"), "print('hello')")))
    for name in ("slices.py", "doctor.py"):
        assert not list(imports_follow_the_directions(Source(PurePosixPath(name), "from kho.memory import service")))


def test_every_rule_has_a_sample() -> None:
    assert {rule for rule, *_ in SAMPLES} == set(RULES)
