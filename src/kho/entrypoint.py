"""Entry point of the program: runs a command, or MCP on stdio. Everything is imported on first use, because importing
all of it takes longer than most commands."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import AsyncGenerator, Collection, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from kho import __version__
from kho.lib.lazy_module import lazy

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path

    from kho import app, backup, doctor, settings, slices
    from kho.doors import cli, logs
    from kho.doors.cli import context, hub_socket
    from kho.doors.http import server
    from kho.doors.mcp import dial_out
    from kho.doors.mcp import stdio as mcp_stdio
    from kho.evaluation import hub_client
    from kho.kernel import errors, toolset
    from kho.kernel.hub import Hub
    from kho.models import inventory
    from kho.sanitizer import policy as sanitizer
    from kho.settings import Settings
    from kho.simulator import faults
else:
    asyncio, app, doctor, settings, slices = lazy("asyncio", "kho.app", "kho.doctor", "kho.settings", "kho.slices")
    (backup,) = lazy("kho.backup")
    cli, context, hub_socket = lazy("kho.doors.cli", "kho.doors.cli.context", "kho.doors.cli.hub_socket")
    logs, sanitizer = lazy("kho.doors.logs", "kho.sanitizer.policy")
    server, dial_out, mcp_stdio = lazy("kho.doors.http.server", "kho.doors.mcp.dial_out", "kho.doors.mcp.stdio")
    toolset, hub_client = lazy("kho.kernel.toolset", "kho.evaluation.hub_client")
    errors, faults, inventory = lazy("kho.kernel.errors", "kho.simulator.faults", "kho.models.inventory")


# The matrices of a search are small: with threads of its own, numpy takes twice the CPU for them and gains nothing.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def main() -> None:
    if sys.argv[1:2] == ["stdio"] and not {"-h", "--help"} & set(sys.argv):
        # A client waits for the first answer, so the command line is not imported.
        from argparse import ArgumentParser

        parser = ArgumentParser("kho stdio")
        parser.add_argument("--tools", action="append", default=[])
        stdio(load(), parser.parse_args(sys.argv[2:]).tools)
    else:
        cli.main(program, __version__)


def load() -> Settings:
    try:
        return settings.load()
    except settings.InvalidSettings as problem:
        sys.exit(f"error: the settings are not valid. {problem}")


def program(name: str) -> context.Program:
    """Return what the commands need. Help texts need none of it."""
    try:
        chosen = settings.load()
    except settings.InvalidSettings as problem:
        raise context.fail(settings.InvalidSettings(f"the settings are not valid. {problem}")) from None
    # A command's calls are only logged for debugging. `kho serve` sets up logging again for the hub.
    level = chosen.observe.log_level
    logs.set_up(level if level == "DEBUG" else "WARNING", chosen.observe.log_format, command=True)
    return context.Program(
        version=__version__,
        http=chosen.http,
        admin=settings.local_principal(chosen, admin=True),
        slices=tuple(slices.SLICES),
        registry=slices.describe,
        open_hub=partial(open_hub, chosen),
        stdio=partial(stdio, chosen),
        serve=partial(serve, chosen),
        where=settings.whereabouts(chosen),
        home=chosen.home,
        environment=os.environ,
        mask=lambda text: sanitizer.mask_secrets(text),
        evaluate=partial(evaluate, chosen),
        examine=partial(examine, chosen),
        standing=partial(standing, chosen),
        migrate=partial(bring_up_to_date, chosen),
        asks=chosen.database_url is not None,
        backups=partial(backups, chosen),
        verify=partial(verify, chosen),
        salvage=partial(salvage, chosen),
        models=partial(models, chosen),
        asking=asking,
        attach=partial(attach, chosen),
        simulate=simulate,
        faults=faults.FAULTS,
        listen_mqtt=partial(setattr, chosen.devices, "mqtt_broker"),
        mqtt_broker=chosen.devices.mqtt_broker,
        name=name,
        ask_hub=partial(ask_hub, chosen),
        answered=lambda answer: logs.unsaid.tell(str(answer)),
        running_hub=partial(running_hub, chosen),
    )


def ask_hub(chosen: Settings, *asked: Any) -> dict[str, Any]:
    folder = chosen.home / settings.SOCKETS
    return hub_socket.ask(folder, chosen.fingerprint, *asked) if folder.is_dir() else {}


def running_hub(chosen: Settings) -> str:
    folder = chosen.home / settings.SOCKETS
    return hub_socket.running(folder, chosen.fingerprint) if folder.is_dir() else ""


@asynccontextmanager
async def open_hub(chosen: Settings, only: Collection[str] | None = None) -> AsyncGenerator[Hub, None]:
    async with app.open_hub(chosen, only=slices.SLICES if only is None else only) as hub:
        collect_garbage()
        yield hub


def collect_garbage() -> None:
    """Enable garbage collection, with everything imported so far exempt: scanning it during imports takes a tenth of a
    start."""
    gc.freeze()
    gc.enable()


def serve(chosen: Settings, host: str, port: int, workers: int, reload: bool, tls: context.Tls | None) -> None:
    collect_garbage()
    server.run(
        "kho.app:asgi",
        host,
        port,
        workers,
        reload,
        tls=tls,
        modules=app.modules(chosen),
        trusted_proxies=chosen.http.trusted_proxies,
        header_timeout=chosen.http.header_timeout,
        body_timeout=chosen.http.body_timeout,
    )


def evaluate(chosen: Settings, *arguments: Any, **options: Any) -> Coroutine[Any, Any, dict[str, Any]]:
    collect_garbage()
    return doctor.evaluator(chosen)(*arguments, **options)


def examine(chosen: Settings, **options: Any) -> Coroutine[Any, Any, dict[str, Any]]:
    collect_garbage()
    return doctor.examine(chosen, **options)


def standing(chosen: Settings) -> Coroutine[Any, Any, dict[str, Any]]:
    return doctor.standing(chosen)


def bring_up_to_date(chosen: Settings, progress: context.Report) -> Coroutine[Any, Any, dict[str, Any]]:
    return doctor.bring_up_to_date(chosen, progress)


def backups(chosen: Settings) -> backup.Backups:
    collect_garbage()
    return backup.Backups(chosen, hubs)


def hubs(home: Path) -> str:
    return ", ".join(f"process {number}" for number in hub_socket.processes(home / settings.SOCKETS))


def verify(chosen: Settings, **options: Any) -> Coroutine[Any, Any, dict[str, Any]]:
    collect_garbage()
    return doctor.verify(chosen, **options)


def salvage(chosen: Settings, folder: Path, **options: Any) -> Coroutine[Any, Any, dict[str, Any]]:
    collect_garbage()
    return doctor.salvage(chosen, folder, **options)


def models(chosen: Settings) -> inventory.Inventory:
    embedder = chosen.search.embedder
    return inventory.Inventory(embedder, embedder.folder or chosen.home / settings.MODELS, os.environ)


def asking(door: Any, hub: Hub) -> AbstractAsyncContextManager[Any]:
    return hub_client.hub_client(door, hub)


async def attach(chosen: Settings, url: str, tools: list[str], tell: Any) -> None:
    await dial_out.attach(lambda: open_hub(chosen), url, select(chosen, tools), chosen.mcp.page_size, tell)


def select(chosen: Settings, tools: list[str]) -> toolset.Selection:
    """The tools that MCP clients list: those that a command names, else those of the settings."""
    return toolset.select(tools or chosen.mcp.tools, [*slices.SLICES], slices.tools)


def simulate(*arguments: Any, **options: Any) -> Coroutine[Any, Any, None]:
    collect_garbage()
    return doctor.simulate(*arguments, **options)


WAITING = """\
'kho stdio' speaks MCP with a program that starts it; it waits for that program's first message on stdin. \
'kho connect' sets up Claude, Cursor and others to start it, and 'kho serve' answers over HTTP. Ctrl-C ends it.
"""
"""For somebody who tries it at a terminal."""


def stdio(chosen: Settings, tools: list[str]) -> None:
    # Ctrl-C ends it like SIGTERM: a blocking read of stdin cannot be interrupted, and what was acknowledged is stored.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    logs.set_up(chosen.observe.log_level, chosen.observe.log_format)
    if sys.stdin.isatty():
        sys.stderr.write(WAITING)
    if address := running_hub(chosen):  # links lead to the hub that runs, whatever port it was given
        chosen.http.public_url = chosen.http.public_url or address
    try:
        listed, said = select(chosen, tools), slices.instructions()
        asyncio.run(mcp_stdio.serve(lambda: open_hub(chosen), __version__, said, listed, chosen.mcp.page_size))
    except errors.KhoError as error:
        sys.exit(f"error: {error.message}")
