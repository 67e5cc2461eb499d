"""The threat table of docs/security.md, one file a row: the defence is met as an attacker meets it."""

from tests.doors.conftest import both_settings as both_settings
from tests.doors.conftest import home as home
from tests.doors.conftest import hub as hub
from tests.doors.conftest import settings as settings
