"""The six digits that a board shows: how long they are good, and how often a tenant may be wrong about them. Whoever
may approve boards could else try all of them, and take a board that somebody else is about to approve."""

from kho.kernel.errors import KhoError
from kho.kernel.ports import Tx
from kho.lib.clock import SECOND, iso
from kho.lib.lazy_regex import pattern

MINUTES = 15
LASTS = MINUTES * 60 * SECOND
MOST = 10
"""Wrong ones, in that time."""
_CODE = pattern(r"[0-9]{6}")


class TooManyGuesses(KhoError):
    """Too many codes were wrong."""

    code = "TOO_MANY_GUESSES"
    status = 429
    guidance = "Wait, and read the six digits from the board again: it shows new ones by then."


def is_code(text: str) -> bool:
    return _CODE.fullmatch(text) is not None


def count(tx: Tx, tenant: str, now: int) -> None:
    """One more, before it is known whether it is wrong: of many at once, none gets by. Raises TooManyGuesses."""
    row = tx.one(
        "INSERT INTO device_guesses (tenant, since, wrong) VALUES ($1, $2, 1) ON CONFLICT (tenant) DO UPDATE SET "
        "wrong = CASE WHEN device_guesses.since <= $3 THEN 1 ELSE device_guesses.wrong + 1 END, "
        "since = CASE WHEN device_guesses.since <= $3 THEN excluded.since ELSE device_guesses.since END "
        "RETURNING wrong, since",
        tenant,
        now,
        now - LASTS,
    )
    if row is not None and row[0] > MOST:
        until = iso(row[1] + LASTS)
        raise TooManyGuesses(f"{MOST} codes were wrong. No more are taken before {until}.", until=until)


def was_right(tx: Tx, tenant: str) -> None:
    """Takes back the last one. Not more: boards of one's own must not buy further guesses."""
    tx.run("UPDATE device_guesses SET wrong = wrong - 1 WHERE tenant = $1 AND wrong > 0", tenant)
