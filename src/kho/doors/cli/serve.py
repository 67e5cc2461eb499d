"""`kho serve` and `kho stdio`."""

import errno
import json
import os
import socket
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import click

from kho.doors.auth.credentials import is_loopback
from kho.doors.cli import models
from kho.doors.cli.context import HttpSettings, Program, Tls, fail
from kho.doors.cli.terminal import echo
from kho.kernel.hub import Hub
from kho.lib import peer_account
from kho.lib.lazy_module import lazy

if TYPE_CHECKING:
    import ssl
else:
    (ssl,) = lazy("ssl")

EVERYWHERE = ("0.0.0.0", "::")
MQTT_PORT = 1883
HERE = "here"
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)

TOOLS = (
    "Tools that MCP clients list: a set (minimal, default, all), a capability such as documents, or a tool's name; "
    "several with commas or by repeating it."
)
tools_option = click.option("--tools", multiple=True, metavar="NAMES", help=TOOLS)


def register(group: click.Group, program: Program) -> None:
    http = program.http

    @group.command(help=program.help("Serve the hub over HTTP.", "serve --port 9000 --tools minimal,documents"))
    @click.option("--host", default=http.host, show_default=True, help="Address to listen on.")
    @click.option("--port", default=http.port, show_default=True, type=click.IntRange(0, 65535))
    @click.option("--workers", default=http.workers, show_default=True, type=click.IntRange(1, 64))
    @tools_option
    @click.option(
        "--mqtt-broker",
        metavar="[HOST:PORT]",
        is_flag=False,
        flag_value=HERE,
        help=f"Also run an MQTT broker for boards, at this address or on port {MQTT_PORT} of --host.",
    )
    @click.option(
        "--first-key",
        is_flag=True,
        help="If there is no key yet, make one and print it once: for a first start that others can reach.",
    )
    @click.option("--tls-cert", type=_FILE, help="Speak HTTPS with this certificate (PEM).")
    @click.option("--tls-key", type=_FILE, help="The private key of --tls-cert (PEM, without a password).")
    @click.option("--reload", is_flag=True, help="Restart when the source changes, for developers.")
    def serve(  # pyright: ignore[reportUnusedFunction]
        host: str,
        port: int,
        workers: int,
        tools: tuple[str, ...],
        mqtt_broker: str | None,
        first_key: bool,
        tls_cert: Path | None,
        tls_key: Path | None,
        reload: bool,
    ) -> None:
        tls = _tls(tls_cert or http.tls_cert, tls_key or http.tls_key)
        if mqtt_broker is not None:
            mqtt_broker = f"{host}:{MQTT_PORT}" if mqtt_broker == HERE else mqtt_broker
            _listen_mqtt(program, mqtt_broker)
        # Open the hub once before the server does: wrong settings are a sentence here, but a traceback there.
        keyless = not program.run(partial(_has_keys, tools=tools), *program.slices)
        if keyless and not is_loopback(host):
            if not first_key:
                raise fail(
                    f"{host} can be reached from other machines, so callers need a key, and there is none yet. Make "
                    f"one with '{program.name} keys create' and start again, add --first-key to make it now, or "
                    "listen on 127.0.0.1."
                )
            key = program.run(partial(_first_key, program), *program.slices)
            echo(f"The first key, which is not shown again: {key}", err=True)
            echo(
                f"Callers send it as 'Authorization: Bearer …'. More keys: '{program.name} keys create NAME'; no "
                f"longer this one: '{program.name} keys revoke ID'.",
                err=True,
            )
        if warning := _open_home(program.home):
            echo(warning, err=True)
        models.offer(program)
        port = _free_port(host, port)
        # The application, here or in a worker process, reads its own settings, so options are passed as environment
        # variables.
        os.environ |= {"KHO_HTTP__HOST": host, "KHO_HTTP__PORT": str(port)}
        if tools:
            os.environ["KHO_MCP__TOOLS"] = json.dumps(tools)
        if not is_loopback(host) and host not in EVERYWHERE:
            os.environ["KHO_HTTP__ALLOWED_HOSTS"] = json.dumps([*http.allowed_hosts, host])
        if tls is not None:
            os.environ["KHO_HTTP__TLS_CERT"], os.environ["KHO_HTTP__TLS_KEY"] = tls
        for warning in filter(None, (_in_clear(host, http, tls), _mqtt_in_clear(mqtt_broker or program.mqtt_broker))):
            echo(warning, err=True)
        ready = f"Kho {program.version} answers at {_addresses(host, port, tls)} (data in {program.where})"
        if keyless and is_loopback(host):
            ready += _let_in(program)
        Thread(target=_announce, args=(host, port, ready), daemon=True).start()
        program.serve(host, port, workers, reload, tls)

    @group.command(help=program.help("Serve one MCP client over stdin and stdout.", "stdio --tools minimal,documents"))
    @tools_option
    def stdio(tools: tuple[str, ...]) -> None:  # pyright: ignore[reportUnusedFunction]
        program.stdio(list(tools))


