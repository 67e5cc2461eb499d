"""Contracts and scopes shared by all device operations."""

from kho.kernel import Call, Contract

DEVICES = Contract("devices", read_scope="devices:read", write_scope="devices:write", named_by="wire")
ADMIN = Contract("devices", read_scope="admin", write_scope="admin", named_by="wire", tool=False, action=False)
"""Approving, revoking and forgetting boards: for admins only, never as a tool for models or an action for bots."""
CALL = "devices:call"
"""Scope for calling a device's tools; reading about devices and labelling them have their own scopes."""
SOME = {"device": "aa:bb:cc:dd:ee:ff"}


def is_admin(call: Call) -> bool:
    return call.principal.allows(ADMIN.read_scope)
