"""Help is read from a list, so that it loads no slice: the list must be what the slices say."""

from tests.doors.cli.command_table import table

from kho.doors import cli


def test_the_list_is_what_the_slices_say() -> None:
    assert cli.TABLE.read_text("utf-8") == table(), "`make commands` writes it anew"
