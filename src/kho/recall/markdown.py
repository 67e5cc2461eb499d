"""Markdown rendering of results for the command line. Stored text is quoted, so that it cannot look like Kho's own
output."""

from textwrap import indent

from kho.kernel.errors import in_words
from kho.kernel.hints import Op, say
from kho.lib.markdown import code, inline, line, quoted, together
from kho.lib.shown_time import minute
from kho.recall import model

SHOWN = 300
"""Characters of a passage: with ten long ones, the best would scroll away."""


def found(answer: model.SearchResults) -> str:
    listed = [
        _item(number, one, f", {one.label.lower()} ({one.score:.2f}{_explained(one)})")
        for number, one in enumerate(answer.results, 1)
    ]
    return together(*listed, _more(answer.results) or "Nothing was found.", *map(line, answer.notes or ()))


def recent(answer: model.RecentItems) -> str:
    listed = [_item(number, one) for number, one in enumerate(answer.results, 1)]
    return together(*listed, _more(answer.results) or "There is nothing recent.")


def fetched(item: model.Fetched) -> str:
    about = "; ".join(
        f"{inline(name)} {inline(in_words(value))}" for name, value in item.metadata.items() if value not in ("", [])
    )
    following = item.metadata.get("next_offset")
    more = say("There is more: ", Op("fetch", id=item.id, offset=following), ".") if following else ""
    return together(f"**{inline(item.title)}**", about, quoted(item.text), more)


def _item(number: int, one: model.RecentItem, more: str = "") -> str:
    text = one.text if len(one.text) <= SHOWN else one.text[:SHOWN].rstrip() + " …"
    said = one.metadata or {}
    who = f", said by {inline(str(said.get('speaker') or said['role']))}" if "role" in said else ""
    when = minute(said.get("at", one.when))
    heading = f"{number}. {one.kind} **{inline(one.title)}**{who}, {when}{more}  \n   {code(one.id)}"
    return f"{heading}\n\n{indent(quoted(text), '   ')}"


def _explained(one: model.FoundItem) -> str:
    why = one.explanation
    if why is None:
        return ""
    semantic = "none yet" if why.semantic is None else f"{why.semantic:.2f}"
    return f": words {why.lexical:.2f}, meaning {semantic}"


def _more(results: object) -> str:
    return say("Read one in full with ", Op("fetch", id="…"), ".") if results else ""
