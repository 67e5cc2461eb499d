"""What the program does: a command, or MCP on stdio."""

import asyncio
import sys
from argparse import ArgumentParser
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from functools import cache, partial
from importlib import import_module
from typing import Any

from kho import __version__, app
from kho.doors import logs
from kho.kernel.errors import KhoError
from kho.kernel.hub import Hub
from kho.settings import InvalidSettings, Settings, load


def main() -> None:
    try:
        settings = load()
    except InvalidSettings as problem:
        sys.exit(f"error: the settings are not valid. {problem}")
    # Doors and the doctor are loaded by name, when they are needed: importing them all takes longer than most commands.
    if sys.argv[1:2] == ["stdio"] and not {"-h", "--help"} & set(sys.argv):
        # A client waits for the first answer. It gets by without the command line's imports.
        parser = ArgumentParser("kho stdio")
        parser.add_argument("--tools", default="")
        stdio(settings, [name for name in parser.parse_args(sys.argv[2:]).tools.split(",") if name])
        return
    # One command, one answer: its calls need no log, unless somebody looks for a mistake. `kho serve` sets the log up
    # anew for the hub.
    level = settings.observe.log_level
    logs.set_up(level if level == "DEBUG" else "WARNING", settings.observe.log_format)
    program = import_module("kho.doors.cli.context").Program(
        version=__version__,
        home=settings.home,
        http=settings.http,
        admin=app.local_principal(settings, admin=True),
        registry=cache(app.describe),
        open_hub=lambda: app.open_hub(settings),
        stdio=partial(stdio, settings),
        serve=partial(serve, settings),
        where=app.whereabouts(settings),
        evaluate=partial(evaluate, settings),
        examine=partial(examine, settings),
        asking=asking,
        attach=partial(attach, settings),
        simulate=simulate,
        faults=app.FAULTS,
        listen_mqtt=partial(setattr, settings.devices, "mqtt_broker"),
    )
    import_module("kho.doors.cli").main(program)


def serve(settings: Settings, host: str, port: int, workers: int, reload: bool) -> None:
    times = {"header_timeout": settings.http.header_timeout, "body_timeout": settings.http.body_timeout}
    import_module("kho.doors.http.server").run("kho.app:asgi", host, port, workers, reload, **times)


def evaluate(settings: Settings, *arguments: Any, **options: Any) -> Coroutine[Any, Any, dict[str, Any]]:
    return import_module("kho.doctor").evaluator(settings)(*arguments, **options)


def examine(settings: Settings, **options: Any) -> Coroutine[Any, Any, dict[str, Any]]:
    return import_module("kho.doctor").examine(settings, **options)


def asking(door: str, hub: Hub) -> AbstractAsyncContextManager[Any]:
    return import_module("kho.evaluation.hub_client").hub_client(door, hub)


def attach(settings: Settings, url: str, tools: list[str], tell: Any) -> Coroutine[Any, Any, None]:
    toolsets = frozenset(tools or settings.mcp.tools)
    serve = import_module("kho.doors.mcp.dial_out").attach
    return serve(lambda: app.open_hub(settings), url, toolsets, settings.mcp.page_size, tell)


def simulate(*arguments: Any, **options: Any) -> Coroutine[Any, Any, None]:
    return import_module("kho.doctor").simulate(*arguments, **options)


def stdio(settings: Settings, tools: list[str]) -> None:
    logs.set_up(settings.observe.log_level, settings.observe.log_format)
    toolsets = frozenset(tools or settings.mcp.tools)
    serve = import_module("kho.doors.mcp.stdio").serve
    try:
        asyncio.run(serve(lambda: app.open_hub(settings), toolsets, settings.mcp.page_size))
    except KhoError as error:
        sys.exit(f"error: {error.message}")
