"""The xiaozhi protocol without I/O: frames, sessions, and tools read with distrust."""
