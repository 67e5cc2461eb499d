"""`kho keys`: who may call a shared hub."""

import re
from typing import Any

import click

from kho.doors.cli import output
from kho.doors.cli.context import Program, fail, json_option
from kho.kernel import api_keys
from kho.kernel.api_keys import ApiKey
from kho.kernel.errors import NotFound
from kho.kernel.hub import Hub
from kho.lib.clock import DAY, iso


def register(group: click.Group, program: Program) -> None:
    summary = "API keys. Once there is one, every caller over HTTP needs one."
    keys = click.Group("keys", help=program.help(summary, "keys create chatbot"), short_help=summary)
    keys.add_command(_create(program))
    keys.add_command(_list(program))
    keys.add_command(_revoke(program))
    group.add_command(keys)


def _create(program: Program) -> click.Command:
    @click.command(
        help=program.help(
            "Make a key for NAME, which logs will show. The key is shown once.",
            "keys create chatbot --tenant acme --scope exp:read --scope exp:write",
        )
    )
    @click.argument("name")
    @click.option("--tenant", default=program.admin.tenant, show_default=True, help="Whose data it opens.")
    @click.option("--scope", multiple=True, help="What it allows; repeatable. Everything but admin when absent.")
    @click.option("--days", default=0, type=click.IntRange(min=0), help="Days until it expires; 0 is never.")
    @json_option
    def create(name: str, tenant: str, scope: tuple[str, ...], days: int, json: bool) -> None:
        if not re.fullmatch(r"[\w.:/@+-]{1,128}", tenant):
            raise fail("a tenant's name has 1 to 128 letters, digits or characters of . : / @ + - _")
        known = program.registry().scopes
        if unknown := sorted({*scope} - {*known, "*"}):
            raise fail(f"no such scope: {', '.join(unknown)}. There are: {', '.join(known)}.")
        id, text, digest = api_keys.mint()

        async def work(hub: Hub) -> ApiKey:
            now = hub.clock()
            key = ApiKey(id, name, tenant, scope or ("*",), digest, now, now + days * DAY if days else None)
            await hub.keys.add(key)
            return key

        key = program.run(work)
        if json:
            output.as_json({**_shown(key), "key": text})
            return
        click.echo(text)
        click.echo("Keep it: it is not shown again. From now on every caller over HTTP needs a key.", err=True)

    return create


def _list(program: Program) -> click.Command:
    @click.command("list", help=program.help("List the keys there are, without their secrets.", "keys list --json"))
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
        id = api_keys.public_id(id) or id  # the whole key will do, too

        async def work(hub: Hub) -> bool:
            return await hub.keys.revoke(id, hub.clock())

        if not program.run(work):
            raise fail(NotFound(f"there is no valid key with that id. '{program.name} keys list' shows them."))
        if json:
            output.as_json({"id": id, "revoked": True})
        else:
            click.echo(f"Revoked {id}.")

    return revoke


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
