"""How an operation is typed on the command line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Command:
    """One way to ask for an operation on the command line. It may have several, such as one for each of its actions."""

    words: str
    """What is typed, e.g. 'collections create'. All words but the last are groups."""
    positional: Sequence[str] = ()
    """Parameters that are given without a flag, in this order. Here and below a part of an object is named by its path,
    e.g. 'content.body'."""
    sentence: bool = False
    """The last of them may be typed as several words, without quotes."""
    fixed: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Arguments that the words stand for, e.g. {'action': 'create'}."""
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    """Other names for parameters, e.g. {'collection_type': 'type'} for --type. A part of an object is called after the
    end of its path; where two paths end alike, this tells them apart."""
    shows: Sequence[str] | None = None
    """Parameters that have a flag; when None, all that are neither positional nor fixed."""
    paths: Sequence[str] = ()
    """Parameters that are paths: a relative one begins where the command was typed."""
    documents: Sequence[str] = ()
    """Parameters that name documents: where there is such a file, seen from here, its path is meant."""
    here: str = ""
    """A parameter that is the working directory unless it is given."""
    from_file: str = ""
    """A text parameter that may also come from a file (`--from-file`); from stdin by itself if it is required."""
    masks: tuple[str, str] | None = None
    """(patch, mask): the list `mask` names what was typed of the object `patch`, unless it is typed itself."""
    follows: str = ""
    """The method that tells how far a job is: when the answer is one that still runs, the command waits for it."""
    watches: bool = False
    """It goes on, and is done again whenever something in the folder changes (the first of `paths`)."""
    reads: bool = False
    """It changes nothing that is searched, though its operation may: there is nothing to wait for afterwards."""
    confirms: bool = False
    """`--yes` sets the parameter `confirm`. Without it, somebody at a terminal is asked when it is needed."""
    final: bool = False
    """What it does cannot be undone: it needs `--yes`, or somebody at a terminal who is asked first."""
    asks: str = ""
    """The same for what can be undone in part: what is told before the question, in a sentence."""
    looks: tuple[str, Mapping[str, Any]] | None = None
    """The method of the same capability that reads what would be destroyed, and arguments besides those that both take:
    nobody is asked about what is not there."""
    summary: str = ""
    """The operation's when empty."""
    example: Mapping[str, Any] | None = None
    """Arguments that work, without the fixed ones; the operation's when None."""
    stands_for: tuple[str, Mapping[str, Any]] | None = None
    """A tool of another operation, and the arguments of it that this is the command for: what an answer says to call
    is said to type here."""
    group: str = ""
    """One line about the group that it is in. The first command of a group that has one says it for all."""

    @property
    def warning(self) -> str:
        """What somebody has to agree to before it is done; empty where nobody is asked."""
        return self.asks or ("This cannot be undone." if self.final else "")
