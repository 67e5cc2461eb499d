"""The form by which names are compared."""

import unicodedata


def name_key(name: str) -> str:
    """Case does not tell two names apart, nor how their accents are encoded."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
