"""`verify_audit`, `export_audit` and `erase_audit`: whose trails each caller reaches, and what they answer."""

import asyncio
import os
import re
import stat
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.audit.conftest import Office
from tests.doors.command_line import program_of, run_in_process
from tests.doors.doors import Finished, bearer, new_key, served
from tests.timeouts import PATIENCE

from kho.app import open_database, open_hub
from kho.audit import markdown
from kho.audit.model import VerifiedAudit
from kho.kernel.call import Call, Principal
from kho.kernel.errors import KhoError
from kho.kernel.hub import Hub
from kho.settings import Settings

Json = dict[str, Any]
RECORD = {"title": "kettle", "problem_description": "It did not boil.", "solution": "Plug it in."}
TOKEN = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
"""In the form of a secret; it opens nothing."""


@pytest.fixture(params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres_schema_url")
    return Settings.model_validate(
        {"home": tmp_path / "home", "database_url": url, "search": {"embedder": {"provider": "none"}}}
    )


@dataclass
class Company:
    hub: Hub
    office: Office

    async def ask(self, name: str, arguments: Json, *scopes: str, sub: str = "lan", tenant: str = "acme") -> Any:
        principal = Principal(sub, tenant, frozenset(scopes or {"*", "admin"}), "key")
        return await self.hub.registry.call(self.hub.registry.actions[name], arguments, Call(principal, "actions"))

    async def done(self, name: str, arguments: Json, *scopes: str, **who: str) -> Json:
        outcome = await self.ask(name, arguments, *scopes, **who)
        assert outcome.error is None, outcome.error
        return outcome.value

    async def refused(self, name: str, arguments: Json, *scopes: str, **who: str) -> KhoError:
        outcome = await self.ask(name, arguments, *scopes, **who)
        assert outcome.error is not None
        return outcome.error

    async def seal(self, *tenants: str) -> None:
        for tenant in tenants or ("acme",):
            await self.office.sealer.seal_all(tenant)


@pytest.fixture
async def company(settings: Settings) -> AsyncGenerator[Company]:
    async with open_hub(settings) as hub:
        db, _ = open_database(settings)
        company = Company(hub, Office(db))
        await company.done("submit_experience", RECORD)
        await company.done("create_document", {"document_id": "d", "content": {"body": "Some words."}}, sub="minh")
        await company.done("delete_document", {"document_id": "d", "reason": f"leaked {TOKEN}"}, sub="minh")
        await company.done("memory_get_or_create", {"conversation_id": "c"}, tenant="globex")
        yield company
        await db.aclose()


# -- verify ------------------------------------------------------------------------------------------------------------


async def test_an_admin_verifies_its_own_trail_and_the_hubs_admin_all(company: Company) -> None:
    await company.seal()
    answer = await company.done("verify_audit", {})
    [trail] = answer["trails"]
    head = await company.office.head()
    assert trail == {
        "tenant": "acme", "whole": True, "sealed": 3, "unsealed": 0, "erased": 0, "removed": 0,
        "head": f"acme:3:{head.digest.hex()}", "broken": 0, "breaks": [],
    }  # fmt: skip
    whole = await company.done("verify_audit", {}, tenant="local")
    assert [(one["tenant"], one["sealed"], one["unsealed"]) for one in whole["trails"]] == [
        ("acme", 3, 0),
        ("globex", 0, 1),
    ]
    assert (await company.done("verify_audit", {"tenant": "acme"}, tenant="local"))["trails"] == answer["trails"]


@pytest.mark.parametrize("operation", ["verify_audit", "export_audit", "erase_audit"])
async def test_a_tenant_without_a_trail_is_said_so(company: Company, operation: str) -> None:
    """A slip of the pen would look like a trail that is whole and empty."""
    more = {"actor": "x"} if operation == "erase_audit" else {}
    error = await company.refused(operation, {**more, "tenant": "acmee"}, tenant="local")
    assert error.code == "NOT_FOUND"
    assert "There are: acme, globex" in error.message


@pytest.mark.parametrize("operation", ["verify_audit", "export_audit", "erase_audit"])
async def test_only_admins_may_and_each_of_its_own_tenant(company: Company, operation: str) -> None:
    more = {"actor": "x"} if operation == "erase_audit" else {}
    assert (await company.refused(operation, more, "*")).code == "FORBIDDEN"
    foreign = await company.refused(operation, {**more, "tenant": "globex"})
    unknown = await company.refused(operation, {**more, "tenant": "no-such"})
    assert foreign.code == "FORBIDDEN"
    assert foreign.as_dict() == unknown.as_dict()
    if operation == "verify_audit":
        head = f"globex:1:{'0' * 64}"
        assert (await company.refused(operation, {"expect_heads": [head]})).as_dict() == foreign.as_dict()


async def test_a_break_is_named_and_counted(company: Company) -> None:
    await company.seal()
    await company.office.tamper("UPDATE audit SET actor = 'nobody' WHERE tenant = 'acme'")
    answer = await company.done("verify_audit", {})
    [trail] = answer["trails"]
    assert (answer["whole"], trail["whole"], trail["broken"]) == (False, False, 3)
    assert [(one["kind"], one["place"]) for one in trail["breaks"]] == [("altered", place) for place in (1, 2, 3)]
    shown = markdown.verified(VerifiedAudit.model_validate(answer))
    assert shown.startswith("The audit trail was tampered with: 3 breaks.")
    assert "place 2" in shown


async def test_a_trail_that_was_cut_off_or_made_anew_is_found_by_a_head_kept_elsewhere(company: Company) -> None:
    await company.seal()
    kept = (await company.done("verify_audit", {}))["trails"][0]["head"]
    await company.done("memory_get_or_create", {"conversation_id": "later"})
    await company.seal()
    assert (await company.done("verify_audit", {"expect_heads": [kept]}))["whole"]  # it goes on from there
    newer = (await company.done("verify_audit", {}))["trails"][0]["head"]
    await company.office.tamper(
        "DELETE FROM audit WHERE number = (SELECT number FROM audit_links WHERE tenant = 'acme' AND place = 4)",
        "DELETE FROM audit_links WHERE tenant = 'acme' AND place = 4",
    )
    assert (await company.done("verify_audit", {}))["whole"]  # from inside it cannot be seen
    answer = await company.done("verify_audit", {"expect_heads": [newer]})
    [cut] = answer["trails"][0]["breaks"]
    assert (answer["whole"], cut["kind"], cut["place"]) == (False, "missing", 4)
    other = re.sub("[0-9a-f]{64}$", "0" * 64, kept)
    answer = await company.done("verify_audit", {"expect_heads": [other]})
    assert [one["kind"] for one in answer["trails"][0]["breaks"]] == ["unlinked"]
    gone = await company.done("verify_audit", {"expect_heads": [f"nobody:7:{'0' * 64}"]}, tenant="local")
    assert [one["kind"] for one in gone["trails"][-1]["breaks"]] == ["missing"]


@pytest.mark.parametrize("head", ["", "acme", "acme:3", "acme:3:xyz", f"acme:x:{'0' * 64}"])
async def test_what_is_no_head_is_refused(company: Company, head: str) -> None:
    assert (await company.refused("verify_audit", {"expect_heads": [head]})).status == 400


async def test_progress_is_told(company: Company) -> None:
    await company.seal()
    told: list[tuple[float, float | None, str | None]] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        told.append((done, total, message))

    call = Call(Principal("lan", "acme", frozenset({"admin"}), "key"), progress=progress)
    await company.hub.registry.call(company.hub.registry.actions["verify_audit"], {}, call)
    assert told == [(3, 3, "Verifying acme")]


# -- export ------------------------------------------------------------------------------------------------------------


async def exported(company: Company, **arguments: Any) -> list[Any]:
    lines: list[Any] = []
    cursor: str | None = None
    while True:
        page = await company.done("export_audit", {**arguments, "cursor": cursor})
        assert len(page["lines"]) <= arguments.get("limit", 500)
        lines += page["lines"]
        cursor = page.get("next_cursor")
        if cursor is None:
            return lines


@pytest.mark.parametrize("limit", [1, 2, 500])
async def test_an_export_has_every_row_with_its_place_and_no_secret(company: Company, limit: int) -> None:
    await company.seal()
    assert (await company.refused("memory_list", {}, "exp:read", sub="reader")).code == "FORBIDDEN"
    lines = await until_refused(company, limit)
    assert [(one["action"], one["outcome"], one["actor"], one.get("place")) for one in lines] == [
        ("submit_experience", "done", "lan", 1),
        ("create_document", "done", "minh", 2),
        ("delete_document", "done", "minh", 3),
        ("memory_list", "refused", "reader", None),
    ]
    assert lines[2]["reason"].startswith("leaked <")
    assert TOKEN not in orjson.dumps(lines).decode()
    assert lines[2]["digest"] == (await company.office.head()).digest.hex()
    assert {one["tenant"] for one in lines} == {"acme"}


async def until_refused(company: Company, limit: int) -> list[Json]:
    """Refusals are written after the answer."""
    async with asyncio.timeout(PATIENCE):
        while True:
            lines = await exported(company, limit=limit)
            if lines[-1]["outcome"] == "refused":
                return lines


async def test_an_export_of_a_span_and_of_another_tenant(company: Company) -> None:
    lines = await exported(company)
    assert [one["action"] for one in await exported(company, since=lines[1]["at"])] == [
        "create_document", "delete_document",
    ]  # fmt: skip
    assert [one["action"] for one in await exported(company, until=lines[1]["at"])] == ["submit_experience"]
    other = await company.done("export_audit", {"tenant": "globex"}, tenant="local")
    assert [one["action"] for one in other["lines"]] == ["memory_get_or_create"]


CEF = re.compile(r"CEF:0\|Kho\|kho\|[^|]+\|documents/delete_document\|delete_document\|3\|(.*)")


async def test_cef_is_one_line_whatever_the_text_holds(company: Company) -> None:
    await company.office.sealed(
        tenant="acme", operation="delete_document", actor="a=b|c", reason="one\r\ntwo\u2028three \\ end",
        subject="d", details={"a": "x=y|z\n"}, also=[("below", {"n": 1})],
    )  # fmt: skip
    [line] = [one for one in await exported(company, format="cef") if "a\\=b" in one]
    assert len(line.splitlines()) == 1
    found = CEF.fullmatch(line)
    assert found, line
    fields = dict(re.findall(r"(\w+)=((?:\\.|[^\\=])*?)(?= \w+=|$)", found[1]))
    assert fields["suser"] == "a\\=b|c"
    assert fields["reason"] == "one\\ntwo\\nthree \\\\ end"
    assert (fields["outcome"], fields["cs1"], fields["cs2"]) == ("done", "acme", "d")
    assert re.fullmatch("[0-9a-f]{64}", fields["cs4"])
    assert '"below"' in fields["msg"]


async def test_counts_of_refused_credentials_are_exported_with_their_address(company: Company) -> None:
    await company.office.write(
        capability="", operation="authenticate", subject="192.0.2.7", outcome="refused", details={"requests": 9}
    )
    line = (await exported(company, format="cef"))[-1]
    assert "|authenticate|authenticate|6|" in line
    assert " src=192.0.2.7 " in line


# -- erase -------------------------------------------------------------------------------------------------------------


async def test_what_somebody_did_is_erased_and_still_verifies(company: Company) -> None:
    await company.seal()
    head = (await company.done("verify_audit", {}))["trails"][0]["head"]
    answer = await company.done("erase_audit", {"actor": "minh", "reason": "asked for"})
    assert answer == {"tenant": "acme", "erased": 2, "left": 0}
    entries = (await company.done("audit_log", {}))["entries"]
    assert [(one["action"], one["actor"], one["subject"], "erased_at" in one) for one in entries] == [
        ("erase_audit", "lan", "", False),
        ("erase_text", "", "", False),
        ("delete_document", "", "", True),
        ("create_document", "", "", True),
        ("submit_experience", "lan", entries[-1]["subject"], False),
    ]
    assert "minh" not in orjson.dumps(entries).decode()
    verified = await company.done("verify_audit", {"expect_heads": [head]})
    assert (verified["whole"], verified["trails"][0]["erased"]) == (True, 2)


async def test_rows_that_wait_for_their_link_are_erased_too(company: Company) -> None:
    assert (await company.done("erase_audit", {"subject": "d"}))["erased"] == 2
    [trail] = (await company.done("verify_audit", {}))["trails"]
    assert (trail["whole"], trail["unsealed"]) == (True, 2)


async def test_what_an_erasure_said_of_itself_can_be_erased_too(company: Company) -> None:
    """The row that has its actor and its reason goes, and what it erased is named all the same."""
    await company.done("erase_audit", {"actor": "minh", "reason": "asked for by minh"})
    await company.done("erase_audit", {"actor": "lan"}, sub="another")
    await company.seal()
    [trail] = (await company.done("verify_audit", {}))["trails"]
    assert (trail["whole"], trail["erased"], trail["sealed"]) == (True, 4, 7)
    assert "minh" not in orjson.dumps((await company.done("audit_log", {}))["entries"]).decode()


async def test_further_subjects_are_found_and_other_tenants_are_not(company: Company) -> None:
    await company.office.sealed(also=[("below", {"n": 1})])
    await company.office.sealed(tenant="globex", also=[("below", {"n": 1})])
    assert (await company.done("erase_audit", {"subject": "below"}))["erased"] == 1
    kept = await company.office.all("SELECT tenant FROM audit_subjects")
    assert kept == [("globex",)]
    answer = await company.done("erase_audit", {"subject": "below", "tenant": "globex"}, tenant="local")
    assert answer["erased"] == 1
    said = await company.office.all("SELECT tenant, actor FROM audit WHERE operation = 'erase_audit' ORDER BY number")
    assert said == [("acme", "lan"), ("globex", "lan")]


async def test_a_large_erasure_is_done_in_parts(company: Company, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kho.audit.service.ERASED_AT_ONCE", 2)
    await company.office.sealed(3, actor="an")
    assert await company.done("erase_audit", {"actor": "an"}) == {"tenant": "acme", "erased": 2, "left": 1}
    assert await company.done("erase_audit", {"actor": "an"}) == {"tenant": "acme", "erased": 1, "left": 0}
    assert await company.done("erase_audit", {"actor": "an"}) == {"tenant": "acme", "erased": 0, "left": 0}


# -- doors -------------------------------------------------------------------------------------------------------------


async def test_every_refusal_at_a_door_is_chained_and_exported(settings: Settings) -> None:
    admin = await new_key(settings, "local", "admin")
    reader = await new_key(settings, "local", "exp:read", sub="reader")
    async with served(settings) as hub:
        assert (await hub.post("/jsonrpc", {}, **bearer("kho_AAAAAAAAAAAA_wrong"))).status_code == 401
        assert (await hub.act("memory_list", {}, key=reader)).status_code == 403
    async with served(settings) as hub:
        db, _ = open_database(settings)
        await Office(db).sealer.seal_all("local")
        await db.aclose()
        lines = (await hub.act("export_audit", {}, key=admin)).json()["result"]["lines"]
        refused = [(one["action"], one["outcome"], "place" in one) for one in lines if one["outcome"] == "refused"]
        assert sorted(refused) == [("authenticate", "refused", True), ("memory_list", "refused", True)]
        answer = await hub.act("verify_audit", {}, key=admin)
        assert answer.json()["result"]["whole"]
        body: Json = {"jsonrpc": "2.0", "id": 1, "method": "audit-server/verify_audit", "params": {}}
        assert (await hub.post("/jsonrpc", body, **bearer(admin))).json()["result"]["whole"]


# -- the command line --------------------------------------------------------------------------------------------------


@pytest.fixture
def local(tmp_path: Path) -> Settings:
    return Settings.model_validate({"home": tmp_path / "home", "search": {"embedder": {"provider": "none"}}})


def kho(settings: Settings, *words: str) -> Finished:
    return run_in_process(program_of(settings), *words)


def test_an_exported_file_is_for_its_owner_alone(local: Settings, tmp_path: Path) -> None:
    kho(local, "docs", "create", "plan", "--title", "Plan", "--body", "Third floor.")
    target = tmp_path / "audit.jsonl"
    old = os.umask(0)
    try:
        done = kho(local, "audit", "export", str(target))
    finally:
        os.umask(old)
    assert (done.status, done.err.strip()) == (0, "1 exported.")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    [line] = target.read_text().splitlines()
    assert orjson.loads(line)["action"] == "create_document"
    assert kho(local, "audit", "export", "--format", "cef").out.startswith("CEF:0|Kho|kho|")


def test_verify_exits_with_one_when_something_is_broken(local: Settings) -> None:
    kho(local, "docs", "create", "plan", "--title", "Plan", "--body", "Third floor.")
    done = kho(local, "audit", "verify")
    assert (done.status, done.out.splitlines()[0]) == (
        0,
        "The audit trail is whole: 0 rows in 1 chain. 1 newer row not sealed yet.",
    )
    assert (
        kho(local, "audit", "erase", "--actor", "local", "--yes").out
        == "Erased the text of 1 row of the tenant `local`.\n"
    )
    asked = kho(local, "audit", "verify", "local", "--json")
    [trail] = orjson.loads(asked.out)["trails"]
    assert (asked.status, trail["sealed"], trail["unsealed"]) == (0, 1, 2)
    expected = trail["head"].replace(":1:", ":9:")
    done = kho(local, "audit", "verify", "--expect-head", expected)
    assert (done.status, done.err) == (1, "")
    assert done.out.startswith("The audit trail was tampered with: 1 break. 2 newer rows not sealed yet.\n")
    assert "cut off" in done.out
