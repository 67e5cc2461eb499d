"""What bench/code_questions.py takes for a question. The figures themselves are measured by running it."""

from bench.code_questions import Question, load, undocumented

SOURCE = '''"""Stays."""


class Shop:
    """A place that
    sells things. And more."""

    def open(self):
        """Let the first customers come in!

        Then wait.
        """

    def close(self):
        """Close the door of it."""
        return 1

    def stop(self):
        """Too short."""
'''
BARE = '''"""Stays."""


class Shop:

    def open(self):
        pass

    def close(self):
        return 1

    def stop(self):
        pass
'''


def test_docstrings_are_taken_out_and_their_first_sentences_asked() -> None:
    text, found = undocumented(SOURCE, "shop.py")
    assert text == BARE
    assert found == [
        Question("A place that sells things.", "shop.py", "class Shop:"),
        Question("Let the first customers come in!", "shop.py", "def open(self):"),
    ]


def test_the_set_is_the_same_every_time_and_in_two_halves() -> None:
    drawn = load()
    assert drawn == load()
    assert len(drawn.files) == 60
    halves = [{one.module for one in drawn.questions if one.fitted is half} for half in (True, False)]
    assert all(len(half) > 20 for half in halves)
    assert halves[0].isdisjoint(halves[1])
