"""`kho devices simulate` and `kho devices attach`: both run until interrupted."""

from collections.abc import Callable
from typing import Any

import click
import orjson

from kho.doors.cli.context import Happening, Program, fail, json_option
from kho.doors.cli.lazy_group import Group
from kho.doors.cli.operations import subgroup
from kho.doors.cli.serve import host_port, tools_option
from kho.doors.cli.terminal import echo, echo_json


def register(group: Group, program: Program) -> None:
    http = program.http
    devices = subgroup(group, "devices", program, "Boards.", lambda: "devices simulate --count 3")

    @devices.command(
        help=program.help(
            "Connect virtual boards to a hub, until you press Ctrl-C. They have the tools of real ones, and state that "
            "changes.",
            f"devices simulate --count 3 --url ws://127.0.0.1:{http.port}/xiaozhi/v1/",
            "devices simulate --mqtt 127.0.0.1:1883 --fault drop",
        ),
        short_help="Connect virtual boards to a hub.",
    )
    @click.option("--count", default=1, show_default=True, type=click.IntRange(1, 10_000), help="How many.")
    @click.option(
        "--first",
        default=1,
        show_default=True,
        type=click.IntRange(1, 1_000_000),
        help="Number of the first board; two simulations at one hub need different numbers.",
    )
    @click.option(
        "--url", default=f"ws://127.0.0.1:{http.port}/xiaozhi/v1/", show_default=True, help="The hub's WebSocket."
    )
    @click.option(
        "--mqtt",
        default="",
        metavar="HOST:PORT",
        help="Connect to this broker instead of the address that the hub gives to boards.",
    )
    @click.option(
        "--fault",
        multiple=True,
        type=click.Choice(program.faults),
        help="Make each board's answer to its first call fail like this; repeat it for the second call, and so on.",
    )
    @json_option
    def simulate(  # pyright: ignore[reportUnusedFunction]
        count: int, first: int, url: str, mqtt: str, fault: tuple[str, ...], json: bool
    ) -> None:
        if mqtt and "://" not in mqtt:
            host_port(mqtt, "--mqtt")

        def tell(happening: Happening) -> None:
            if json:
                said = {"device": happening.device, "what": happening.what, **happening.more}
                echo_json(orjson.dumps(said).decode())
            else:
                echo(f"{happening.device} {happening.text}")

        _until_interrupted(
            program, lambda: program.simulate(count, url, first=first, mqtt=mqtt, faults=fault, tell=tell)
        )

    @devices.command(
        help=program.help(
            "Serve Kho's tools at an MCP endpoint that a device's assistant hands out, until you press Ctrl-C. The "
            "address has a token in it: give - to type it where nobody sees it.",
            "devices attach 'wss://api.example.org/mcp/?token=…' --tools research",
        ),
        short_help="Serve Kho's tools to a device's assistant.",
    )
    @click.argument("url")
    @tools_option
    @json_option
    def attach(url: str, tools: tuple[str, ...], json: bool) -> None:  # pyright: ignore[reportUnusedFunction]
        address = click.prompt("Address", hide_input=True, err=True) if url == "-" else url

        def tell(what: str, text: str) -> None:
            echo_json(orjson.dumps({"what": what, "message": text}).decode()) if json else echo(text)

        _until_interrupted(program, lambda: program.attach(address, list(tools), tell))


def _until_interrupted(program: Program, work: Callable[[], Any]) -> None:
    try:
        program.finish(work())
    except KeyboardInterrupt:
        echo("Stopped.", err=True)
    except ExceptionGroup as problems:
        raise fail("; ".join(sorted({str(problem) for problem in problems.exceptions}))) from None
