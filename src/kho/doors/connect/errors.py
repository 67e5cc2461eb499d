"""Failures of `kho connect` and `kho disconnect`."""

from typing import ClassVar

from kho.kernel.errors import KhoError


class CannotConnect(KhoError):
    """The client cannot be connected like this. Nothing was written."""

    code: ClassVar[str] = "CANNOT_CONNECT"
    status: ClassVar[int] = 400
