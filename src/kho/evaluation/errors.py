"""Errors of an evaluation."""

from kho.kernel.errors import InvalidParams


class BadData(InvalidParams):
    """The file does not hold a corpus and questions."""


class BadConfiguration(InvalidParams):
    """There is no such configuration."""
