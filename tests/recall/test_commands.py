"""`kho search`, `recall`, `fetch` and `recent`, as processes: alone and beside a hub."""

import json
from pathlib import Path

import pytest
from tests.acceptance.processes import Client, Hub, Place

TEXT = "Lan prefers pnpm over npm."


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path / "home")
    assert place.run("remember", TEXT, "--about", "Lan").returncode == 0
    assert place.run("docs", "create", "guide", "--body", "How to install pnpm.").returncode == 0
    return place


def answer(place: Place, *arguments: str) -> str:
    done = place.run(*arguments)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_a_command_searches_all_slices(place: Place) -> None:
    found = json.loads(answer(place, "search", "pnpm", "--json"))["results"]
    assert {one["kind"] for one in found} == {"fact", "document"}
    assert json.loads(answer(place, "recall", "pnpm", "--json"))["results"] == found
    said = answer(place, "search", "pnpm", "--kind", "fact", "--explain")
    assert "fact **Lan prefers pnpm over npm.**" in said
    assert "> Lan prefers pnpm over npm." in said
    assert "Read one in full with `kho fetch ID`." in said
    [fact] = [one["id"] for one in found if one["kind"] == "fact"]
    assert "about Lan" in answer(place, "fetch", fact)
    assert "guide" in answer(place, "recent", "--limit", "1")
    assert answer(place, "search", "xylophone") == "Nothing was found.\n"


def test_a_command_of_one_slice_knows_the_ids_of_all(place: Place) -> None:
    refused = place.run("docs", "get", "fact:1")
    assert refused.returncode == 1
    assert "is an id of another kind (fact), which 'fetch' reads" in refused.stderr.decode()
    assert "How to install pnpm." in answer(place, "docs", "get", "doc:guide")
    refused = place.run("fetch", "doc:nothing")
    assert refused.returncode == 1
    assert "Nothing that you may read has that id." in refused.stderr.decode()
    assert "`kho search` and `kho recent` show it whole" in refused.stderr.decode()


def test_forgetting_names_the_command_that_brings_it_back(place: Place) -> None:
    [fact] = json.loads(answer(place, "facts", "list", "--json"))["facts"]
    said = answer(place, "facts", "forget", fact["id"])
    assert f"Forgotten. `kho facts restore {fact['id']}` brings it back." in said
    assert "It was forgotten already." in answer(place, "forget", fact["id"])
    assert "Restored." in answer(place, "facts", "restore", fact["id"])
    assert "It was not forgotten." in answer(place, "facts", "restore", fact["id"])


def test_links_of_stdio_lead_to_the_running_hub(place: Place) -> None:
    asked = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25",
         "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "search", "arguments": {"query": "Lan"}}},
    ]  # fmt: skip
    lines = b"".join(json.dumps(one).encode() + b"\n" for one in asked)
    with Hub(place) as hub:
        port = hub.ready().port
        replies = [json.loads(line) for line in place.run("stdio", stdin=lines).stdout.splitlines()]
    [found] = next(one for one in replies if one.get("id") == 2)["result"]["structuredContent"]["results"]
    assert found["url"] == f"http://127.0.0.1:{port}/open/{found['id']}"


def test_links_lead_to_the_hub_that_made_them(place: Place) -> None:
    with Hub(place) as hub, Client(hub.ready().port) as client:
        asked = {"action": "search", "payload": {"query": "Lan"}}
        status, answered = client.post("/actions", json.dumps(asked).encode())
        assert status == 200
        [found] = json.loads(answered)["result"]["results"]
        assert found["url"] == f"http://127.0.0.1:{hub.port}/open/{found['id']}"
