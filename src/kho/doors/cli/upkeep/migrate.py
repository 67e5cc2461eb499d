"""`kho migrate`: says whether the database is that of this version, and brings it up to date."""

from typing import Any

import click

from kho.doors.cli import confirmation, output
from kho.doors.cli.context import Program, fail, json_option
from kho.doors.cli.progress import reporting
from kho.doors.cli.terminal import echo
from kho.kernel.errors import KhoError
from kho.lib.markdown import counted

Standing = dict[str, Any]
MEGABYTE = 1_000_000
COPIED = 50 * MEGABYTE
"""Bytes that a second is counted for: a slow disk copies as many, and others a few times as many."""
BACKUP = "PostgreSQL is not copied before it is brought up to date, and there is no way back but a backup."
STATUS = {"pending": 1, "refused": 2}
"""Exit status of a check; 0 if there is nothing to do."""


def register(group: click.Group, program: Program) -> None:
    @group.command(
        help=program.help(
            "Check whether the database is up to date, and with --apply bring it up to date. The check exits with 0 if "
            "there is nothing to do, 1 if migrations are missing, 2 if this version cannot use the database.",
            "migrate --check",
            "migrate --apply --yes",
        )
    )
    @click.option("--check", is_flag=True, help="Only say what is missing; the same as without options.")
    @click.option("--apply", is_flag=True, help="Apply what is missing: all of it, or nothing.")
    @click.option("--yes", is_flag=True, help="Do not ask.")
    @json_option
    def migrate(check: bool, apply: bool, yes: bool, json: bool) -> None:  # pyright: ignore[reportUnusedFunction]
        if check and apply:
            raise fail("--check and --apply exclude each other.")
        found = _standing(program)
        if not apply or found["state"] != "pending":
            nothing: Standing = {"applied": []} if apply and found["state"] != "refused" else {}
            _tell({**found, **nothing}, _words(found), json=json)
            raise SystemExit(STATUS.get(found["state"], 0))
        if program.asks and not yes:
            if json or not confirmation.somebody_is_there():
                raise fail(f"{BACKUP} Nothing was done yet. Make one with 'kho backup FILE', then add --yes.")
            for line in [*_words(found)[:2], BACKUP]:
                echo(line, err=True)
            click.confirm("Is there one, and are all hubs of the earlier version ended?", abort=True, err=True)
        with reporting() as progress:
            done = program.finish(program.migrate(progress))
        _tell({**found, "state": "current", "pending": [], **done}, _applied(done), json=json)


def _standing(program: Program) -> Standing:
    async def work() -> Standing:
        try:
            return await program.standing()
        except KhoError as problem:
            return {"state": "refused", "from": "", "pending": [], "problem": problem.message}

    return {"database": program.where, "to": program.version, **program.finish(work())}


def _words(found: Standing) -> list[str]:
    database = f"The database is {found['database']}."
    if found["state"] == "refused":
        return [found["problem"], database]
    if found["state"] == "empty":
        return ["There is nothing to do: the database is empty, and is set up when it is first used.", database]
    if found["state"] == "current":
        return [f"The database is up to date with Kho {found['to']}.", database]
    pending: list[str] = found["pending"]
    before = f"Kho {found['from']}" if found["from"] else "an earlier version of Kho"
    lines = [f"{counted(len(pending), 'migration')} to apply, from {before} to {found['to']}: {', '.join(pending)}."]
    lines.append(database)
    size = max(1, round(found["bytes"] / MEGABYTE))
    if "free" in found:
        room = f"{found['free'] // MEGABYTE:,} MB are free there"
        lines.append(f"It is copied first, beside it: that takes {size:,} MB ({room}) and about {_time(found)}.")
    else:
        lines.append(f"It has {size:,} MB; what rewrites its tables may take about {_time(found)}.")
        lines.append("Make a backup ('kho backup FILE') and end all hubs of the earlier version first.")
    return [*lines, "'kho migrate --apply' brings it up to date."]


def _time(found: Standing) -> str:
    seconds = max(1, round(found["bytes"] / COPIED))
    return counted(seconds, "second") if seconds < 120 else counted(round(seconds / 60), "minute")


def _applied(done: dict[str, Any]) -> list[str]:
    copied = [f"As it was before, it is kept in {done['copy']}"] if "copy" in done else []
    return [f"Up to date: {counted(len(done['applied']), 'migration')} applied.", *copied]


def _tell(found: dict[str, Any], lines: list[str], *, json: bool) -> None:
    if json:
        output.as_json(found)
        return
    for line in lines:
        echo(line)
