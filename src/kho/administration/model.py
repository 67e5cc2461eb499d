"""What goes in and out of the operations of administration."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field, StringConstraints

from kho.kernel.access import BY_NAME
from kho.kernel.api_keys import PREFIX, public_id
from kho.kernel.params import JSON_LIST, Params, Reason, Result, Time, Whole
from kho.kernel.validation import in_words

NAME = in_words(r"^[^\x00-\x1f\x7f]{0,128}$", "must be one line of at most 128 characters")
TENANT = in_words(r"^[\w.:/@+-]{1,128}$", "must be 1 to 128 letters, digits or characters of . : / @ + - _")
MOST_DAYS = 36_500
MOST_HOURS = 24 * 365

Names = Annotated[list[Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]], JSON_LIST]
"""An empty name is refused: a limit to nothing, as of a script whose variable is empty, must not become no limit."""

KeyId = Annotated[
    str,
    StringConstraints(max_length=128),
    AfterValidator(lambda text: public_id(text) or text.removeprefix(f"{PREFIX}_")),
    Field(description="The id of the key: the eight characters after 'kho_'. The whole key will do, too."),
]


class NoParams(Params):
    pass


class CreateKey(Params):
    name: Annotated[str, StringConstraints(pattern=NAME), Field(description="Whose key it is; logs show it.")] = ""
    tenant: Annotated[
        str | None,
        StringConstraints(pattern=TENANT),
        Field(description="The tenant whose data it gives access to; the caller's own if absent."),
    ] = None
    scopes: Annotated[
        Names | None,
        Field(
            min_length=1,
            max_length=64,
            description=f"Scopes that it allows. Without them all but {' and '.join(sorted(BY_NAME))}.",
        ),
    ] = None
    tools: Annotated[
        Names | None,
        Field(
            min_length=1,
            max_length=128,
            description="Tools that it is limited to, whichever way it is used: sets (minimal, default, all), "
            "capabilities such as documents, or names of tools. Without them no limit.",
        ),
    ] = None
    read_only: Annotated[bool, Field(description="It can look things up, but not change anything.")] = False
    days: Annotated[int, Field(ge=0, le=MOST_DAYS, description="Days until it expires; 0 is never."), Whole] = 0
    confirm: Annotated[
        bool, Field(description="Make it although it is the first key, after which callers over HTTP need one.")
    ] = False


class Key(Result):
    id: str
    name: str
    tenant: str
    scopes: list[str]
    tools: list[str]
    read_only: bool
    created_at: Time
    expires_at: Time | None = None
    revoked_at: Time | None = None
    last_used_at: Time | None = Field(default=None, description="To about a minute.")
    successor: str | None = Field(
        default=None, description="The id of the key that replaces it; it ends at `expires_at`."
    )


class CreatedKey(Key):
    key: str = Field(
        default="", description="The key itself. It is shown once: the answer to a repeated request lacks it."
    )
    first: bool = Field(default=False, description="True if callers over HTTP need a key from now on.")


class KeyList(Result):
    keys: list[Key]


class RevokeKey(Params):
    id: KeyId
    reason: Reason = ""


class RevokedKey(Result):
    id: str
    revoked: bool = True
    valid_left: int = Field(description="How many keys of this hub are still valid.")


class DeleteKey(Params):
    id: KeyId
    reason: Reason = ""


class TurnOffKeys(Params):
    reason: Reason = ""


class DeletedKey(Result):
    id: str
    deleted: bool = True


class RotateKey(Params):
    id: KeyId
    hours: Annotated[
        int,
        Field(ge=0, le=MOST_HOURS, description="Hours that the old key stays valid beside the new one; 0 ends it now."),
        Whole,
    ] = 24


class RotatedKey(CreatedKey):
    replaces: str = Field(description="The id of the old key.")
    old_valid_until: Time


class KeysOff(Result):
    deleted: int


class Tenant(Result):
    tenant: str
    keys: int = Field(description="How many valid keys it has.")
    changed_at: Time | None = Field(default=None, description="When something of it was changed last.")


class TenantList(Result):
    tenants: list[Tenant]


class Setting(Result):
    name: str = Field(description="As in a settings file: section.name")
    value: Any = Field(description="In force now. Secrets are masked.")
    source: str = Field(description="'default', the variable that sets it, or the settings file.")


class SettingList(Result):
    settings: list[Setting]
