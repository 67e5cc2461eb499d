"""One search over several spaces of a tenant: what the indexes hold of each, put together as if it were one.

Words weigh by how rare they are in all the spaces together. A word that only one of them knows would count for nothing
in the others, and whatever else they hold of the query would look like a full match there.
"""

from collections.abc import Iterable, Sequence

from kho.kernel.ports import TokenCounts, Tx, Where, WordMatches, Words, each, rarity_of
from kho.search.indexing import passages
from kho.search.indexing.passages import StoredPassage

Token = tuple[str, float]


def version(tx: Tx, where: Where) -> int:
    """Goes up with every change in one of the spaces."""
    return sum(passages.version(tx, one.space, one.tenant) for one in each(where))


def match(tx: Tx, words: Words, where: Where, tokens: Sequence[Token], limit: int) -> WordMatches:
    return merged([words.match(tx, one, tokens, limit) for one in each(where)], tokens, limit)


def merged(matches: Sequence[WordMatches], tokens: Sequence[Token], limit: int) -> WordMatches:
    """Put together what the word index found in each space."""
    if len(matches) == 1:
        return matches[0]
    importance = dict(tokens)
    entries = sum(one.entries for one in matches)
    holders = {token: sum(one.holders.get(token, 0) for one in matches) for one in matches for token in one.holders}
    rarity = {token: rarity_of(entries, number) for token, number in holders.items()}
    total = _weight(rarity, holders, importance) or 1.0
    found: list[tuple[int, float]] = []
    for one in matches:
        # The share of what counts here, as a share of what counts in all spaces. The closer look then counts exactly.
        part = min(1.0, _weight(one.rarity, one.holders, importance) / total)
        found += [(seq, share * part) for seq, share in one.found]
    found.sort(key=lambda item: (-item[1], -item[0]))
    return WordMatches(found[:limit], rarity, entries, holders)


def _weight(rarity: dict[str, float], holders: dict[str, int], importance: dict[str, float]) -> float:
    return sum(importance.get(token, 0.0) * rarity[token] for token, number in holders.items() if number)


def counted(
    tx: Tx, words: Words, where: Where, looked: Sequence[StoredPassage], tokens: Iterable[str]
) -> dict[int, TokenCounts]:
    found: dict[int, TokenCounts] = {}
    for one in each(where):
        seqs = [passage.ref.seq for passage in looked if passage.ref.space == one.space]
        found |= words.counted(tx, one, seqs, tokens) if seqs else {}
    return found
