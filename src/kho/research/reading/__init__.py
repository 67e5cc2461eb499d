"""Files to text: what a researcher has on disk, in the encodings it was saved in.

Nothing heavy is imported here; a parser is loaded when the first file of its kind comes.
"""

from kho.research.reading.formats import formats, is_readable
from kho.research.reading.model import Limits, Readable, Unreadable
from kho.research.reading.reader import read
from kho.research.reading.worker import Worker

__all__ = ["Limits", "Readable", "Unreadable", "Worker", "formats", "is_readable", "read"]
