"""What devices hold of tenants and people. Boards are everybody's; a call is whoever's that made it."""

from kho.devices.settings import DeviceSettings
from kho.kernel.upkeep.erasure import Erasure, Rows

SLICE = "devices"
QUEUED_BY = "number IN (SELECT number FROM device_calls WHERE tenant = $1 AND caller IN ({names}))"


def erasures(settings: DeviceSettings) -> list[Erasure]:
    return [
        Rows(slice=SLICE, table="device_queue", key=("number",), owned=QUEUED_BY),
        Rows(
            slice=SLICE,
            table="device_calls",
            key=("number",),
            owners=("caller",),
            aged="at < {before}",
            keep_days=settings.keep_calls_days,
        ),
        Rows(
            slice=SLICE,
            table="device_notifications",
            key=("device", "place"),
            aged="at < {before}",
            keep_days=settings.keep_notifications_days,
        ),
        Rows(slice=SLICE, table="devices", key=("id", "client"), authors=("approved_by",)),
        Rows(slice=SLICE, table="device_toolsets", key=("digest",)),
        Rows(slice=SLICE, table="device_counts", key=("tenant",)),
        Rows(slice=SLICE, table="device_guesses", key=("tenant",)),
    ]
