"""How a worker and its hub talk: lengths first, then what they are the lengths of."""

import struct

REQUEST = struct.Struct(">II?")
"""The lengths of the name and of the data, which follow, and whether the text is cut, too, to see whether it can be."""
ANSWER = struct.Struct(">I")
"""The length of the JSON that follows."""
