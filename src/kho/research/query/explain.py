"""Why a result stands where it does, in numbers and in a sentence."""

from kho.research.query.reordering import Placed
from kho.research.results import Explanation
from kho.search.answer import highlight
from kho.search.query.scoring import ScoreParts

SHOWN = 5
"""Words that a summary names."""
LITTLE, MOST = 0.3, 0.7
"""Shares of a part below which a summary calls it little, and from which it calls it most."""
NEAR, FAR = 0.45, 0.2
"""The same for meaning, where related texts have about half."""


def explanation(placed: Placed, text: str, question: str) -> Explanation:
    parts = placed.ranked.parts
    return Explanation(
        lexical=round(min(1.0, _lexical(parts)), 4),
        semantic=None if parts.meaning is None else round(parts.meaning, 4),
        rerank=round(placed.ranked.score, 4),
        context=None if placed.context is None else round(placed.context, 4),
        feedback=None if placed.verdict is None else round((placed.verdict + 1) / 2, 4),
        summary=_summary(placed, text, question),
    )


def highlights(text: str, question: str) -> list[str]:
    """The part of a text that shows most of what was asked for, its words in bold. None if it has none of them."""
    shown, spans = highlight.snippet(text, question)
    if not spans:
        return []
    pieces: list[str] = []
    place = 0
    for start, end in spans:
        pieces += [shown[place:start], f"**{shown[start:end]}**"]
        place = end
    return ["".join([*pieces, shown[place:]])]


def _lexical(parts: ScoreParts) -> float:
    return (parts.words + parts.closeness) / 2 + parts.literal


def _summary(placed: Placed, text: str, question: str) -> str:
    parts = placed.ranked.parts
    words = list(dict.fromkeys(text[start:end].lower() for start, end in highlight.spans(text, question)))
    named = f" ({', '.join(words[:SHOWN])}{'…' if len(words) > SHOWN else ''})" if words else ""
    share = "none" if parts.words <= 0 else _much(parts.words)
    said = [f"It has {share} of the question's words{named}"]
    if parts.literal:
        said.append("holds a phrase or a name of it as it stands")
    if parts.meaning is None:
        said.append("was judged by its words alone")
    else:
        said.append(f"is {_near(parts.meaning)} it in meaning")
    if placed.context is not None:
        fits = "fits" if placed.context >= MOST else "hardly fits" if placed.context < LITTLE else "partly fits"
        said.append(f"{fits} the text that is worked on")
    if placed.verdict:
        said.append(f"was moved {'up' if placed.verdict > 0 else 'down'} a little by readers' verdicts")
    return f"{', '.join(said[:-1])} and {said[-1]}."


def _much(share: float) -> str:
    return "few" if share < LITTLE else "most" if share >= MOST else "some"


def _near(meaning: float) -> str:
    return "far from" if meaning < FAR else "near to" if meaning >= NEAR else "fairly near to"
