"""Lines of an exported trail: JSON, or Common Event Format (CEF) for systems that collect the events of many programs.

What looks like a secret is masked in both: an exported file goes places where the store does not.
"""

from collections.abc import Mapping
from typing import Any, Literal, cast

import orjson

from kho.audit import chain
from kho.kernel import Tx
from kho.lib.clock import iso
from kho.lib.dataclass import dataclass
from kho.lib.sql import to_json, where
from kho.sanitizer.scan import mask, scan

Format = Literal["json", "cef"]
SEVERITY = {"done": 3, "refused": 6}


@dataclass(frozen=True, slots=True)
class Exported:
    """A row with its further subjects, and its link if it has one."""

    row: chain.TrailRow
    place: int | None
    digest: bytes | None


def rows(
    tx: Tx, tenant: str, *, after: int, limit: int, since: int | None = None, until: int | None = None
) -> list[Exported]:
    """Return rows after a number, the oldest first."""
    text, values = where({"audit.tenant =": tenant, "audit.number >": after, "audit.at >=": since, "audit.at <": until})
    found = tx.all(
        "SELECT audit.number, link.place, link.digest FROM audit LEFT JOIN audit_links AS link "
        f"ON link.tenant = audit.tenant AND link.number = audit.number WHERE {text} "
        f"ORDER BY audit.number LIMIT ${len(values) + 1}",
        *values,
        limit,
    )
    by_number = chain.rows_of(tx, tenant, [number for number, _, _ in found])
    return [Exported(by_number[number], place, digest) for number, place, digest in found]


def as_json(one: Exported) -> dict[str, Any]:
    row = one.row
    line: dict[str, Any] = {
        "number": row.number,
        "at": iso(row.at),
        "tenant": row.tenant,
        "slice": row.capability,
        "action": row.operation,
        "outcome": row.outcome,
        "actor": row.actor,
        "subject": row.subject,
        "reason": row.reason,
        "request_id": row.request_id,
        "details": orjson.loads(row.details),
    }
    if row.further:
        further = [{"subject": subject, "details": orjson.loads(details)} for subject, details in sorted(row.further)]
        line["further_subjects"] = further
    if row.erased_at is not None:
        line["erased_at"] = iso(row.erased_at)
    if one.place is not None and one.digest is not None:
        line |= {"place": one.place, "digest": one.digest.hex()}
    return _masked(line, at_top=True)


def as_cef(one: Exported, version: str) -> str:
    """Return `CEF:0|Kho|kho|version|slice/action|action|severity|extension`, on one line."""
    line = as_json(one)
    action = line["action"]
    head = ["Kho", "kho", version, f"{line['slice']}/{action}".strip("/"), action, str(SEVERITY[line["outcome"]])]
    address = line["subject"] if not line["slice"] else ""  # counts of refused credentials: each for an address
    fields = {
        "rt": str(one.row.at // 1000),
        "externalId": str(line["number"]),
        "outcome": line["outcome"],
        "suser": line["actor"],
        "src": address if _is_address(address) else "",
        "reason": line["reason"],
        "msg": to_json({"details": line["details"], **_more(line)}),
        **_labelled("cs1", "tenant", line["tenant"]),
        **_labelled("cs2", "subject", line["subject"]),
        **_labelled("cs3", "requestId", line["request_id"]),
        **_labelled("cs4", "chainDigest", line.get("digest", "")),
        **_labelled("cn1", "chainPlace", str(line.get("place", ""))),
    }
    extension = " ".join(f"{name}={_extension(value)}" for name, value in fields.items() if value)
    return "|".join(["CEF:0", *map(_head, head), extension])


def _more(line: Mapping[str, Any]) -> dict[str, Any]:
    return {name: line[name] for name in ("further_subjects", "erased_at") if name in line}


def _labelled(field: str, label: str, value: str) -> dict[str, str]:
    return {f"{field}Label": label, field: value} if value else {}


def _is_address(text: str) -> bool:
    return bool(text) and all(sign in "0123456789." for sign in text)


def _head(text: str) -> str:
    return _one_line(text.replace("\\", "\\\\").replace("|", "\\|"), " ")


def _extension(text: str) -> str:
    return _one_line(text.replace("\\", "\\\\").replace("=", "\\="), "\\n")


def _one_line(text: str, instead: str) -> str:
    """Replace line ends, and every other character that a collector could take for one."""
    return instead.join(text.splitlines()).replace("\0", "")


FIXED = {"number", "at", "tenant", "slice", "action", "outcome", "erased_at", "place", "digest"}


def _masked(value: Any, name: str = "", *, at_top: bool = False) -> Any:
    """Mask secrets in every text, each read with the name that it has, as in 'password: …'."""
    match value:
        case str():
            known = f"{name}: "
            text = f"{known}{value}"
            return mask(text, [finding for finding in scan(text) if finding.tier == "secret"]).removeprefix(known)
        case list():
            return [_masked(one, name) for one in cast(list[Any], value)]
        case dict():
            found = cast(dict[str, Any], value)
            return {key: one if at_top and key in FIXED else _masked(one, key) for key, one in found.items()}
        case _:
            return value
