"""The contract of administration: for admins, and not for models, so none of its operations is a tool."""

from kho.kernel import Contract
from kho.kernel.checkpoint import ADMIN

ADMINISTRATION = Contract("administration", read_scope=ADMIN, write_scope=ADMIN, tool=False, named_by="wire")
