"""Describes how an operation is typed on the command line."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from kho.lib.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """One CLI command for an operation. An operation may have several, such as one for each of its actions."""

    words: str
    """The command words, e.g. 'collections create'. All but the last are groups."""
    positional: Sequence[str] = ()
    """Parameters given without a flag, in this order. Here and below, a field inside an object is named by its path,
    e.g. 'content.body'."""
    sentence: bool = False
    """True if the last positional parameter may be typed as several words, without quotes."""
    fixed: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Arguments that the command words imply, e.g. {'action': 'create'}."""
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    """Flag names for parameters, e.g. {'collection_type': 'type'} for --type. By default a field inside an object is
    named after the last part of its path; use this where two paths end alike."""
    shows: Sequence[str] | None = None
    """Parameters that have a flag; None for all that are neither positional nor fixed."""
    needs: Sequence[str] = ()
    """Parameters that this command requires although the operation's schema, which covers all actions, does not."""
    paths: Sequence[str] = ()
    """Parameters that are file paths; relative ones are resolved against the caller's working directory."""
    documents: Sequence[str] = ()
    """Parameters that name documents: if a file of that name exists in the working directory, its path is meant."""
    here: str = ""
    """Parameter that defaults to the working directory."""
    from_file: str = ""
    """Text parameter that can be read from a file (`--from-file`), or from stdin without a flag if it is required."""
    masks: tuple[str, str] | None = None
    """(patch, mask): unless given, the list `mask` is filled with the fields of the object `patch` that were typed."""
    follows: str = ""
    """Method that reports a job's progress: if the answer is a job that still runs, the command waits for it."""
    watches: bool = False
    """True if the command keeps running and repeats on each change in the folder (the first of `paths`)."""
    reads: bool = False
    """True if the command changes nothing searchable, even if its operation can: no wait for the index afterwards."""
    confirms: bool = False
    """True if `--yes` sets the parameter `confirm`. Without it, the user at a terminal is asked when it is needed."""
    unattended: bool = False
    """True if `confirm` is set without asking where nobody is at a terminal: a script knows what it does."""
    final: bool = False
    """True if it cannot be undone: it needs `--yes`, or the user at a terminal is asked first."""
    asks: str = ""
    """Same for what can be undone in part: the sentence printed before the question."""
    looks: tuple[str, Mapping[str, Any]] | None = None
    """(method, arguments): method of the same capability that reads what would be destroyed, and arguments in addition
    to those that both take. The user is not asked about something that does not exist."""
    pairs: str = ""
    """Object parameter whose fields may be typed after the positional ones, as NAME=VALUE."""
    without_hub: str = ""
    """Code of the error that it ends in while no hub runs: the CLI then says so first."""
    summary: str = ""
    """The operation's summary if empty."""
    example: Mapping[str, Any] | None = None
    """Working arguments, without the fixed ones; the operation's example if None."""
    stands_for: tuple[str, Mapping[str, Any]] | None = None
    """(tool, arguments): a call of another operation that this command replaces. Where an answer suggests that call,
    the CLI shows this command."""
    group: str = ""
    """One line about the command's group. The first command of a group that has one defines it for all."""

    @property
    def warning(self) -> str:
        """Text that the user has to confirm before it runs; empty if nobody is asked."""
        return self.asks or ("This cannot be undone." if self.final else "")
