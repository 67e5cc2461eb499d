"""What all operations on devices share, whichever service declares them."""

from kho.kernel.contract import Contract

ADMIN = "admin"
CALL = "devices:call"
"""The scope to have a device do something; reading about devices and labelling them have scopes of their own."""
DEVICES = Contract("devices", read_scope="devices:read", write_scope="devices:write", named_by="wire")
SOME = {"device": "aa:bb:cc:dd:ee:ff"}
