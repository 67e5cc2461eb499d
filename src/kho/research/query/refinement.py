"""Says how well a question went and how to ask better, from the distribution of scores and the words of the results."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from kho.lib.markdown import counted
from kho.research.query import relevance
from kho.research.query.scope import Scope
from kho.research.query.suggestions import MAX_TERM, Text, clean, near_spellings, says_nothing, splitting, unknown
from kho.search.text.language import language

Status = Literal["optimal", "clarification_needed", "too_broad"]

SUGGESTIONS = 6
CLOSE = 0.9
"""Results that score at least this share of the best are about as good …"""
CROWD = 8
"""… and so many of them are too many to choose from."""
STANDS_OUT = 1.2
"""The best result, in units of the second, from which it is plainly the one that is meant."""
FITS = 0.7
"""Results below this share of the best have little to do with the question, and nothing to suggest."""
NAMED = 5
"""Collections that a message names."""

ADD = "add what is missing with ingest_documents or augment_knowledge"


@dataclass(frozen=True, slots=True)
class Refined:
    status: Status
    suggestions: list[str]
    message: str


@dataclass(frozen=True, slots=True)
class Holdings:
    """What the collections hold besides what was found: looked at when little was found."""

    titles: Sequence[str] = ()
    """Titles of the documents that were looked at."""
    documents: int = 0
    """The number of documents in the collections."""
    texts: Sequence[str] = ()
    elsewhere: Sequence[str] = ()
    """Collections that were not searched."""
    tags: Sequence[str] = ()
    """That a document had to have to be looked at."""


def refine(
    question: str,
    scores: Sequence[float],
    found: Sequence[Text],
    scope: Scope,
    holdings: Holdings,
    absent: Sequence[str] = (),
) -> Refined:
    """`scores` are the core's, of all results, best first; `found` are the first of them. `absent` are phrases in
    quotation marks that no result has."""
    refined = _refined(question, scores, found, scope, holdings)
    if not absent:
        return refined
    phrases = ", ".join(f'"{clean(phrase)}"' for phrase in absent)
    are = f"phrase {phrases} is" if len(absent) == 1 else f"phrases {phrases} are"
    status: Status = "clarification_needed" if refined.status == "optimal" else refined.status
    where = _searched(scope, holdings.tags)
    return replace(refined, status=status, message=f"The {are} nowhere in {where}. {refined.message}")


def _refined(
    question: str, scores: Sequence[float], found: Sequence[Text], scope: Scope, holdings: Holdings
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
    """There is nothing to search."""
    if not scope.ids and (scope.project or scope.left_out):
        return Refined("clarification_needed", list(holdings.elsewhere[:SUGGESTIONS]), "There was nothing to search.")
    if not scope.ids:
        return Refined(
            "clarification_needed",
            [],
            'There are no collections yet. Create one with manage_collections(action="create", '
            'collection_name="papers"), then add documents with ingest_documents(path="…", collection="papers") '
            "or augment_knowledge.",
        )
    names = _named(scope.names)
    other = f" Not searched: {_named(holdings.elsewhere)}." if holdings.elsewhere else ""
    verb = "is" if len(scope.names) == 1 else "are"
    return Refined(
        "clarification_needed",
        list(holdings.elsewhere[:SUGGESTIONS]),
        f"{names} {verb} empty. Add documents with "
        f'ingest_documents(path="…", collection="{scope.names[0]}") or augment_knowledge.{other}',
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
        f"Nothing about this was found in {_searched(scope, holdings.tags)}: a gap in the knowledge base, or other "
        f"words are used there.{meant}{there} Ask in other words, or {ADD}.{other}",
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
    found: Sequence[Text],
    near: Sequence[Text],
    scope: Scope,
    holdings: Holdings,
) -> Refined:
    other = f" Not searched: {_named(holdings.elsewhere)}." if holdings.elsewhere else ""
    where = _searched(scope, holdings.tags)
    missing: list[str] = (
        [] if foreign else _missing(question, found)
    )  # in another language there is no word of it anyway
    # Where not one word is known, the passages have nothing to do with the question, and so have their terms.
    related: Sequence[Text] = () if missing and len(missing) == len(unknown(question, ())) else near
    what = f"Nothing in {where} fits well: the best of {counted(total, 'passage')} is {called}.{_without(missing)}"
    if foreign:
        what += " The first results are in another language, where scores run lower: look at them all the same."
    return Refined(
        "clarification_needed",
        _spellings(missing, found, holdings) or splitting(question, related, SUGGESTIONS),
        f"{what} This may be a gap in the knowledge base: ask in other words, or {ADD}.{other}",
    )


def _missing(question: str, found: Sequence[Text]) -> list[str]:
    return unknown(question, [f"{one.title}\n{one.header}\n{one.text}" for one in found])


def _spellings(missing: Sequence[str], found: Sequence[Text], holdings: Holdings) -> list[str]:
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
