"""Generated requests: real calls with something wrong in them, and bytes that are nothing at all."""

import pytest
from tests.fuzz.attacks import action_requests, explore, raw_requests, rpc_requests, tool_requests
from tests.fuzz.budget import share
from tests.fuzz.seeds import good_requests
from tests.fuzz.target import Target


def test_jsonrpc(target: Target) -> None:
    explore(rpc_requests(target), target.send, share("jsonrpc"))


def test_actions(target: Target) -> None:
    explore(action_requests(target), target.send, share("actions"))


@pytest.mark.parametrize("era", ["handshake", "modern"])
def test_mcp_tools(target: Target, era: str) -> None:
    explore(tool_requests(target, modern=era == "modern"), target.send, share(era))


def test_raw_bytes(target: Target) -> None:
    explore(raw_requests(good_requests(target)), target.send, share("raw"))


def test_over_the_socket(target: Target) -> None:
    requests = rpc_requests(target) | action_requests(target) | raw_requests(good_requests(target))
    explore(requests, target.send_over_socket, share("socket"))


def test_postgres(on_postgres: Target) -> None:
    explore(rpc_requests(on_postgres) | action_requests(on_postgres), on_postgres.send, share("postgres"))
    on_postgres.alive()
