"""Facts for people at the command line. What was said is quoted, so that it cannot pass for anything of ours."""

from kho.facts import KIND, model
from kho.kernel.hints import say
from kho.lib.markdown import code, inline, quoted, together
from kho.lib.shown_time import minute

LONGEST = 200
"""Characters of a fact in a list."""


def remembered(done: model.Remembered) -> str:
    similar = "\n".join(f"- {_id(one)}: {inline(one.text, LONGEST)}" for one in done.similar)
    return together(f"{say(done.message)} Its id is {_id(done)}.", similar)


def changed(done: model.ChangedFact) -> str:
    return f"{say(done.message)} Its id is {_id(done)}."


def one(fact: model.FactRecord) -> str:
    return together(quoted(fact.text), _about(fact))


def listed(found: model.FactPage) -> str:
    rows = [f"- {_id(fact)}: {inline(fact.text, LONGEST)}  \n  {_about(fact)}" for fact in found.facts]
    more = f"There are more: `--cursor {found.next_cursor}`" if found.next_cursor else ""
    return together("\n".join(rows) or "There are no such facts.", more)


def history(found: model.FactHistory) -> str:
    return together(
        *(
            f"**{entry.state}**, {minute(entry.said_at)} by {inline(entry.said_by)}, "
            f"{code(entry.id)} revision {entry.revision}\n\n{quoted(entry.text)}"
            for entry in found.entries
        )
    )


def _id(fact: model.FactRecord | model.SimilarFact | model.Remembered | model.ChangedFact) -> str:
    """The global id, which `fetch` takes as well."""
    return code(f"{KIND.prefix}:{fact.id}")


def _about(fact: model.FactRecord) -> str:
    """What is known of a fact beside its words, on one line."""
    parts = (
        f"about {inline(fact.about)}" if fact.about else "",
        " ".join(f"#{inline(tag)}" for tag in fact.tags),
        f"from {inline(fact.source)}" if fact.source else "",
        f"said by {inline(fact.said_by)}, {minute(fact.created_at)}",
        f"revision {fact.revision}" if fact.revision > 1 else "",
        f"expires {minute(fact.expires_at)}" if fact.expires_at else "",
        f"forgotten {minute(fact.forgotten_at)}" if fact.forgotten_at else "",
        f"replaced by {code(fact.replaced_by)}" if fact.replaced_by else "",
    )
    return "; ".join(part for part in parts if part)
