"""Errors of administration."""

from kho.kernel.errors import Conflict, Unconfirmed


class FirstKey(Unconfirmed):
    """So far this hub answers every program on this machine. Once there is a key, every caller over HTTP needs one, so
    these stop working until they get one: programs that call the hub's address by themselves, dashboards, and whatever
    reaches it through a proxy. What goes on: 'kho stdio', this command line, boards, and clients that 'kho connect
    --http' has set up. 'kho keys off' goes back."""

    confirmable = True


class LastKey(Conflict):
    """That is the last key. Without one the hub would answer everybody on its machine: make another first, revoke it
    instead, or turn keys off with 'kho keys off'."""

    code = "LAST_KEY"


class Replaced(Conflict):
    """The key has been replaced already."""

    code = "KEY_REPLACED"
