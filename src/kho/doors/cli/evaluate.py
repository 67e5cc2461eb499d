"""`kho eval`: measures search quality on questions with known answers."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, cast

import click

from kho.doors.cli import output
from kho.doors.cli.context import Ask, Program, json_option
from kho.doors.cli.progress import reporting
from kho.doors.cli.terminal import echo
from kho.kernel.hub import Hub
from kho.lib.visible import visible

HELP = """Measure search on files of questions.

FILES are JSON: {"corpus": {id: text}, "queries": [[id, question, [relevant ids]], ...]}. The texts are filed in a
store of their own, and every question is asked. The first --config is what the others are compared with: 'default'
(the settings as they are), 'words', 'meaning', 'first-stage', or a TOML file of settings.
"""

Row = dict[str, Any]


def register(group: click.Group, program: Program) -> None:
    file = click.Path(exists=True, dir_okay=False, path_type=Path)

    @group.command(
        "eval",
        help=program.help(
            HELP, "eval questions.json --config default --config words", "eval questions.json --door mcp"
        ),
        no_args_is_help=True,
    )
    @click.argument("files", nargs=-1, required=True, type=file)
    @click.option("--queries", type=file, help="Ask the questions of this file instead; ids must match.")
    @click.option("--strip-marks", is_flag=True, help="Remove the accents from the questions, as typed on a phone.")
    @click.option("--together", is_flag=True, help="Put the texts of all files into one collection.")
    @click.option("--config", multiple=True, default=("default",), help="What to measure; repeatable.")
    @click.option("--door", type=click.Choice(["memory", "mcp", "http"]), default="memory", show_default=True)
    @click.option(
        "--limit", type=click.IntRange(min=1), help="At most this many questions of each file, evenly spread."
    )
    @click.option(
        "--cache", type=click.Path(file_okay=False, path_type=Path), help="Keep the texts and their vectors here."
    )
    @click.option("--each", is_flag=True, help="With --json: every question with its results and scores.")
    @json_option
    def evaluate(  # pyright: ignore[reportUnusedFunction]
        files: tuple[Path, ...],
        queries: Path | None,
        strip_marks: bool,
        together: bool,
        config: tuple[str, ...],
        door: str,
        limit: int | None,
        cache: Path | None,
        each: bool,
        json: bool,
    ) -> None:
        def asking(hub: Hub) -> AbstractAsyncContextManager[Ask]:
            return program.asking(door, hub)

        with reporting() as progress:
            report = program.finish(
                program.evaluate(
                    files,
                    queries=queries,
                    strip_marks=strip_marks,
                    together=together,
                    limit=limit,
                    configurations=config,
                    cache=cache,
                    each=each,
                    asking=asking,
                    progress=progress,
                )
            )
        if json:
            output.as_json({"door": door, **report})
        else:
            _print(cast(list[Row], report["rows"]))


def _print(rows: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    compared = any("against" in row for row in rows)
    heads = ["task", "configuration", "nDCG@10", "Recall@5", "MRR", "queries", "empty", "p50 ms", "p95 ms", "CPU ms"]
    table = Table(*heads, *(["difference", "better", "worse"] if compared else []), box=None, pad_edge=False)
    for row in rows:
        figures = [f"{row[name]:.3f}" for name in ("ndcg@10", "recall@5", "mrr")]
        times = [f"{row[name]:.1f}" for name in ("p50_ms", "p95_ms", "cpu_ms")]
        against = cast(Row, row.get("against", {}))
        change = [f"{against['ndcg@10']:+.3f}", str(against["better"]), str(against["worse"])] if against else []
        table.add_row(
            visible(row["task"]),
            visible(row["configuration"]),
            *figures,
            str(row["queries"]),
            str(row["empty"]),
            *times,
            *change,
        )
    for column in table.columns[2:]:
        column.justify = "right"
    console = Console()
    if not console.is_terminal:
        console.width = 200  # do not wrap lines for programs and logs
    console.print(table)
    for row in rows:
        if "noted" in row:
            echo(f"{row['task']}, {row['configuration']}: {row['noted']} answers said: {row['note']}", err=True)
