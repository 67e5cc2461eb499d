"""A hub without keys answers its own account's programs on this machine, and nobody who comes through them or beside
them."""

import os
import socket
import subprocess
from pathlib import Path

import pytest
from tests.acceptance.processes import Client, Hub, Place
from tests.doors.doors import Served, bearer, new_key, served
from tests.timeouts import PATIENCE

from kho.lib import peer_account
from kho.settings import Http, Settings

pytestmark = pytest.mark.anyio

PROXIES = {
    "forwarded": "for=8.8.8.8",
    "x-forwarded-for": "8.8.8.8",
    "x-forwarded-host": "evil.example",
    "x-forwarded-proto": "https",
    "x-real-ip": "8.8.8.8",
    "via": "1.1 nginx",
}
NOBODY = 65534
ASK = 'exec 3<>/dev/tcp/127.0.0.1/$0; printf "GET /servers HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n" >&3; cat <&3'
"""bash, because another account may not be allowed to run this Python."""
needs_kernel = pytest.mark.skipif(not peer_account.known(), reason="this system does not say whose a connection is")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can call as another account")


@pytest.mark.parametrize("header", PROXIES)
async def test_without_keys_what_a_proxy_passes_on_is_refused(shared_hub: Served, header: str) -> None:
    refused = await shared_hub.get("/servers", **{header: PROXIES[header]})
    assert refused.status_code == 401
    assert "proxy" in refused.json()["error"]["message"]
    posted = await shared_hub.post("/jsonrpc", {}, **{header: PROXIES[header]})
    assert posted.status_code == 401
    opened = await shared_hub.post("/xiaozhi/ota/", {}, device_id="02:aa:00:00:00:02", **{header: PROXIES[header]})
    assert opened.status_code == 401


async def test_with_keys_a_proxy_may_pass_on_what_has_one(settings: Settings) -> None:
    key = await new_key(settings)
    async with served(settings) as hub:
        for header, value in PROXIES.items():
            assert (await hub.get("/servers", **bearer(key), **{header: value})).status_code == 200


async def test_the_token_of_this_machine_s_user_is_not_taken_from_a_proxy(settings: Settings) -> None:
    await new_key(settings)
    settings.home.mkdir(exist_ok=True)
    token = "kho_local_" + "t" * 43
    (settings.home / "local.token").write_text(token, encoding="ascii")
    (settings.home / "local.token").chmod(0o600)
    async with served(settings) as hub:
        assert (await hub.get("/servers", **bearer(token))).status_code == 200
        assert (await hub.get("/servers", **bearer(token), via="1.1 nginx")).status_code == 401


async def test_two_authorization_headers_are_refused(settings: Settings) -> None:
    key = await new_key(settings)
    async with served(settings) as hub:
        twice = [("authorization", f"Bearer {key}")] * 2
        assert (await hub.http.get("/servers", headers=twice)).status_code == 401
        assert (await hub.http.get("/servers", headers=twice[:1])).status_code == 200


# -- other accounts ----------------------------------------------------------------------------------------------------


def as_nobody(port: int) -> str:
    """What another account of this machine is answered there."""
    asked = subprocess.run(
        ["/bin/bash", "-c", ASK, str(port)], capture_output=True, user=NOBODY, cwd="/", timeout=PATIENCE, check=True
    )
    return asked.stdout.decode()


@needs_kernel
@needs_root
def test_another_account_of_this_machine_is_refused_without_keys(tmp_path: Path) -> None:
    with Hub(Place(tmp_path / "home")) as hub:
        hub.ready()
        told = as_nobody(hub.port)
        assert told.startswith("HTTP/1.1 401")
        assert "another account" in told
        assert "KHO_HTTP__OTHER_ACCOUNTS" in told
        assert "every account" not in hub.log


@needs_root
def test_other_accounts_are_let_in_by_a_setting_and_the_start_says_so(tmp_path: Path) -> None:
    with Hub(Place(tmp_path / "home"), KHO_HTTP__OTHER_ACCOUNTS="true") as hub:
        hub.ready()
        assert as_nobody(hub.port).startswith("HTTP/1.1 200")
        assert "every account of this machine is let in" in hub.log


@needs_kernel
async def test_who_cannot_be_told_is_not_this_machine_s_user(settings: Settings) -> None:
    """A connection that its caller has closed already belongs to nobody."""
    async with served(settings) as hub:
        port = int(hub.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as caller:
            here = caller.getsockname()
            assert peer_account.is_own(here, ("127.0.0.1", port))
        assert not peer_account.is_own(here, ("127.0.0.1", port))


def test_the_address_that_a_stranger_states_is_not_believed(tmp_path: Path) -> None:
    """Only of a proxy that the settings name: the audit trail and the limits for newcomers count by address."""
    for proxies, address in (("", "127.0.0.1"), ("127.0.0.1", "203.0.113.5")):
        place = Place(tmp_path / (proxies or "none"))
        assert place.run("keys", "create", "me").returncode == 0
        with Hub(place, KHO_HTTP__TRUSTED_PROXIES=proxies, KHO_OBSERVE__LOG_LEVEL="INFO") as hub:
            hub.ready()
            with Client(hub.port) as client:
                assert client.post("/jsonrpc", b"{}", x_forwarded_for="203.0.113.5")[0] == 401
            assert f'"client":"{address}"' in hub.log


def test_what_is_no_network_is_no_proxy() -> None:
    with pytest.raises(ValueError, match="must be an address or a network"):
        Http(trusted_proxies=["*"])
