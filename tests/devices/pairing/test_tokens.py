"""Tokens of boards: whose they are, how long they last, and that nobody else can make one."""

import asyncio
from collections.abc import Sequence

import pytest
from tests.devices.conftest import Ground
from tests.devices.factories import HubWorker

from kho.devices.pairing.tokens import LIFETIME, PURPOSES, Claims, Purpose, SigningKey, Tokens
from kho.lib.clock import SECOND

NOW = 1_800_000_000 * SECOND


class Drawer:
    """Keys in memory, as the port asks for them."""

    def __init__(self, *keys: SigningKey) -> None:
        self.keys = list(keys)

    async def signing_keys(self, first: SigningKey) -> Sequence[SigningKey]:
        self.keys = self.keys or [first]
        return self.keys


async def made(*keys: SigningKey) -> Tokens:
    tokens = Tokens(Drawer(*keys))
    await tokens.ready()
    return tokens


@pytest.mark.parametrize("purpose", PURPOSES)
async def test_a_token_says_what_it_was_issued_for_until_it_runs_out(purpose: Purpose) -> None:
    tokens = await made(SigningKey("k1", b"s" * 32))
    token = tokens.issue("công ty", "aa:bb", "c-1", purpose, NOW)
    assert " " not in token, "firmware puts 'Bearer ' in front of a token without a space"
    assert tokens.check(token, purpose, NOW) == Claims("công ty", "aa:bb", "c-1", purpose, NOW, "k1")
    assert tokens.check(token, purpose, NOW + LIFETIME[purpose] - 1)
    assert tokens.check(token, purpose, NOW + LIFETIME[purpose]) is None
    assert tokens.check(token, purpose, NOW + LIFETIME[purpose], lifetime=LIFETIME[purpose] + 1)
    assert tokens.check(token, purpose, NOW - 3600 * SECOND) is None, "of the future"
    for other in PURPOSES:
        assert (tokens.check(token, other, NOW) is not None) == (other == purpose)


async def test_whatever_is_changed_in_a_token_makes_it_worthless() -> None:
    tokens = await made(SigningKey("k1", b"s" * 32))
    token = tokens.issue("acme", "aa:bb", "c-1", "socket", NOW)
    for place in range(len(token)):
        changed = token[:place] + ("A" if token[place] != "A" else "B") + token[place + 1 :]
        assert tokens.check(changed, "socket", NOW) is None, place
    form, key, said, signature = token.split(".")
    other = await made(SigningKey("k1", b"t" * 32))
    forged = other.issue("acme", "aa:bb", "c-1", "socket", NOW)
    for wrong in ("", ".", "...", token[:-1], f"{token}.", f"{form}.{key}.{said}.", f"{form}.k2.{said}.{signature}",
                  f"{form}.{key}.!!.{signature}", forged, "đ" * 40, "x" * 5000, f"{token}\n"):  # fmt: skip
        assert tokens.check(wrong, "socket", NOW) is None, wrong


async def test_an_old_key_still_counts_and_the_newest_one_signs() -> None:
    old = await made(SigningKey("k1", b"s" * 32))
    token = old.issue("acme", "aa:bb", "c-1", "socket", NOW)
    both = await made(SigningKey("k2", b"t" * 32), SigningKey("k1", b"s" * 32))
    assert both.check(token, "socket", NOW)
    claims = both.check(both.issue("acme", "aa:bb", "c-1", "socket", NOW), "socket", NOW)
    assert claims is not None
    assert claims.key_id == "k2"
    assert old.challenge("aa:bb", "c-1") != old.challenge("aa:bb", "c-2")


def test_a_token_fits_its_board_only_and_no_longer_than_its_approval() -> None:
    claims = Claims("acme", "aa:bb", "c-1", "socket", NOW, "k1")
    assert claims.fits("aa:bb", "c-1")
    assert not claims.fits("aa:bc", "c-1")
    assert not claims.fits("aa:bb", "c-2")
    assert claims.holds(NOW, None)
    assert not claims.holds(None, None), "never approved"
    assert not claims.holds(NOW - 5, NOW + 5), "revoked"
    assert not claims.holds(NOW + 9, None), "approved again: what it had before is worthless"


async def test_processes_that_start_at_once_agree_on_one_key(ground: Ground, worker: HubWorker) -> None:
    several = [Tokens(worker.registrations) for _ in range(8)]
    await asyncio.gather(*(tokens.ready() for tokens in several))
    token = several[0].issue("acme", "aa:bb", "c-1", "socket", NOW)
    assert all(tokens.check(token, "socket", NOW) for tokens in several)
    stored = await ground.db.read(lambda tx: tx.all("SELECT id FROM device_keys"))
    assert len(stored) == 1
