"""Files to text: what a researcher has on disk, in the encodings it was saved in.

Nothing heavy is imported here; a parser is loaded when the first file of its kind comes.
"""

from kho.research.reading.formats import formats, is_readable
from kho.research.reading.model import Limits, Readable, TextChunk, Unreadable
from kho.research.reading.reader import read, read_text
from kho.research.reading.worker import Worker

__all__ = ["Limits", "Readable", "TextChunk", "Unreadable", "Worker", "formats", "is_readable", "read", "read_text"]
