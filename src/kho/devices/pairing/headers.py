"""Identity and token from a board's request: headers, or the query where a browser acts as the board."""

from collections.abc import Mapping

from kho.kernel.errors import InvalidParams
from kho.lib.dataclass import dataclass
from kho.lib.lazy_regex import pattern

_ID = pattern(r"[A-Za-z0-9._:/-]{1,128}")


@dataclass(frozen=True, slots=True)
class BoardHeaders:
    device: str
    """Device id in lower case, as stored. Empty if not given."""
    client: str
    """Client id, which the firmware generates at its first start."""
    token: str

    @property
    def named(self) -> "BoardHeaders":
        if not self.device:
            raise InvalidParams("Say which board this is, in the header Device-Id.", field="Device-Id")
        return self


def normal(device: str) -> str:
    return device.strip().lower()


def stated(headers: Mapping[str, str], query: Mapping[str, str]) -> BoardHeaders:
    """Read the headers. Raises InvalidParams for an invalid id."""

    def said(name: str) -> str:
        return (headers.get(name) or query.get(name) or "").strip()

    device, client = normal(said("device-id")), said("client-id")
    for name, value in (("Device-Id", device), ("Client-Id", client)):
        if value and not _ID.fullmatch(value):
            raise InvalidParams(f"{name} must be 1 to 128 of A-Z a-z 0-9 . _ : / -", field=name)
    credential = said("authorization")
    scheme, _, rest = credential.partition(" ")
    return BoardHeaders(device, client, rest.strip() if scheme.lower() == "bearer" else credential)


def base(public_url: str, scheme: str, headers: Mapping[str, str]) -> str:
    """Return the hub's base URL as the board can reach it: the configured address, or the one of this request. The
    guard has checked the host."""
    return public_url.rstrip("/") or f"{scheme}://{headers.get('host', '')}"


def socket_base(http: str) -> str:
    return "ws" + http.removeprefix("http")
