"""A purge, for the command line."""

from kho.administration.purge.model import PurgedStore
from kho.lib.markdown import code, inline, line, table, together


def purged(answer: PurgedStore) -> str:
    if not answer.takes and answer.id is None:
        return f"There is nothing of it in the tenant {code(answer.tenant)}."
    wiped = "The database was rewritten." if answer.wiped else ""
    after = (wiped, line(answer.problem or ""), line(answer.left or ""))
    if not answer.takes:
        return together(f"A purge that was cut short is done, in the tenant {code(answer.tenant)}.", *after)
    said = f"Erased for good, in the tenant {code(answer.tenant)}:"
    if answer.id is None:
        spelt = f", of {', '.join(map(code, answer.spellings))}" if answer.spellings else ""
        said = f"This would be erased for good, in the tenant {code(answer.tenant)}{spelt}:"
    elif not answer.finished:
        said = f"The hub stopped. The rest of this is erased when one starts, in the tenant {code(answer.tenant)}:"
    rows = ((one.slice, inline(one.table), f"{one.rows:,}") for one in answer.takes)
    return together(said, table(("part", "table", "rows"), rows), *after)
