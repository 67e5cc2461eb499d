"""`kho verify`: reads the whole store and says what is wrong with it, and which command helps."""

from typing import Any

import click

from kho.doors.cli import output
from kho.doors.cli.context import Program, json_option
from kho.doors.cli.progress import reporting
from kho.doors.cli.terminal import echo
from kho.kernel.errors import KhoError

Found = dict[str, Any]

WHOLE, DAMAGED, UNKNOWN = 0, 1, 2
"""Exit status."""
REPAIR = "'kho verify --repair' makes the indexes again from the rows."
RESCUE = (
    "Stop Kho. If you have a backup, 'kho restore FILE' brings it back. If not, 'kho doctor --salvage NEW_FOLDER' "
    "reads what is left into a new store, and leaves this one as it is."
)
RESCUE_POSTGRES = "Restore a backup into an empty database: 'kho restore FILE --into URL', or your server's own backup."
LOST = "What the audit trail has lost no command brings back; the report goes on saying so."


def register(group: click.Group, program: Program) -> None:
    @group.command(
        help=program.help(
            "Read the whole store: every row, the audit trail, the indexes. Exits with 0 if it is whole, 1 if "
            "something is wrong, 2 if it could not be checked.",
            "verify",
            "verify --repair",
            "verify --json",
        )
    )
    @click.option("--repair", is_flag=True, help="Make the indexes again, if all rows are whole. Rows are not touched.")
    @json_option
    def verify(repair: bool, json: bool) -> None:  # pyright: ignore[reportUnusedFunction]
        found = _verified(program, repair)
        if json:
            output.as_json(found)
        else:
            for line in _words(found):
                echo(line)
        raise SystemExit(UNKNOWN if "problem" in found else WHOLE if found["ok"] else DAMAGED)


def what_to_do(cures: set[str], where: str) -> list[str]:
    """Return the commands that help against findings of these kinds in the database that is there."""
    if "salvage" in cures:  # the rest comes right with it
        return [RESCUE_POSTGRES if where.startswith("PostgreSQL") else RESCUE]
    return [words for cure, words in (("repair", REPAIR), ("none", LOST)) if cure in cures]


def _verified(program: Program, repair: bool) -> Found:
    async def work() -> Found:
        try:
            with reporting() as progress:
                return await program.verify(repair=repair, progress=progress)
        except KhoError as problem:
            return {"problem": problem.message}

    found: Found = {"database": program.where, **program.finish(work())}
    if "problem" in found:
        return {"ok": False, **found}
    cures = {one["cure"] for one in found["findings"]}
    return {"ok": not found["findings"], **found, "what_to_do": what_to_do(cures, program.where)}


def _words(found: Found) -> list[str]:
    if "problem" in found:
        return [f"The store could not be checked: {found['problem']}", f"The database is {found['database']}."]
    begun = ["Indexes were made again from the rows."] if found["repaired"] else []
    notes = [f"Note: {note}" for note in found["notes"]]
    if found["ok"]:
        return [*begun, f"The store is whole: every row and every index of {found['database']} was read.", *notes]
    problems = [one["problem"] for one in found["findings"]]
    return [*begun, f"Something is wrong with {found['database']}:", *problems, *notes, *found["what_to_do"]]
