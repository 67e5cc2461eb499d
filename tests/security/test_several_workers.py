"""Several workers: each counts limits for itself, as docs/limits.md says, and none lets more through than it may."""

import time
from pathlib import Path

import orjson
from tests.acceptance.processes import Client, Hub, Place

MOST, WORKERS = 20, 2


def test_a_limit_is_counted_by_each_worker_for_itself(tmp_path: Path) -> None:
    place = Place(tmp_path / "home")
    key = place.run("keys", "create", "owner", "--tenant", "acme").stdout.decode().strip()
    body = orjson.dumps({"action": "list_facts", "payload": {}})
    with Hub(place, "--workers", str(WORKERS), KHO_LIMITS__REQUESTS=str(MOST)).ready() as hub:
        begun, statuses = time.monotonic(), list[int]()
        for _ in range(6 * MOST):
            with Client(hub.port) as client:  # each on a connection of its own, which either may accept
                status, _ = client.post("/actions", body, Authorization=f"Bearer {key}")
                statuses.append(status)
        came_back = WORKERS * MOST / 60 * (time.monotonic() - begun)
        assert set(statuses) == {200, 429}
        assert MOST <= statuses.count(200) <= WORKERS * MOST + came_back
        with Client(hub.port) as client:
            assert client.get("/health")["status"] == "healthy"