def _tls(certificate: Path | None, private_key: Path | None) -> Tls | None:
    """Return the files, once they have been read: the server would end with a traceback."""
    if certificate is None and private_key is None:
        return None
    if certificate is None or private_key is None:
        raise fail("--tls-cert and --tls-key need each other: name both.")
    try:
        # A password is never asked for: nobody may be there to type one.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, private_key, password=lambda: "")
    except ssl.SSLError as error:
        reason = "they do not belong together" if error.reason == "KEY_VALUES_MISMATCH" else "both must be PEM files"
        raise fail(
            f"the certificate {certificate} and the key {private_key} cannot be used: {reason}, and the key "
            "must have no password."
        ) from None
    except OSError as error:
        raise fail(f"the certificate or its key cannot be read: {error.strerror}.") from None
    return str(certificate.absolute()), str(private_key.absolute())


def _in_clear(host: str, http: HttpSettings, tls: Tls | None) -> str:
    """Return a warning if callers on other machines would send their keys unencrypted, as far as can be known here."""
    if tls is not None or is_loopback(host) or http.public_url.startswith("https://"):
        return ""
    return (
        "Warning: keys and data travel unencrypted between this hub and other machines. Start it with --tls-cert and "
        "--tls-key, or behind a proxy that speaks HTTPS, and name that address in KHO_HTTP__PUBLIC_URL=https://…."
    )


def _mqtt_in_clear(broker: str) -> str:
    """The same of boards, whose tokens go to the broker."""
    if not broker or is_loopback(broker.rpartition(":")[0]):
        return ""
    return (
        f"Warning: tokens of boards and what they say travel unencrypted to the MQTT broker at {broker}, which speaks "
        "no TLS. Keep it to a network that you trust, or use another broker by mqtts:// (KHO_DEVICES__MQTT_URL)."
    )


def _let_in(program: Program) -> str:
    """Return who is let in without keys, if it is more than this account."""
    if not program.http.other_accounts and peer_account.known():
        return ""
    return f"\nWithout keys every account of this machine is let in. '{program.name} keys create' changes that."


def _open_home(home: Path) -> str:
    """Return a warning if other accounts can look into the folder of the hub's data. It may be a mounted volume, or
    hold other things, so its mode is left as it is."""
    try:
        mode = home.stat().st_mode & 0o777
    except FileNotFoundError:
        return ""
    if os.name != "posix" or not mode & 0o077:
        return ""
    return (
        f"Warning: other accounts of this machine can look into {home} (mode {mode:04o}); Kho's own files in it are "
        f"closed to them. 'chmod 700 {home}' closes it."
    )


def _addresses(host: str, port: int, tls: Tls | None = None) -> str:
    """Return addresses that work: 0.0.0.0 is one to listen on, not one to call."""
    scheme = "http" if tls is None else "https"
    if host not in EVERYWHERE:
        return (
            f"{scheme}://[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{scheme}://{host}:{port}"
        )
    here = f"{scheme}://127.0.0.1:{port}"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing: it only asks the system which address it would use
        except OSError:
            return here
        return f"{here}, for other machines at {scheme}://{probe.getsockname()[0]}:{port}"


def _announce(host: str, port: int, ready: str) -> None:
    """Print `ready` once the port accepts connections: with workers, when the first of them has started."""
    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host.strip("[]"))
    while True:
        try:
            socket.create_connection((here, port), timeout=1.0).close()
        except OSError:
            time.sleep(0.02)
        else:
            echo(ready, err=True)
            return


def _listen_mqtt(program: Program, where: str) -> None:
    host, port = host_port(where, "--mqtt-broker")
    os.environ["KHO_DEVICES__MQTT_BROKER"] = f"{host}:{_free_port(host, port, '--mqtt-broker')}"
    program.listen_mqtt(where)


def host_port(text: str, option: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise fail(f"{option} must be HOST:PORT.")
    return host, int(port)


async def _has_keys(hub: Hub, *, tools: Sequence[str]) -> bool:
    hub.registry.select(tools)
    return await hub.keys.in_use()


async def _first_key(program: Program, hub: Hub) -> str:
    operation = hub.registry.actions["create_key"]
    made = await hub.registry.call(operation, {"name": "first-key", "confirm": True}, program.call())
    if made.error is not None:
        raise made.error
    return made.value["key"]


def _free_port(host: str, port: int, option: str = "--port") -> int:
    """Return the port, or a free one for 0. A port that is taken is reported in a sentence, not as a traceback of the
    server."""
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
