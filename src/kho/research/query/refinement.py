"""Judges how well a question went and suggests better ones, from the score distribution and the words of the
results."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from kho.kernel.hints import OPEN, Hint, Op
from kho.lib.dataclass import dataclass
from kho.lib.markdown import counted
from kho.research.query.scope import Scope
from kho.research.query.suggestions import MAX_TERM, FoundText, clean, near_spellings, says_nothing, splitting, unknown
from kho.search.query import relevance
from kho.search.text.language import language

Status = Literal["optimal", "clarification_needed", "too_broad"]

SUGGESTIONS = 6
CLOSE = 0.9
"""Results with at least this share of the best score count as equally good."""
CROWD = 8
"""Number of equally good results from which a question is too broad."""
STANDS_OUT = 1.2
"""Ratio of best to second score from which the best clearly stands out."""
FITS = 0.7
"""Results below this share of the best score have little to do with the question, so no suggestions are taken from
them."""
NAMED = 5
"""Maximum collections that a message names."""

ADD = Hint("add what is missing with ", Op("ingest_documents"), " or ", Op("augment_knowledge"))


@dataclass(frozen=True, slots=True)
class Refined:
    status: Status
    suggestions: list[str]
    message: str


@dataclass(frozen=True, slots=True)
class Holdings:
    """Content of the searched collections besides the results; loaded when little was found."""

    titles: Sequence[str] = ()
    """Titles of some of the documents."""
    documents: int = 0
    """Number of documents in the collections."""
    texts: Sequence[str] = ()
    elsewhere: Sequence[str] = ()
    """Names of collections that were not searched."""
    tags: Sequence[str] = ()
    """Tags that the search was limited to."""


def refine(
    question: str,
    scores: Sequence[float],
    found: Sequence[FoundText],
    scope: Scope,
    holdings: Holdings,
    absent: Sequence[str] = (),
) -> Refined:
    """Judge a query. `scores` are the scores of all results, best first; `found` are the texts of the first ones.
    `absent` are quoted phrases that no result contains."""
    refined = _refined(question, scores, found, scope, holdings)
    if not absent:
        return refined
    phrases = ", ".join(f'"{clean(phrase)}"' for phrase in absent)
    are = f"phrase {phrases} is" if len(absent) == 1 else f"phrases {phrases} are"
    status: Status = "clarification_needed" if refined.status == "optimal" else refined.status
    where = _searched(scope, holdings.tags)
    return replace(refined, status=status, message=f"The {are} nowhere in {where}. {refined.message}")


def _refined(
    question: str, scores: Sequence[float], found: Sequence[FoundText], scope: Scope, holdings: Holdings
) -> Refined:
    if not scores:
        return _nothing(question, scope, holdings)
    if says_nothing(question):
        return Refined(
            "clarification_needed",
            [],
            f"Found {counted(len(scores), 'passage')}, but the question does not say what it is about. Ask with the "
            "word for the thing itself.",
        )
    best = relevance.of_score(scores[0])
    called = relevance.label(best)
    crowd = sum(score >= CLOSE * scores[0] for score in scores)
    stands_out = len(scores) == 1 or scores[0] >= STANDS_OUT * scores[1]
    foreign = bool(found) and found[0].language not in ("", language(question))
    near = [one for one, score in zip(found, scores, strict=False) if score >= FITS * scores[0]]
    if best < relevance.LOW and not (foreign and stands_out):
        return _gap(question, len(scores), called, foreign, found, near, scope, holdings)
    total = counted(len(scores), "passage")
    if crowd >= CROWD and not stands_out:
        return Refined(
            "too_broad",
            splitting(question, near, SUGGESTIONS),
            f"{crowd} of {total} fit about equally well. Say more exactly what you mean, "
            "for example with one of the suggestions.",
        )
    if best >= relevance.RELEVANT:
        clear = " and stands out" if stands_out and len(scores) > 1 else ""
        abroad = " It is written in another language than the question." if foreign else ""
        return Refined("optimal", [], f"Found {total}; the best is {called}{clear}.{abroad}")
    if foreign and stands_out:
        return Refined(
            "clarification_needed",
            splitting(question, near[:1], SUGGESTIONS),
            f"Found {total}. The first stands out, but it is in another language than the question and only {called}: "
            "read it before you rely on it, or ask in its language.",
        )
    missing = _missing(question, found)
    suggestions = _spellings(missing, found, holdings) or splitting(question, near, SUGGESTIONS)
    first = "the first stands out, but it" if stands_out and len(scores) > 1 else "but the best"
    named = "; the suggestions are terms of these passages" if suggestions else ""
    return Refined(
        "clarification_needed",
        suggestions,
        f"Found {total}, {first} is only {called}.{_without(missing)} "
        f"Ask in other words, or name the thing itself{named}.",
    )


def empty(scope: Scope, holdings: Holdings) -> Refined:
    """Return the refinement for an empty scope or empty collections."""
    if not scope.ids and (scope.project or scope.left_out):
        return Refined("clarification_needed", list(holdings.elsewhere[:SUGGESTIONS]), "There was nothing to search.")
    if not scope.ids:
        return Refined(
            "clarification_needed",
            [],
            Hint(
                "There are no collections yet. Create one with ",
                Op("manage_collections", action="create", collection_name="papers"),
                ", then add documents with ",
                Op("ingest_documents", path=OPEN, collection="papers"),
                " or ",
                Op("augment_knowledge"),
                ".",
            ),
        )
    names = _named(scope.names)
    other = f" Not searched: {_named(holdings.elsewhere)}." if holdings.elsewhere else ""
    verb = "is" if len(scope.names) == 1 else "are"
    return Refined(
        "clarification_needed",
        list(holdings.elsewhere[:SUGGESTIONS]),
        Hint(
            f"{names} {verb} empty. Add documents with ",
            Op("ingest_documents", path=OPEN, collection=scope.names[0]),
            " or ",
            Op("augment_knowledge"),
            f".{other}",
        ),
    )


def _nothing(question: str, scope: Scope, holdings: Holdings) -> Refined:
    missing = unknown(question, [*holdings.titles, *holdings.texts])
    spellings = _spellings(missing, (), holdings)
    meant = " Was one of the suggestions meant?" if spellings else ""
    there = "" if spellings else _there(holdings)
    other = f" Not searched: {_named(holdings.elsewhere)}." if holdings.elsewhere else ""
    return Refined(
        "clarification_needed",
        spellings,
        Hint(
            f"Nothing about this was found in {_searched(scope, holdings.tags)}: a gap in the knowledge base, or other "
            f"words are used there.{meant}{there} Ask in other words, or ",
            ADD,
            f".{other}",
        ),
    )


def _there(holdings: Holdings) -> str:
    titles = list(dict.fromkeys(title for title in map(clean, holdings.titles) if title))[:NAMED]
    if not titles:
        return ""
    shown = ", ".join(f"'{_shortened(title)}'" for title in titles)
    more = holdings.documents - len(titles)
    others = f" and {counted(more, 'more document')}" if more > 0 else ""
    return f" What there is: {shown}{others}."


def _shortened(title: str) -> str:
    return title if len(title) <= MAX_TERM else f"{title[: MAX_TERM - 1]}…"


def _gap(
    question: str,
    total: int,
    called: str,
    foreign: bool,
    found: Sequence[FoundText],
    near: Sequence[FoundText],
    scope: Scope,
    holdings: Holdings,
) -> Refined:
    other = f" Not searched: {_named(holdings.elsewhere)}." if holdings.elsewhere else ""
    where = _searched(scope, holdings.tags)
    missing: list[str] = [] if foreign else _missing(question, found)  # in another language no word matches anyway
    # If no word of the question is known, the passages have nothing to do with it, and neither have their terms.
    related: Sequence[FoundText] = () if missing and len(missing) == len(unknown(question, ())) else near
    what = f"Nothing in {where} fits well: the best of {counted(total, 'passage')} is {called}.{_without(missing)}"
    if foreign:
        what += " The first results are in another language, where scores are lower: look at them anyway."
    return Refined(
        "clarification_needed",
        _spellings(missing, found, holdings) or splitting(question, related, SUGGESTIONS),
        Hint(f"{what} This may be a gap in the knowledge base: ask in other words, or ", ADD, f".{other}"),
    )


def _missing(question: str, found: Sequence[FoundText]) -> list[str]:
    return unknown(question, [f"{one.title}\n{one.header}\n{one.text}" for one in found])


def _spellings(missing: Sequence[str], found: Sequence[FoundText], holdings: Holdings) -> list[str]:
    texts = [*holdings.titles, *(f"{one.title} {one.header} {one.text}" for one in found), *holdings.texts]
    alike = [term for word in missing[:3] for term in near_spellings(word, texts)]
    return list(dict.fromkeys(alike))[:SUGGESTIONS]


def _without(missing: Sequence[str]) -> str:
    if not missing:
        return ""
    words = ", ".join(f"'{clean(word)}'" for word in missing[:3])
    return f" None of the best has {words}."


def _searched(scope: Scope, tags: Sequence[str]) -> str:
    every = scope.how == "all" and len(scope.names) > 1
    tagged = f" among documents tagged {_named(tags)}" if tags else ""
    return (f"all {len(scope.names)} collections" if every else _named(scope.names)) + tagged


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:NAMED])
    return shown if len(names) <= NAMED else f"{shown} and {len(names) - NAMED} more"
