"""Files to text: what a researcher has on disk, in the encodings it was saved in.

Nothing heavy is imported here; a parser is loaded when the first file of its kind comes.
"""

from kho.parsers.formats import formats, is_readable
from kho.parsers.model import Limits, Readable, TextChunk, UnreadableFile
from kho.parsers.reader import read, read_text
from kho.parsers.worker import Worker

__all__ = ["Limits", "Readable", "TextChunk", "UnreadableFile", "Worker", "formats", "is_readable", "read", "read_text"]
