"""Requests that are wrong before their body: odd first lines over the socket, and places where nothing is served."""

from tests.fuzz.corpus import HEADS, WRONG_PLACES
from tests.fuzz.target import Request, Target


def test_odd_heads(target: Target) -> None:
    for label, head in HEADS.items():
        received = target.send_bytes(head.replace(b"PORT", b"%d" % target.port))
        assert not received or received.startswith(b"HTTP/1.1 "), (label, received)
        status = received[9:12]
        assert status in (b"", b"100", b"200", b"307") or status.startswith(b"4"), (label, received)


def test_places_where_nothing_is_served(target: Target) -> None:
    for method, path in WRONG_PLACES:
        answer = target.send(Request(path, b"", method=method))
        assert answer.status in (404, 405), (method, path, answer)
