"""Errors of `search`, `fetch` and `recent`."""

from kho.kernel.errors import NotFound
from kho.kernel.hints import Hint, Op


class UnknownItem(NotFound):
    """Nothing that you may read has that id."""

    guidance = Hint(
        "An id looks like fact:… or doc:…, as ",
        Op("search"),
        " and ",
        Op("recent"),
        " show it. It may have been deleted.",
    )
