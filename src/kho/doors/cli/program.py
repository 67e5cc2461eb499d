"""What the command line is given by the composition root."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import click

from kho.kernel.call import Call, Principal
from kho.kernel.errors import KhoError
from kho.kernel.hub import Hub
from kho.kernel.registry import Registry

T = TypeVar("T")


class HttpSettings(Protocol):
    """The part of the settings that `kho serve` reads."""

    host: str
    port: int
    workers: int
    header_timeout: float
    body_timeout: float
    allowed_hosts: list[str]


@dataclass(frozen=True, slots=True)
class Program:
    version: str
    home: Path
    http: HttpSettings
    admin: Principal
    """The user at this machine's command line."""
    registry: Callable[[], Registry]
    """The operations, for help texts; nothing is opened."""
    open_hub: Callable[[], AbstractAsyncContextManager[Hub]]
    stdio: Callable[[list[str]], None]
    """Serves MCP on stdio, narrowed to some capabilities' tools."""
    asgi: str
    """Where a worker process finds the application."""

    def run(self, work: Callable[[Hub], Awaitable[T]]) -> T:
        """Opens the hub, does `work` with it, and closes it again."""

        async def session() -> T:
            async with self.open_hub() as hub:
                return await work(hub)

        try:
            return asyncio.run(session())
        except KhoError as error:
            raise fail(error.message) from None

    def call(self) -> Call:
        return Call(self.admin, "cli")


def fail(message: str) -> click.exceptions.Exit:
    """To be raised: says what went wrong and ends with status 1."""
    click.secho(f"error: {message}", err=True, fg="red")  # click drops the colour where there is no terminal
    return click.exceptions.Exit(1)


json_option = click.option("--json", is_flag=True, help="Answer in JSON.")


def with_example(text: str, *commands: str) -> str:
    """A help text that ends in commands one can type."""
    return f"{text}\n\n\b\nExample:\n" + "\n".join(f"  {command}" for command in commands)
