"""Markdown rendering of administration for the command line."""

from kho.administration.model import (
    CreatedKey,
    DeletedKey,
    Key,
    KeyList,
    KeysOff,
    RevokedKey,
    RotatedKey,
    SettingList,
    TenantList,
)
from kho.kernel.access import BY_NAME
from kho.lib.markdown import cell_code, counted, inline, table
from kho.lib.shown_time import minute


def key_alone(made: CreatedKey) -> str:
    """Only the key, so that a script can take it."""
    return made.key or "The key was shown when this request was first answered."


def about_new(made: CreatedKey) -> str:
    kept = f"Keep it: it is not shown again. Callers send it as 'Authorization: Bearer {made.key[:12]}…'."
    locked = " From now on every caller over HTTP needs one; 'kho keys off' goes back." if made.first else ""
    return f"{kept}{locked}"


def about_rotated(made: RotatedKey) -> str:
    return (
        f"Keep it: it is not shown again. The old one, {made.replaces}, is valid until {minute(made.old_valid_until)}."
    )


def keys(found: KeyList) -> str:
    if not found.keys:
        return "There are no keys: the hub answers this machine's user only."
    rows = (
        (cell_code(key.id), inline(key.name), inline(key.tenant), _allows(key), _state(key), _used(key))
        for key in found.keys
    )
    return table(("id", "name", "tenant", "allows", "state", "last used"), rows)


def _allows(key: Key) -> str:
    everything = f"all but {' and '.join(sorted(BY_NAME))}"
    parts = [" ".join(everything if scope == "*" else scope for scope in key.scopes)]
    if key.tools:
        parts.append(f"only {', '.join(key.tools)}")
    if key.read_only:
        parts.append("read-only")
    return inline("; ".join(parts))


def _state(key: Key) -> str:
    if key.revoked_at:
        return f"revoked {minute(key.revoked_at)}"
    ending = f"expires {minute(key.expires_at)}" if key.expires_at else "valid"
    return f"replaced by {key.successor}, {ending}" if key.successor else ending


def _used(key: Key) -> str:
    return minute(key.last_used_at) if key.last_used_at else "never"


def revoked(done: RevokedKey) -> str:
    return f"Revoked {done.id}."


def none_left(done: RevokedKey) -> str:
    if done.valid_left:
        return ""
    return (
        "No valid key is left, so nobody is answered over HTTP but programs of this machine's user that 'kho connect "
        "--http' has set up. 'kho keys create' makes another; 'kho keys off' goes back to a hub without keys, which "
        "answers everybody on this machine."
    )


def deleted(done: DeletedKey) -> str:
    return f"Deleted {done.id}."


def off(done: KeysOff) -> str:
    return f"Deleted {counted(done.deleted, 'key')}."


def about_off(done: KeysOff) -> str:
    return "The hub needs no key now, for callers on this machine only."


def tenants(found: TenantList) -> str:
    rows = (
        (inline(one.tenant), str(one.keys), minute(one.changed_at) if one.changed_at else "") for one in found.tenants
    )
    return table(("tenant", "valid keys", "last change"), rows)


def settings(found: SettingList) -> str:
    rows = (
        (
            cell_code(one.name),
            cell_code(one.value if isinstance(one.value, str) else str(one.value)),
            inline(one.source),
        )
        for one in found.settings
    )
    return table(("setting", "value", "from"), rows)
