"""How a worker and its hub talk: lengths first, then what they are the lengths of."""

import struct

REQUEST = struct.Struct(">II??")
"""The lengths of the name and of the data, which follow; whether the data is a text somebody wrote instead of a file;
and whether its passages are wanted, too."""
ANSWER = struct.Struct(">III")
"""The lengths of what follows: JSON that says what became of it, the text, and its passages, a line of JSON each."""
