"""Parsers: files of many formats and encodings to text.

Nothing heavy is imported here; a parser is loaded when the first file of its kind is read.
"""

from kho.parsers.formats import formats, is_readable
from kho.parsers.model import ParsedFile, ParserLimits, TextChunk, UnreadableFile
from kho.parsers.reader import read, read_text
from kho.parsers.worker import Worker

__all__ = [
    "ParsedFile",
    "ParserLimits",
    "TextChunk",
    "UnreadableFile",
    "Worker",
    "formats",
    "is_readable",
    "read",
    "read_text",
]
