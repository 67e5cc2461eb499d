"""The xiaozhi protocol without I/O: frames, sessions, and validation of listed tools."""
