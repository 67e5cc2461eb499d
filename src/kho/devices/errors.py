"""Errors of the devices slice. The last four are raised by a BoardConnection; each is a subclass of another one here,
so that doors show it as it is. A class's docstring is the default message that callers see. `guidance` is for callers
of an operation, `alone` for callers of a board's own tool, which takes neither `queue_for` nor `timeout`."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from kho.devices.pairing.rate_limits import MINUTES
from kho.kernel import Arg, Hint, Op, errors
from kho.lib.shown_time import minute

NO_ADDRESS = "explain url"
"""Part of the firmware's message when it has no address for photos."""
UNTOLD = (
    "The board does not know the hub's address: it never requested its settings. Set KHO_DEVICES__PUBLIC_URL to the "
    "address at which boards reach the hub, and start the hub again."
)
ANSWERED = "The tool was executed; this is its answer."


ALIKE = 0.6
"""Minimum similarity (0..1) of a suggested name."""
SHORTEST = 3
"""Minimum letters of a partial name."""


class UnknownDevice(errors.NotFound):
    """There is no such device, or it is not yours."""

    code = "UNKNOWN_DEVICE"
    guidance = Hint(
        Op("devices_list"), " names your devices. A new board appears there when it has connected and is approved."
    )


class UnknownDeviceTool(errors.NotFound):
    """The device has no such tool."""

    code = "UNKNOWN_DEVICE_TOOL"
    guidance = Hint(Op("device_tools"), " lists what the device can do.")

    def __init__(self, tool: str, close: Iterable[str] = (), **details: Any) -> None:
        near = [f"'{name}'" for name in close]
        super().__init__(
            f"The device has no tool '{tool}'." + (f" Did you mean {' or '.join(near)}?" if near else ""),
            tool=tool,
            **details,
        )


class DeviceOffline(errors.Conflict):
    """The device is not connected."""

    code = "DEVICE_OFFLINE"
    guidance: str = Hint(
        "Wake the board up and call again, or give ",
        Arg("queue_for", "10m"),
        ": the call then waits that long for the board.",
    )
    alone: str = Hint(
        "Wake the board up and call again. ", Op("device_call"), " can queue a call for a board that is offline."
    )

    def __init__(self, message: str | None = None, *, since: str | None = None, **details: Any) -> None:
        """`since` is the timestamp at which the device was last seen."""
        if since is not None:
            message = f"The device has not been connected since {minute(since)}."
            details = {"since": since, **details}
        super().__init__(message, **details)


class DeviceTimeout(errors.Timeout):
    """The device did not answer in time. It may still do what it was asked."""

    code = "DEVICE_TIMEOUT"
    guidance = Hint(
        "Look at the device's status before you call again, or allow more time; ", Arg("timeout", 300), " is the most."
    )
    alone = Hint("Look at the device's status before you call again. ", Op("device_call"), " can wait for longer.")


class DeviceBusy(errors.KhoError):
    """Too many calls are waiting for this device: it does one at a time."""

    code = "DEVICE_BUSY"
    status = 429
    guidance = "Wait for the calls that are running, then call again."


class DeviceFailed(errors.KhoError):
    """The device refused the call."""

    code = "DEVICE_FAILED"
    status = 502
    guidance = Hint("The message is the board's own. ", Op("device_tools"), " shows what the tool takes.")


class NotApproved(errors.Forbidden):
    """The device is not approved yet."""

    code = "DEVICE_NOT_APPROVED"
    guidance = "The board shows six digits: approve it with 'kho devices approve CODE'."


class UnknownCode(errors.NotFound):
    """No board shows this code, and no device of yours has this id or label."""

    code = "UNKNOWN_CODE"
    guidance = f"Read the six digits from the board again: each code lasts {MINUTES} minutes."


class UserOnlyTool(errors.Forbidden):
    """The board keeps this tool for people: calling it needs the admin role."""

    code = "USER_ONLY_TOOL"
    guidance = "Call it with 'kho devices call' on the hub's machine, or with an admin's key."


class WrongArguments(errors.InvalidParams):
    """The arguments do not fit the tool."""

    guidance = Hint(Op("device_tools"), " shows what the tool takes.")

    def __init__(self, problems: Iterable[tuple[str, str]], **details: Any) -> None:
        """`problems` are pairs of an argument's name and its problem; all are reported at once."""
        found = [{"field": name, "message": what} for name, what in problems]
        super().__init__(
            " ".join(f"'{one['field']}' {one['message']}." if one["field"] else one["message"] for one in found),
            problems=found,
            **details,
        )


class BoardGone(DeviceOffline):
    """The board's connection ended before it answered. Whether it did what it was asked is not known."""

    guidance = alone = "Look at the device's status, once it is back, before you call again."


class CallTimedOut(DeviceTimeout):
    """The board did not answer in time. It may still do what it was asked."""


class QueueFull(DeviceBusy):
    """Too many calls are waiting for this board: it does one at a time."""


class BoardRefused(DeviceFailed):
    """The board refused the call."""

    def __init__(self, message: str | None = None, *, guidance: str | None = None, **details: Any) -> None:
        lost = message is not None and NO_ADDRESS in message.casefold()
        super().__init__(message, guidance=UNTOLD if lost else guidance, **details)


def close(named: str, names: Iterable[str]) -> list[str]:
    """Return up to three names that may have been meant. The prefix `self.`, which nearly all names share, is
    ignored."""
    own = {_own(name): name for name in names}
    meant = _own(named)
    found = (
        get_close_matches(meant, own, 3, ALIKE) or [one for one in own if len(meant) >= SHORTEST and meant in one][:3]
    )
    return [own[one] for one in found]


def _own(name: str) -> str:
    return name.casefold().replace("_", ".").removeprefix("self.")


def at_board_tool(problem: errors.KhoError) -> errors.KhoError:
    """Use the guidance for callers of a board's own tool, unless the error has its own guidance."""
    if isinstance(problem, DeviceOffline | DeviceTimeout) and "guidance" not in vars(problem):
        problem.guidance = problem.alone
    return problem


def not_kept(problem: errors.KhoError) -> errors.KhoError:
    """Explain in the guidance why a call with `queue_for` was not queued: the board may have received it, or is
    connected."""
    if isinstance(problem, DeviceTimeout | BoardGone):
        why = "It was not queued, since the board may have executed it."
        if problem.details.get("sent") is False:
            why = "It was not queued: the board is connected, and `queue_for` is for boards that are offline."
        problem.guidance = Hint(why, " ", problem.guidance)
    return problem
