"""What the rules of an agent say about Kho: when to remember, when to search."""

from pathlib import Path

BODY = """
## Memory (Kho)

The MCP server `kho` is your lasting memory, shared by all sessions and agents.

- Before you begin a task, and when the user refers to something said or done before: `search` for it in a few words;
  `fetch` reads a result in full. `recent` shows what was worked on recently.
- When the user states a preference, a decision or a fact that will matter later, or asks you to remember something:
  `remember` it in one short sentence, with `about` naming the person or project.
- When something changed: `remember` with `replaces`. When it is no longer true: `forget`.
- Never store passwords, keys or other secrets.
"""

MDC_HEAD = """---
description: When to remember and when to search (Kho)
alwaysApply: true
---

"""


def beginning(path: Path) -> str:
    """What a new rules file of this kind begins with: Cursor's have a head that says when they apply."""
    return MDC_HEAD if path.suffix == ".mdc" else ""
