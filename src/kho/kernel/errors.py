"""The error tree.

An error carries everything a door needs to answer it: a string code, the JSON-RPC number and the HTTP status. Slices
subclass it; a door only reads these attributes.
"""

import json
from collections.abc import Callable
from typing import Any, ClassVar, cast

INTERNAL = -32603
GENERAL = -32000
"""Number of a failure outside of a contract's categories, in contracts with their own numbers."""
UNAUTHORIZED, FORBIDDEN, CONFLICT, TOO_MANY = -32041, -32043, -32049, -32029
"""Our own numbers for failures that are not internal errors; the last digits match the HTTP status."""

CORRECT = "Correct what the message names, then call again."
"""Default guidance."""


class KhoError(Exception):
    """Something went wrong inside Kho. The request id finds it in the log."""

    code: ClassVar[str] = "INTERNAL"
    rpc: ClassVar[int] = INTERNAL
    status: ClassVar[int] = 500
    confirmable: ClassVar[bool] = False
    """True if the same call succeeds with `confirm`: the CLI then asks the user at a terminal."""
    guidance: str = ""
    """What to do about it, in a sentence: the class's default, unless one is given."""

    def __init__(self, message: str | None = None, *, guidance: str | None = None, **details: Any) -> None:
        self.message = message or " ".join((type(self).__doc__ or self.code).split())
        self.details: dict[str, Any] = details
        if guidance is not None:
            self.guidance = guidance
        super().__init__(self.message)

    def mask(self, change: Callable[[str], str]) -> None:
        """Change every text that it would show."""
        self.message, self.details = change(self.message), each_text(self.details, change)
        if (guidance := change(self.guidance)) != self.guidance:
            self.guidance = guidance
        self.args = (self.message,)

    def as_dict(self) -> dict[str, Any]:
        """Return the default JSON form, for doors whose contract prescribes no other."""
        body: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.details:
            body["details"] = self.details
        if self.guidance:
            body["guidance"] = self.guidance
        return body

    @property
    def contract_code(self) -> int:
        """Number in a contract that has numbers: such a contract has only one for all of Kho's own failures."""
        return GENERAL if self.rpc in (INTERNAL, UNAUTHORIZED, FORBIDDEN, CONFLICT, TOO_MANY) else self.rpc

    def contract_data(self) -> dict[str, str]:
        """`data` of a JSON-RPC error in such a contract: both parts are sentences, and neither is ever empty."""
        usual = "Try again. If it fails again, the log and 'kho doctor' say more." if self.status >= 500 else CORRECT
        return {"details": in_words(self.details) or self.message, "guidance": self.guidance or usual}

    def contract_form(self) -> dict[str, Any]:
        """Same, for answers that cannot be a JSON-RPC error with that number."""
        named = {"code": self.code, "contract_code": self.contract_code, "message": self.message}
        return {**named, **self.contract_data()}


def each_text(value: Any, change: Callable[[str], str]) -> Any:
    """Return the value with every text inside changed, names included."""
    if isinstance(value, str):
        changed = change(value)
        return value if changed == value else changed
    if isinstance(value, dict):
        return {change(str(name)): each_text(item, change) for name, item in cast(dict[Any, Any], value).items()}
    if isinstance(value, list | tuple):
        return [each_text(item, change) for item in cast(list[Any], value)]
    return value


def in_words(value: Any) -> str:
    """Render details as readable text: `path: notes.md; size: 3`."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        found = cast(dict[str, Any], value)
        if len(found) == 2 and "message" in found:  # one invalid parameter, or one thing that failed
            [subject] = (item for name, item in found.items() if name != "message")
            return about(in_words(subject), found["message"])
        return "; ".join(f"{name}: {in_words(item)}" for name, item in found.items())
    if isinstance(value, list | tuple):
        return ", ".join(in_words(item) for item in cast(list[Any], value))
    return json.dumps(value, default=str)


def about(subject: str, said: str) -> str:
    """Join a subject and what is said about it into one sentence: `limit must be 1 or more`."""
    if not subject:
        return said
    return f"{subject} {said}" if said.startswith(("is ", "must ", "may ")) else f"{subject}: {said}"


class InvalidParams(KhoError):
    """The parameters are not valid."""

    code = "INVALID_ARGUMENT"
    rpc = -32602
    status = 400
    guidance = CORRECT


class NotSanitized(InvalidParams):
    """The text contains a secret, so nothing was stored. Replace it with a placeholder, then call again."""

    code = "CONTEXT_NOT_SANITIZED"
    guidance = "Say where the secret is kept instead of what it is."


class Unauthorized(KhoError):
    """A valid credential is needed: send 'Authorization: Bearer kho_…' (see 'kho keys create')."""

    code = "UNAUTHORIZED"
    rpc = UNAUTHORIZED
    status = 401


class Forbidden(KhoError):
    """The credential does not allow this."""

    code = "FORBIDDEN"
    rpc = FORBIDDEN
    status = 403


class ReadOnly(Forbidden):
    """This hub is read-only: it answers, but nothing can be changed."""

    code = "READ_ONLY"
    guidance = "Whoever runs the hub can start it without KHO_READ_ONLY."


class NotFound(KhoError):
    """There is no such thing, or it is not yours."""

    code = "NOT_FOUND"
    rpc = -32001
    status = 404


class UnknownOperation(KhoError):
    """There is no operation of that name."""

    code = "UNKNOWN_OPERATION"
    rpc = -32601
    status = 404


class Conflict(KhoError):
    """It changed meanwhile, or the name is taken. Read it again, then retry."""

    code = "CONFLICT"
    rpc = CONFLICT
    status = 409


class Unconfirmed(Conflict):
    """This needs to be confirmed first. Nothing was done yet."""

    code = "CONFIRMATION_NEEDED"


class TooManyRequests(KhoError):
    """A limit is reached. `retry_after` among the details says in how many seconds to try again."""

    code = "RATE_LIMITED"
    rpc = TOO_MANY
    status = 429

    @property
    def retry_after(self) -> int | None:
        """Seconds, for the header Retry-After."""
        return self.details.get("retry_after")


class Timeout(KhoError):
    """The deadline passed before there was an answer. Ask for less, or allow more time."""

    code = "TIMEOUT"
    rpc = -32603
    status = 504


class DatabaseError(KhoError):
    """The database did not accept the work. Nothing was changed; try again."""

    code = "DATABASE_ERROR"
    rpc = -32603
    status = 503


class DamagedDatabase(DatabaseError):
    """The database file is damaged or not a SQLite database. 'kho doctor' says what can be done."""


class MigrationError(DatabaseError):
    """The database could not be brought up to date. Nothing was changed."""


class MigrationNeeded(MigrationError):
    """The database has to be brought up to date first: 'kho migrate --apply'."""


class Superseded(MigrationError):
    """Another process has brought the database up to date for a newer version of Kho. Nothing was written: end this
    one and start the newer version."""


class UniqueViolation(DatabaseError):
    """A row with that key exists already."""

    code = "CONFLICT"
    rpc = CONFLICT
    status = 409


class Unavailable(KhoError):
    """A service that Kho asks (a model, an index server) does not answer. Try again."""

    code = "UNAVAILABLE"
    rpc = -32603
    status = 503
