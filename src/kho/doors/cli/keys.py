"""`kho keys`: the API keys of a shared hub."""

import re
from collections.abc import Sequence
from typing import Any

import click

from kho.doors.cli import output
from kho.doors.cli.confirmation import somebody_is_there
from kho.doors.cli.context import Program, fail, json_option
from kho.kernel import Hub, NotFound, Unconfirmed, api_keys
from kho.kernel.access import METRICS
from kho.kernel.api_keys import ApiKey
from kho.kernel.vocabulary import synonym
from kho.lib.clock import DAY, iso
from kho.lib.markdown import counted

OTHERS = "More keys: '{name} keys create NAME'; no longer this one: '{name} keys revoke ID'."
LOCKED = (
    "Once there is a key, every caller over HTTP needs one; '{name} stdio' and this command line need none. "
    "'{name} keys reset' goes back."
)
NONE_LEFT = (
    "No valid key is left, so nobody is answered over HTTP. '{name} keys create' makes another; '{name} keys reset' "
    "goes back to a hub without keys, which answers everybody on this machine."
)


yes_option = click.option("--yes", "-y", is_flag=True, help="Do it without asking.")


def register(group: click.Group, program: Program) -> None:
    summary = "API keys. Once there is one, every caller over HTTP needs one."
    keys = click.Group("keys", help=program.help(summary, "keys create chatbot"), short_help=summary)
    for command in (_create, _list, _revoke, _reset):
        keys.add_command(command(program))
    group.add_command(keys)


def create(program: Program, name: str, tenant: str, scopes: Sequence[str] = (), days: int = 0) -> tuple[ApiKey, str]:
    """Store a new key; return it and the text to show once."""
    id, text, digest = api_keys.mint()

    async def work(hub: Hub) -> ApiKey:
        now = hub.clock()
        expires = now + days * DAY if days else None
        key = ApiKey(id, name or f"key-{id}", tenant, tuple(scopes) or ("*",), digest, now, expires)
        await hub.keys.add(key, program.admin.sub)
        return key

    return program.run(work), text


def _create(program: Program) -> click.Command:
    @click.command(
        help=program.help(
            "Make a key for NAME, which logs will show. The key is shown once. Before the first one it asks, at a "
            "terminal: from then on callers over HTTP need a key.",
            "keys create chatbot",
            "keys create chatbot --tenant acme --scope exp:read --scope exp:write",
        )
    )
    @click.argument("name", default="")
    @click.option(
        "--tenant", default=program.admin.tenant, show_default=True, help="The tenant whose data it gives access to."
    )
    @click.option("--scope", multiple=True, help="A scope that it allows; repeatable. Without it, all but admin.")
    @click.option("--days", default=0, type=click.IntRange(min=0), help="Days until it expires; 0 is never.")
    @yes_option
    @json_option
    def create_(name: str, tenant: str, scope: tuple[str, ...], days: int, yes: bool, json: bool) -> None:
        if not re.fullmatch(r"[\w.:/@+-]{1,128}", tenant):
            raise fail("a tenant's name has 1 to 128 letters, digits or characters of . : / @ + - _")
        known = sorted([*program.registry(program.slices).scopes, METRICS])
        scope = tuple(synonym(one, known, ":") for one in scope)
        if unknown := sorted({*scope} - {*known, "*"}):
            raise fail(f"no such scope: {', '.join(unknown)}. There are: {', '.join(known)}.")
        first = not program.run(lambda hub: hub.keys.in_use())
        locked = LOCKED.format(name=program.name)
        if first and not yes and not json and somebody_is_there():
            click.confirm(
                f"So far the hub answers everybody on this machine. {locked} Make the first key?", abort=True, err=True
            )
        key, text = create(program, name, tenant, scope, days)
        if json:
            output.as_json({**_shown(key), "key": text})
            return
        click.echo(text)
        click.echo(
            f"Keep it: it is not shown again. Callers send it as 'Authorization: Bearer {text[:12]}…'.", err=True
        )
        if first:
            click.echo(locked, err=True)

    create_.name = "create"
    return create_


def _list(program: Program) -> click.Command:
    @click.command("list", help=program.help("List the keys, without their secrets.", "keys list --json"))
    @json_option
    def list_(json: bool) -> None:
        async def work(hub: Hub) -> list[ApiKey]:
            return list(await hub.keys.all())

        found = program.run(work)
        if json:
            output.as_json([_shown(key) for key in found])
            return
        for key in found:
            state = "revoked" if key.revoked_at else f"expires {iso(key.expires_at)}" if key.expires_at else "valid"
            click.echo(f"{key.id}  {key.sub}  tenant {key.tenant}  {' '.join(key.scopes)}  {state}")
        if not found:
            click.echo("There are no keys: the hub answers this machine's user only.", err=True)

    return list_


def _revoke(program: Program) -> click.Command:
    @click.command(
        help=program.help(
            "Refuse the key with that ID (the eight characters after 'kho_'). A running hub notices in two seconds.",
            "keys revoke 1f9d3c07",
        )
    )
    @click.argument("id")
    @json_option
    def revoke(id: str, json: bool) -> None:
        id = api_keys.public_id(id) or id  # accepts the whole key, too

        async def work(hub: Hub) -> tuple[bool, bool]:
            revoked = await hub.keys.revoke(id, hub.clock(), program.admin.sub)
            return revoked, any(key.valid(hub.clock()) for key in await hub.keys.all())

        revoked, left = program.run(work)
        if not revoked:
            raise fail(NotFound(f"there is no valid key with that id. '{program.name} keys list' shows them."))
        if json:
            output.as_json({"id": id, "revoked": True})
        else:
            click.echo(f"Revoked {id}.")
            if not left:
                click.echo(NONE_LEFT.format(name=program.name), err=True)

    return revoke


def _reset(program: Program) -> click.Command:
    @click.command(
        help=program.help(
            "Delete all keys, so that the hub answers everybody on this machine without one again, and nobody else. A "
            "running hub still asks for keys until it is restarted.",
            "keys reset --yes",
        )
    )
    @yes_option
    @json_option
    def reset(yes: bool, json: bool) -> None:
        async def look(hub: Hub) -> tuple[int, int]:
            found = await hub.keys.all()
            return len(found), sum(key.valid(hub.clock()) for key in found)

        count, valid = program.run(look)
        warning = f"This deletes {counted(count, 'key')}, {valid} of them valid: callers that use one are refused."
        if count and not yes:
            if json or not somebody_is_there():
                raise fail(Unconfirmed(f"{warning} Nothing was done yet: add --yes to do it."))
            click.confirm(f"{warning} Go on?", abort=True, err=True)
        deleted = program.run(lambda hub: hub.keys.reset(hub.clock(), program.admin.sub))
        if json:
            output.as_json({"deleted": deleted})
            return
        click.echo(f"Deleted {counted(deleted, 'key')}. The hub needs none again, for callers on this machine only.")
        click.echo("A running hub asks for keys until you restart it.", err=True)

    return reset


def _shown(key: ApiKey) -> dict[str, Any]:
    return {
        "id": key.id,
        "name": key.sub,
        "tenant": key.tenant,
        "scopes": list(key.scopes),
        "created_at": iso(key.created_at),
        "expires_at": iso(key.expires_at) if key.expires_at else None,
        "revoked_at": iso(key.revoked_at) if key.revoked_at else None,
    }
