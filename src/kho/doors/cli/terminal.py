"""The one way in which the command line prints: no stored text, file name or error can drive the terminal."""

import click

from kho.lib.visible import escaped, visible


def echo(text: object = "", *, err: bool = False, fg: str | None = None) -> None:
    """Print text for people. Control characters show as signs; the colour goes if there is no terminal."""
    click.secho(visible(str(text)), err=err, fg=fg)


def echo_json(text: str) -> None:
    """Print JSON. Control characters stand in it as escapes."""
    click.echo(escaped(text))
