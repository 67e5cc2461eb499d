"""`kho admin purge`: of a document by its id, or of a tenant, a person or what is old. These are two operations under
one name; what is typed tells which is meant."""

from typing import Any

import click

from kho.doors.cli import operations
from kho.doors.cli.context import Program
from kho.doors.cli.lazy_group import Group

GROUP, NAME = "admin", "purge"
SUMMARY = "Erase for good: a deleted document, a tenant, a person, or what is old."
OF_DOCUMENT, OF_STORE = "documents", "administration"


def register(group: Group, program: Program) -> None:
    above = operations.subgroup(group, GROUP, program, "Operations for admins.", lambda: f"{GROUP} {NAME} --help")
    above.add_later(NAME, lambda: Purge(program))


class Purge(click.Command):
    """Looks like the one of a store, and is the one of a document if no flag tells otherwise."""

    def __init__(self, program: Program) -> None:
        self._of_document, self._of_store = (_command(program, one) for one in (OF_DOCUMENT, OF_STORE))
        summary, _, rest = (self._of_store.help or "").partition("\n\n")
        document = f"'{program.name} {GROUP} {NAME} DOCUMENT_ID' erases a deleted document and all below it."
        self._of_store.help = f"{summary}\n\n{document}\n\n{rest}"
        super().__init__(NAME, help=self._of_store.help, short_help=SUMMARY, params=self._of_store.params)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        own = _flags(self._of_store) - _flags(self._of_document) | {"--help", "-h"}
        meant = self._of_document if args and own.isdisjoint(one.partition("=")[0] for one in args) else self._of_store
        return meant.make_context(info_name, args, parent, **extra)


def _flags(command: click.Command) -> set[str]:
    return {flag for one in command.params for flag in (*one.opts, *one.secondary_opts)}


def _command(program: Program, slice: str) -> click.Command:
    top = Group(None, str)
    operations.register(top, program, program.registry([slice]))
    group = top.commands[GROUP]
    assert isinstance(group, click.Group)
    found = group.get_command(click.Context(group), NAME)
    assert found is not None
    return found
