"""The error tree.

An error carries everything a door needs to speak of it: a string code, the JSON-RPC number and the
HTTP status. Slices add their own by subclassing; a door only reads these attributes.
"""

from typing import Any, ClassVar


class KhoError(Exception):
    """Something went wrong inside Kho. The request id finds it in the log."""

    code: ClassVar[str] = "INTERNAL"
    rpc: ClassVar[int] = -32603
    status: ClassVar[int] = 500

    def __init__(self, message: str | None = None, **details: Any) -> None:
        self.message = message or (type(self).__doc__ or self.code).strip()
        self.details: dict[str, Any] = details
        super().__init__(self.message)

    def as_dict(self) -> dict[str, Any]:
        """The plain form, for doors whose contract prescribes no other."""
        body: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.details:
            body["details"] = self.details
        return body


class InvalidParams(KhoError):
    """The parameters are not valid."""

    code = "INVALID_ARGUMENT"
    rpc = -32602
    status = 400


class Unauthorized(KhoError):
    """A valid credential is needed: send 'Authorization: Bearer kho_…' (see 'kho keys create')."""

    code = "UNAUTHORIZED"
    rpc = -32603
    status = 401


class Forbidden(KhoError):
    """The credential does not allow this."""

    code = "FORBIDDEN"
    rpc = -32603
    status = 403


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
    rpc = -32603
    status = 409


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


class UniqueViolation(DatabaseError):
    """A row with that key exists already."""

    code = "CONFLICT"
    status = 409


class Unavailable(KhoError):
    """A service that Kho asks (a model, an index server) does not answer. Try again."""

    code = "UNAVAILABLE"
    rpc = -32603
    status = 503
