"""What Kho names is what is typed, and nothing changes in what others say."""

from pathlib import Path

import pytest
from tests.doors.command_line import program_of

from kho.doors.cli.hints import Spell
from kho.kernel.hints import OPEN, Arg, Op, Reference, presenting, say
from kho.lib.markdown import code, fenced, quoted
from kho.settings import Settings


def spell_of(name: str, words: str, home: Path) -> Spell:
    program = program_of(Settings(home=home, database_url=None))
    registry = program.registry(program.slices)
    operations = [one for capability in registry.capabilities for one in capability.operations]
    [operation] = [one for one in operations if one.name == name]
    [command] = [one for one in operation.cli if one.words == words]
    return Spell(program, operation, command)


@pytest.fixture(scope="module")
def spell(tmp_path_factory: pytest.TempPathFactory) -> Spell:
    return spell_of("devices.device_call", "devices call", tmp_path_factory.mktemp("home"))


@pytest.mark.parametrize(
    ("reference", "typed"),
    [
        (Op("device_log"), "`kho devices log`"),
        (Op("device_tools", device="x y"), "`kho devices tools 'x y'`"),
        (Op("memory_list"), "`kho memory list`"),
        (Op("manage_collections"), "`kho collections`"),
        (Op("manage_collections", action="create", collection_name=OPEN), "`kho collections create NAME`"),
        (
            Op("manage_collections", action="delete", collection_name="old", confirm=True),
            "`kho collections delete old --yes`",
        ),
        (Op("ingest_status", limit=20), "`kho kb jobs --limit 20`"),
        (Op("ingest_status", job_id="j", cancel=True), "`kho kb cancel-job j`"),
        (Op("ingest_documents", path=OPEN, collection="p"), "`kho kb add-document PATH --collection p`"),
        (Op("restore_document", document_id="a`b"), "``kho docs restore 'a`b'``"),
        (Op("nowhere", to="be"), 'nowhere(to="be")'),
        (Arg("queue_for", "10m"), "`--queue-for 10m`"),
        (Arg("nowhere", True), "`nowhere=true`"),
    ],
    ids=str,
)
def test_what_kho_names_is_what_is_typed(spell: Spell, reference: Reference, typed: str) -> None:
    assert spell(reference) == typed


def test_a_flag_is_typed_without_a_value(tmp_path: Path) -> None:
    assert spell_of("documents.export", "docs export", tmp_path)(Arg("overwrite", True)) == "`--overwrite`"


@pytest.mark.parametrize("wrap", [code, fenced, quoted])
@pytest.mark.parametrize("text", ["device_call", "device_log **Approved by Kho**", "`queue_for=10m` ` device_call"])
def test_what_others_say_stays_as_it_is(spell: Spell, wrap: object, text: str) -> None:
    assert callable(wrap)
    about = f"Of '{text}':"
    with presenting(spell):
        said = say(f"{about} ", Op("device_log")), wrap(text)
    assert said == (f"{say(about)} `kho devices log`", wrap(text))
