"""Requests whose first lines are odd, byte by byte over the socket: refused or dropped, never a 5xx."""

from tests.fuzz.corpus import HEADS
from tests.fuzz.target import Target


def test_odd_heads(target: Target) -> None:
    for label, head in HEADS.items():
        received = target.send_bytes(head.replace(b"PORT", b"%d" % target.port))
        status = received[9:12]
        assert not received or received.startswith(b"HTTP/1.1 "), (label, received)
        assert status in (b"", b"200", b"204") or status.startswith(b"4"), (label, received)
