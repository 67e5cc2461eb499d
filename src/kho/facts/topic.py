"""Whom or what a fact is about, in the form in which two spellings of it are equal."""

from kho.search.text.tokens import fold


def topic_of(about: str | None) -> str:
    """Without case, width and accents, with single spaces: 'Dự án  KHO' and 'du an kho' are one. '' for nobody."""
    if not about:
        return ""
    return " ".join(fold(about).split()) or about.casefold()
