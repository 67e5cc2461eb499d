"""`kho serve` with a certificate: a real server, asked by a client that checks the certificate."""

import ssl
import subprocess
from pathlib import Path

import httpx2
import pytest
from pydantic import ValidationError
from tests.acceptance.processes import PATIENCE, Hub, Place, until

from kho.settings import Http


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "home")


def certificate(folder: Path, name: str = "hub", *options: str) -> tuple[str, str]:
    """Make a certificate for this machine's loopback names, signed by itself."""
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-keyout", str(key),
         "-out", str(certificate), "-days", "2", "-subj", "/CN=localhost", "-addext",
         "subjectAltName=DNS:localhost,IP:127.0.0.1", *(options or ["-noenc"])],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return str(certificate), str(key)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_hub_with_a_certificate_speaks_https_alone(place: Place, tmp_path: Path, workers: str) -> None:
    public, private = certificate(tmp_path)
    made = place.run("keys", "create", "owner")
    key = made.stdout.decode().strip()
    with Hub(place, "--tls-cert", public, "--tls-key", private, "--workers", workers) as hub:
        until(lambda: "answers at https://" in hub.log, "the hub to say where it answers", hub.process)
        port = int(hub.log.split("answers at https://127.0.0.1:")[1].split(" ")[0])
        trusting = ssl.create_default_context(cafile=public)
        bearer = {"authorization": f"Bearer {key}"}
        with httpx2.Client(verify=trusting, trust_env=False, timeout=PATIENCE, headers=bearer) as http:
            until(lambda: _answers(http, port), "the hub to answer", hub.process)
            assert http.get(f"https://localhost:{port}/servers").status_code == 200
        with httpx2.Client(trust_env=False, timeout=PATIENCE) as http, pytest.raises(httpx2.TransportError):
            http.get(f"http://127.0.0.1:{port}/health")
        assert "unencrypted" not in hub.log


def _answers(http: httpx2.Client, port: int) -> bool:
    try:
        return http.get(f"https://127.0.0.1:{port}/health").status_code == 200
    except httpx2.TransportError:
        return False


def test_keys_in_clear_beyond_this_machine_are_warned_of(place: Place) -> None:
    place.run("keys", "create", "owner")
    with Hub(place, "--host", "0.0.0.0").ready() as hub:
        assert "travel unencrypted" in hub.log
    with Hub(place, "--host", "0.0.0.0", KHO_HTTP__PUBLIC_URL="https://kho.example").ready() as hub:
        assert "travel unencrypted" not in hub.log
    with Hub(place).ready() as hub:
        assert "travel unencrypted" not in hub.log


def test_boards_in_clear_beyond_this_machine_are_warned_of(place: Place, tmp_path: Path) -> None:
    """The broker that comes with Kho has no TLS, whatever the hub beside it has."""
    place.run("keys", "create", "owner")
    public, private = certificate(tmp_path)
    tls = ("--tls-cert", public, "--tls-key", private)
    for options, setting, warned in (
        (("--mqtt-broker", "0.0.0.0:0"), "", True),
        ((), "0.0.0.0:0", True),
        (("--mqtt-broker", "127.0.0.1:0"), "", False),
        ((), "", False),
    ):
        with Hub(place, *tls, *options, KHO_DEVICES__MQTT_BROKER=setting) as hub:
            until(lambda hub=hub: "answers at https://" in hub.log, "the hub to say where it answers", hub.process)
            assert ("unencrypted to the MQTT broker at 0.0.0.0:0" in hub.log) == warned, hub.log
            assert "keys and data travel" not in hub.log


def test_what_cannot_be_used_is_said_in_one_sentence(place: Place, tmp_path: Path) -> None:
    public, private = certificate(tmp_path)
    other, _ = certificate(tmp_path, "other")
    locked = certificate(tmp_path, "locked", "-passout", "pass:x")
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("no certificate")
    for options, says in (
        (("--tls-cert", public), "--tls-cert and --tls-key need each other"),
        (("--tls-cert", other, "--tls-key", private), "do not belong together"),
        (("--tls-cert", *(locked[0], "--tls-key", locked[1])), "must have no password"),
        (("--tls-cert", str(nonsense), "--tls-key", private), "must be PEM files"),
        (("--tls-cert", str(tmp_path / "absent"), "--tls-key", private), "does not exist"),
    ):
        refused = place.run("serve", "--port", "0", *options)
        assert refused.returncode != 0
        assert says in refused.stderr.decode()
        assert "Traceback" not in refused.stderr.decode()


def test_a_certificate_without_its_key_in_the_settings_is_refused() -> None:
    with pytest.raises(ValidationError, match="need each other"):
        Http(tls_cert=Path("hub.pem"))
