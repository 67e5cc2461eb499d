"""`kho serve` and `kho stdio`."""

import errno
import json
import os
import socket
from functools import partial

import click

from kho.doors.auth.credentials import is_loopback
from kho.doors.cli.context import Program, fail
from kho.kernel.hub import Hub

EVERYWHERE = ("0.0.0.0", "::")
MQTT_PORT = 1883
HERE = "here"


def register(group: click.Group, program: Program) -> None:
    http = program.http

    @group.command(help=program.help("Serve the hub over HTTP.", "serve --port 9000 --tools experiences"))
    @click.option("--host", default=http.host, show_default=True, help="Address to listen on.")
    @click.option("--port", default=http.port, show_default=True, type=click.IntRange(0, 65535))
    @click.option("--workers", default=http.workers, show_default=True, type=click.IntRange(1, 64))
    @click.option("--tools", default="", help="Offer only these capabilities' tools over MCP, e.g. 'experiences'.")
    @click.option(
        "--mqtt-broker",
        metavar="[HOST:PORT]",
        is_flag=False,
        flag_value=HERE,
        help=f"Be an MQTT broker for boards, too, here or on port {MQTT_PORT} of --host.",
    )
    @click.option("--reload", is_flag=True, help="Start again whenever the source changes, for developers.")
    def serve(  # pyright: ignore[reportUnusedFunction]
        host: str, port: int, workers: int, tools: str, mqtt_broker: str | None, reload: bool
    ) -> None:
        if mqtt_broker is not None:
            _listen_mqtt(program, f"{host}:{MQTT_PORT}" if mqtt_broker == HERE else mqtt_broker)
        # Opened once before the server does: what is wrong with the settings is a sentence here, a traceback there.
        if not program.run(partial(_has_keys, tools=_names(tools))) and not is_loopback(host):
            raise fail(
                f"{host} can be reached from elsewhere, so callers need keys. Make one first with "
                "'kho keys create', or listen on 127.0.0.1."
            )
        port = _free_port(host, port)
        # The application, here or in a worker process, reads its own settings: options reach it as such.
        if tools:
            os.environ["KHO_MCP__TOOLS"] = json.dumps(_names(tools))
        if not is_loopback(host) and host not in EVERYWHERE:
            os.environ["KHO_HTTP__ALLOWED_HOSTS"] = json.dumps([*http.allowed_hosts, host])
        click.echo(f"Kho {program.version} answers at http://{host}:{port} (data in {program.where})", err=True)
        program.serve(host, port, workers, reload)

    @group.command(help=program.help("Serve one MCP client over stdin and stdout.", "stdio --tools experiences"))
    @click.option("--tools", default="", help="Offer only these capabilities' tools, e.g. 'experiences'.")
    def stdio(tools: str) -> None:  # pyright: ignore[reportUnusedFunction]
        program.stdio(_names(tools))


def _listen_mqtt(program: Program, where: str) -> None:
    host, port = host_port(where, "--mqtt-broker")
    os.environ["KHO_DEVICES__MQTT_BROKER"] = f"{host}:{_free_port(host, port, '--mqtt-broker')}"
    program.listen_mqtt(where)


def host_port(text: str, option: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise fail(f"{option} is written HOST:PORT.")
    return host, int(port)


async def _has_keys(hub: Hub, *, tools: list[str]) -> bool:
    hub.registry.need_capabilities(tools)
    return await hub.keys.in_use()


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _free_port(host: str, port: int, option: str = "--port") -> int:
    """The port, or one that is free for 0. A taken port is a plain sentence, not a traceback of the server."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host.strip("[]"), port))
        except OSError as problem:
            if problem.errno == errno.EADDRINUSE:
                raise fail(f"port {port} is taken. Choose another with {option}.") from None
            raise fail(f"cannot listen on {host}:{port}: {problem.strerror}.") from None
        return probe.getsockname()[1]
