"""`kho doctor`: checks the hub and says what to do. The indexes are derived, so they can always be rebuilt."""

from pathlib import Path
from typing import Any

import click

from kho.doors.cli import output
from kho.doors.cli.context import Program, fail, json_option
from kho.doors.cli.progress import reporting
from kho.doors.cli.terminal import echo
from kho.doors.cli.upkeep import verify
from kho.kernel.errors import DamagedDatabase, DatabaseError, KhoError, MigrationError
from kho.lib.markdown import counted

Found = dict[str, Any]

DAMAGED = (
    "Nothing was changed, and --repair does not help: it rebuilds indexes from rows, and rows are damaged here.",
    "'kho verify' says what is damaged. docs/verify.md has more on it.",
)
NEXT = (
    "Put {folder}/kho.db in the place of {source}, which stays as it is until you do, and remove {source}-wal and "
    "{source}-shm. Or use the new folder: KHO_HOME={folder}."
)

UNCONFINED = (
    "Files are read in a process with limits, which could see other files of this user: this system has no Landlock, "
    "or it is switched off. Linux has it since 5.13."
)
ENGINES = {"database": "the database", "qdrant": "Qdrant"}


def register(group: click.Group, program: Program) -> None:
    @group.command(
        help=program.help(
            "Check the database and its indexes. Exits with 1 if something is wrong.",
            "doctor",
            "doctor --repair",
            "doctor --salvage rescued",
        )
    )
    @click.option("--repair", is_flag=True, help="Rebuild the indexes: all words, and vectors that are missing.")
    @click.option(
        "--salvage",
        metavar="NEW_FOLDER",
        type=click.Path(path_type=Path),
        help="Read what can be read of a damaged SQLite file into a new store, and leave the file alone.",
    )
    @json_option
    def doctor(repair: bool, salvage: Path | None, json: bool) -> None:  # pyright: ignore[reportUnusedFunction]
        if salvage is not None:
            _salvage(program, salvage.absolute(), json=json)
            return
        found = _examined(program, repair)
        if json:
            output.as_json(found)
        else:
            for line in _words(found):
                echo(line)
        raise SystemExit(0 if found["ok"] else 1)


def _salvage(program: Program, folder: Path, *, json: bool) -> None:
    if address := program.running_hub():
        raise fail(f"Kho is running at {address}: stop it first, so that nothing is written meanwhile.")

    async def work() -> Found:
        with reporting() as progress:
            return await program.salvage(folder, progress=progress)

    found = program.finish(work())
    if json:
        output.as_json(found)
        return
    for line in _salvaged(found):
        echo(line)


def _salvaged(found: Found) -> list[str]:
    """Say what was read and what is lost, table by table."""
    lines = [f"What could be read of {found['from']} is in {found['folder']}. The damaged file was only read."]
    for table in found["tables"]:
        lost = [
            f"{table['lost']:,} lost" if table["lost"] else "",
            f"{table['unreadable']:,} unreadable" if table["unreadable"] else "",
            f"{table['doubtful']:,} from damaged pages: look whether they are right" if table["doubtful"] else "",
        ]
        if table["kept"] or any(lost):
            lines.append(f"  {table['table']}: " + ", ".join(filter(None, (counted(table["kept"], "row"), *lost))))
    if found["unknown"]:
        lines.append(f"{counted(found['unknown'], 'row')} more could be read, but not of which table they are.")
    return [*lines, NEXT.format(folder=found["folder"], source=found["from"]), "Then 'kho verify' reads all of it."]


def _examined(program: Program, repair: bool) -> Found:
    async def work() -> Found:
        try:
            with reporting() as progress:
                return {"answers": True, **await program.examine(repair=repair, progress=progress)}
        except DamagedDatabase:
            return {
                "answers": False,
                "problem": "The database is damaged, or it is not one of Kho's.",
                "what_to_do": [DAMAGED[0], *verify.what_to_do({"salvage"}, program.where), DAMAGED[1]],
            }
        except MigrationError as problem:
            return {"answers": False, "problem": problem.message}
        except DatabaseError as problem:
            return {"answers": False, "problem": f"The database does not answer: {problem.message}"}
        except KhoError as problem:
            return {"answers": False, "problem": f"The settings are not valid: {problem.message}"}

    found: Found = {"database": program.where, **program.finish(work())}
    if found["answers"] and found["vectors"]:
        found["problem"] = found["problem"] or found["vectors"]["problem"]
    found["embedder"] = model = program.models().report()
    return {"ok": found["answers"] and not (found["problem"] or found["wrong"] or model["problem"]), **found}


def _words(found: Found) -> list[str]:
    if not found["answers"]:
        what_to_do: list[str] = found.get("what_to_do", [])
        return [found["problem"], f"The database is {found['database']}.", *what_to_do]
    spaces: dict[str, int] = found["spaces"]
    filed = ", ".join(f"{count} of {name}" for name, count in spaces.items()) or "none yet"
    lines = [f"The database answers. It is {found['database']}.", f"Passages indexed: {filed}."]
    if not found["landlock"]:
        lines.append(UNCONFINED)
    if found["repaired"]:
        lines.insert(0, "Everything was re-indexed.")
    lines += found["wrong"]
    lines += [f"Warning: {one}" for one in found["warnings"]]
    if found["wrong"] and not found["repaired"]:
        lines.append("'kho doctor --repair' re-indexes everything.")
    if not found["wanted_model"]:
        return [*lines, "No model is set: keyword search only."]
    lines.append(f"The model is {found['wanted_model']}; its vectors are kept in {ENGINES[found['engine']]}.")
    lines += _embedder(found["embedder"], asked=bool(found["model"]))
    if not found["current"]:
        model, _, engine = (found["model"] or "").rpartition(" ")  # 'openai/x database'
        so_far = f"The vectors are still those of {model} in {ENGINES[engine]}" if model else "There are no vectors yet"
        lines.append(f"{so_far}; 'kho serve' or 'kho doctor --repair' computes them.")
    if found["pending"]:
        lines.append(f"Passages that wait for vectors: {found['pending']}. Keyword search finds them meanwhile.")
    elif found["current"]:
        lines.append("No passage waits for vectors.")
    if found["problem"] and not found["embedder"]["problem"]:
        lines.append(f"The last problem with vectors: {found['problem']}")
    if found["filling"] and found["pending"]:
        lines.append(f"Process {found['filling']} is computing vectors.")
    elif found["pending"]:
        lines.append("No process is computing vectors now; 'kho serve' or 'kho doctor --repair' does.")
    return lines


def _embedder(found: Found, *, asked: bool) -> list[str]:
    if found["problem"]:
        return [found["problem"], "Until then search works by keywords only."]
    if found["provider"] == "e5":
        file: Found = found["files"][0]
        return [f"Its weights are whole: {file['path']}, brought by {file['from']}."]
    return [] if asked or found["usable"] else ["Whether it answers is known when it is first asked."]
