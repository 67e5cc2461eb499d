"""Errors of `search`, `fetch` and `recent`."""

from kho.kernel.errors import NotFound
from kho.kernel.hints import Hint, Op


class UnknownItem(NotFound):
    """Nothing that you may read has that id."""

    guidance = Hint(
        "An id begins with its kind, as in fact:… or doc:…; ",
        Op("search"),
        " and ",
        Op("recent"),
        " show it whole. It may have been deleted.",
    )
