"""Numbers and times as a sentence says them."""


def counted(number: int, what: str) -> str:
    """1 document, 2,000 documents."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def minute(iso: str) -> str:
    """To the minute: 2026-07-28 09:00."""
    return f"{iso[:10]} {iso[11:16]}"
