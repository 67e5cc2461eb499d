"""What becomes of a text with a secret: refused, stored with a warning, or not looked at, by slice and at every door."""

import base64
import json
import logging
import random
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from mcp import Client
from mcp_types import TextContent
from tests.doors.doors import MODERN, kho, served
from tests.key_watch import watched
from tests.outside import NO_NAMES

from kho import slices
from kho.app import open_hub
from kho.doors.mcp.server import McpDoor
from kho.kernel.background import Background
from kho.kernel.call import Call
from kho.kernel.errors import KhoError
from kho.kernel.hub import Hub
from kho.kernel.operation import Operation
from kho.kernel.registry import Outcome
from kho.kernel.toolset import ALL
from kho.lib.tenancy import for_tenant
from kho.sanitizer.policy import LONG, Sanitizer
from kho.sanitizer.scan import OVERLAP, PIECE, scan
from kho.sanitizer.settings import SanitizerSettings
from kho.sanitizer.texts import look, texts_of
from kho.settings import Settings, local_principal

Json = dict[str, Any]


def new_secret() -> str:
    """A made-up token, another one each time."""
    return watched(
        "ghp"
        + "_"
        + "".join(random.SystemRandom().choices("abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789", k=36))
    )


def filled(arguments: Json, secret: str) -> Json:
    """The arguments with the secret where they have a §."""
    return json.loads(json.dumps(arguments, ensure_ascii=False).replace("§", secret))


class Room:
    """A hub on one of the databases, and its user."""

    def __init__(self, hub: Hub, settings: Settings) -> None:
        self.hub, self.settings = hub, settings
        self.admin = local_principal(settings, admin=True)

    async def ask(self, method: str, **arguments: Any) -> tuple[Outcome, Call]:
        call = Call(self.admin)
        operation = self.hub.registry.methods[method]
        return await self.hub.registry.call(operation, arguments, call), call

    async def trail(self) -> list[Json]:
        outcome, _ = await self.ask("audit-server/audit_log", limit=50)
        return outcome.value["entries"]


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str | None:
    return request.getfixturevalue("postgres_schema_url") if request.param == "postgres" else None


@pytest.fixture
async def room(database_url: str | None, tmp_path: Path) -> AsyncIterator[Room]:
    settings = Settings(home=tmp_path / "home", database_url=database_url)
    async with open_hub(settings) as hub:
        yield Room(hub, settings)


STORES: list[tuple[str, Json, str]] = [
    ("documents-server/create_document", {"document_id": "d", "content": {"body": "the key §"}}, "content.body"),
    (
        "documents-server/create_document",
        {"document_id": "d", "content": {"body": "x"}, "metadata": {"note": "§"}},
        "metadata.note",
    ),
    ("memory-server/memory/add_message", {"conversation_id": "c", "role": "user", "content": "it is §"}, "content"),
    ("research-server/augment_knowledge", {"content": "Read §.", "source": "s", "collection": "c"}, "content"),
]


@pytest.mark.parametrize(("method", "arguments", "place"), STORES)
async def test_a_warned_write_succeeds_and_says_where_never_what(
    room: Room, method: str, arguments: Json, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    secret = new_secret()
    if "research" in method:
        await room.ask("research-server/manage_collections", action="create", collection_name="c")
    caplog.set_level(logging.INFO, "kho")
    outcome, call = await room.ask(method, **filled(arguments, secret))
    assert outcome.error is None, outcome.error
    [warning] = outcome.warnings
    assert f"{place} (github-token)" in warning
    assert secret not in warning
    [logged] = [record for record in caplog.records if record.name == "kho.sanitizer"]
    assert logged.__dict__["fields"]["found"] == [f"{place} (github-token)"]
    assert secret not in str([record.__dict__ for record in caplog.records])
    trail = await room.trail()
    [row] = [one for one in trail if one["request_id"] == call.request_id]
    assert row["details"]["secrets"] == [f"{place} (github-token)"]
    assert secret not in str(trail)


async def test_a_clean_write_says_nothing(room: Room) -> None:
    outcome, _ = await room.ask("documents-server/create_document", document_id="d", content={"body": "plain"})
    assert (outcome.error, outcome.warnings) == (None, ())
    assert "secrets" not in (await room.trail())[0]["details"]


async def test_the_name_of_a_value_counts(room: Room) -> None:
    given = {"document_id": "d", "content": {"body": "x"}, "metadata": {"db_password": "Kestrel#4417"}}
    outcome, _ = await room.ask("documents-server/create_document", **given)
    assert "metadata.db_password (password)" in outcome.warnings[0]


async def test_a_reason_reaches_the_trail_without_its_secret(room: Room) -> None:
    secret = new_secret()
    await room.ask("documents-server/create_document", document_id="d", content={"body": "x"})
    outcome, call = await room.ask("documents-server/delete_document", document_id="d", reason=f"it had {secret} in it")
    assert outcome.error is None
    [row] = [one for one in await room.trail() if one["request_id"] == call.request_id]
    assert row["reason"] == "it had <github-token> in it"


POLICIES = [
    ("documents", "documents-server/create_document", {"document_id": "d", "content": {"body": "§"}}),
    ("memory", "memory-server/memory/add_message", {"conversation_id": "c", "role": "user", "content": "§"}),
    ("facts", "facts-server/remember", {"text": "The token is §"}),
    (
        "experiences",
        "experiences-server/submit_experience",
        {"title": "t", "problem_description": "p", "solution": "use §"},
    ),
]


@pytest.mark.parametrize("policy", ["off", "warn", "refuse"])
@pytest.mark.parametrize(("name", "method", "arguments"), POLICIES)
async def test_each_policy_of_each_slice(
    name: str, method: str, arguments: Json, policy: str, database_url: str | None, tmp_path: Path
) -> None:
    secret = new_secret()
    chosen = SanitizerSettings.model_validate({name: policy})
    settings = Settings(home=tmp_path / "home", database_url=database_url, sanitizer=chosen)
    async with open_hub(settings) as hub:
        room = Room(hub, settings)
        outcome, _ = await room.ask(method, **filled(arguments, secret))
        trail = await room.trail()
        if policy == "refuse":
            assert outcome.error is not None
            assert outcome.error.code == "CONTEXT_NOT_SANITIZED"
            assert secret not in str(outcome.error.as_dict())
            assert secret not in str(outcome.value)
            assert trail == []
        else:
            assert outcome.error is None
            said = f"{outcome.warnings} {outcome.value}"
            assert ("looks like a secret" in said) is (policy == "warn")
            assert ("secrets" in trail[0]["details"]) is (policy == "warn")


def spoilt(operation: Operation) -> Iterator[tuple[str, Json]]:
    """Its example with a secret in each parameter that takes a text."""
    properties: Json = operation.input_schema.get("properties", {})
    example = {name: value for name, value in operation.example.items() if name in properties}
    for name, schema in properties.items():
        if '"string"' in json.dumps(schema):
            secret, before = new_secret(), example.get(name)
            text: Any = f"see {secret}" if isinstance(before, str) and " " in before else secret
            if isinstance(before, dict):
                text = {**cast(Json, before), "note": secret}
            elif isinstance(before, list):
                text = [*cast(list[Any], before), secret]
            yield f"{operation.name}({name})", {**example, name: text}


async def test_every_write_of_every_slice_obeys_its_policy(tmp_path: Path) -> None:
    """Whatever warns where a secret is stored refuses it under 'refuse', and says nothing under 'off'."""
    told: dict[str, dict[str, str]] = {}
    for policy in ("off", "warn", "refuse"):
        chosen = SanitizerSettings.model_validate(dict.fromkeys(SanitizerSettings().policies, policy))
        settings = Settings(home=tmp_path / policy, database_url=None, sanitizer=chosen)
        async with open_hub(settings, network=NO_NAMES) as hub:
            admin = local_principal(settings, admin=True)
            writes = [one for slice_ in hub.registry.capabilities for one in slice_.operations if one.effect != "read"]
            of = told.setdefault(policy, {})
            for name, operation, arguments in ((name, one, more) for one in writes for name, more in spoilt(one)):
                call = Call(admin)
                outcome = await hub.registry.call(operation, arguments, call)
                refused = outcome.error is not None and outcome.error.code == "CONTEXT_NOT_SANITIZED"
                of[name] = "refused" if refused else "told" if call.sightings else "nothing"
    assert {*told["off"].values()} == {"nothing"}
    screened = {name for name, said in told["warn"].items() if said == "told"}
    assert {name for name, said in told["refuse"].items() if said == "refused"} == screened
    assert "refused" not in told["warn"].values()
    assert {name.partition(".")[0] for name in screened} == {one.capability for one in writes}
    assert len(screened) > 60


def test_every_slice_that_stores_has_a_policy() -> None:
    operations = [one for slice_ in slices.describe().capabilities for one in slice_.operations]
    storing = {one.capability for one in operations if one.effect != "read"}
    assert storing
    assert storing <= set(SanitizerSettings().policies)


# -- files -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "clean.md").write_text("# Clean\n\nNothing here.\n")
    (folder / "leak.md").write_text(f"# Leak\n\nThe token is {new_secret()}.\n")
    return folder


async def test_files_are_stored_with_a_warning(database_url: str | None, folder: Path, tmp_path: Path) -> None:
    settings = Settings.model_validate(
        {"home": tmp_path / "home", "database_url": database_url, "research": {"roots": [str(folder)]}}
    )
    async with open_hub(settings) as hub:
        room = Room(hub, settings)
        outcome, _ = await room.ask(
            "research-server/ingest_documents", path=str(folder), collection="c", create=True, wait=60
        )
        assert outcome.value["job"]["added"] == 2, outcome
        [warning] = outcome.warnings
        assert f"{folder / 'leak.md'} (github-token)" in warning
        [row] = [one for one in await room.trail() if "added" in one["details"]]
        assert row["details"]["secrets"] == [f"{folder / 'leak.md'} (github-token)"]


async def test_files_are_refused(folder: Path, tmp_path: Path) -> None:
    settings = Settings.model_validate(
        {"home": tmp_path / "home", "research": {"roots": [str(folder)]}, "sanitizer": {"research": "refuse"}}
    )
    async with open_hub(settings) as hub:
        room = Room(hub, settings)
        outcome, _ = await room.ask(
            "research-server/ingest_documents", path=str(folder), collection="c", create=True, wait=60
        )
        job = outcome.value["job"]
        assert (job["added"], job["failed"]) == (1, 1)
        assert "github-token" in json.dumps(job)
        upload = {"filename": "x.md", "content": base64.b64encode(new_secret().encode()).decode(), "collection": "c"}
        refused, _ = await room.ask("research-server/upload_document", **upload)
        assert refused.error is not None
        assert refused.error.code == "CONTEXT_NOT_SANITIZED"


PARTS = ("title: §\n", "tags: [one, §]\n", "author: §\n")


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("policy", ["off", "warn", "refuse"])
async def test_what_stands_above_a_text_is_looked_at_too(policy: str, part: str, tmp_path: Path) -> None:
    secret = new_secret()
    file = f"---\n{part.replace('§', secret)}---\nPlain words.\n"
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.md").write_text(file)
    settings = Settings.model_validate(
        {"home": tmp_path / "home", "research": {"roots": [str(folder)]}, "sanitizer": {"research": policy}}
    )
    async with open_hub(settings) as hub:
        room = Room(hub, settings)
        ingested, call = await room.ask(
            "research-server/ingest_documents", path=str(folder), collection="c", create=True, wait=60
        )
        assert (ingested.value["job"]["failed"], call.sightings != []) == (policy == "refuse", policy == "warn")
        content = base64.b64encode(file.encode()).decode()
        outcome, call = await room.ask(
            "research-server/upload_document", filename="b.md", content=content, collection="c", force=True
        )
        assert ((outcome.error is not None), call.sightings != []) == (policy == "refuse", policy == "warn")
        assert secret not in str(await room.trail())


async def test_a_title_in_html_is_looked_at(tmp_path: Path) -> None:
    settings = Settings.model_validate({"home": tmp_path / "home", "sanitizer": {"research": "refuse"}})
    page = f"<html><head><title>{new_secret()}</title></head><body><p>Plain words.</p></body></html>"
    content = base64.b64encode(page.encode()).decode()
    async with open_hub(settings) as hub:
        outcome, _ = await Room(hub, settings).ask(
            "research-server/upload_document", filename="a.html", content=content, collection="c", create=True
        )
    assert outcome.error is not None
    assert outcome.error.code == "CONTEXT_NOT_SANITIZED"


async def test_a_path_is_looked_at(tmp_path: Path) -> None:
    folder = tmp_path / new_secret()
    folder.mkdir()
    (folder / "a.md").write_text("# Plain\n\nwords\n")
    settings = Settings.model_validate({"home": tmp_path / "home", "research": {"roots": [str(folder)]}})
    async with open_hub(settings) as hub:
        room = Room(hub, settings)
        outcome, _ = await room.ask(
            "research-server/ingest_documents", path=str(folder), collection="c", create=True, wait=60
        )
        assert "a.md (github-token)" in str(outcome.warnings)
        assert folder.name not in str(outcome.warnings)


DOCUMENT_FILES = {
    "in the text.md": "# A\n\nThe key is §.\n",
    "in the title.md": "---\ntitle: §\n---\nPlain.\n",
    "in another field.md": "---\nnote: {deep: [§]}\n---\nPlain.\n",
    "in the tags.md": "---\ntags: [a, §]\n---\nPlain.\n",
}


def document_folder(tmp_path: Path) -> tuple[Path, list[str]]:
    folder, secrets = tmp_path / "handbook", [new_secret() for _ in DOCUMENT_FILES]
    folder.mkdir()
    for (name, text), secret in zip(DOCUMENT_FILES.items(), secrets, strict=True):
        (folder / name).write_text(text.replace("§", secret))
    (folder / "clean.md").write_text("Plain.\n")
    return folder, secrets


async def import_into(room: Room, folder: Path, **more: Any) -> tuple[Outcome, Call]:
    call = Call(room.admin)
    [operation] = [
        one for slice_ in room.hub.registry.capabilities for one in slice_.operations if one.name == "documents.import"
    ]
    return await room.hub.registry.call(operation, {"directory": str(folder), **more}, call), call


@pytest.mark.parametrize("policy", ["off", "warn", "refuse"])
async def test_files_that_become_documents_obey_the_policy(
    policy: str, database_url: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, secrets = document_folder(tmp_path)
    caplog.set_level(logging.INFO, "kho")
    settings = Settings.model_validate(
        {"home": tmp_path / "home", "database_url": database_url, "sanitizer": {"documents": policy}}
    )
    async with open_hub(settings) as hub:
        room = Room(hub, settings)
        tried, _ = await import_into(room, folder, dry_run=True)
        assert tried.warnings == ()
        assert "secret stored" not in caplog.text
        outcome, _ = await import_into(room, folder)
        if policy == "refuse":
            for one in (tried, outcome):
                assert one.error is not None
                assert {failed["path"] for failed in one.error.details["failed"]} == {*DOCUMENT_FILES}
                assert all("github-token" in failed["reason"] for failed in one.error.details["failed"])
                assert one.error.details["counts"] == {"created": 1}
        else:
            assert outcome.error is None
            assert outcome.value["counts"]["created"] == len(DOCUMENT_FILES) + 1
        told = " ".join(outcome.warnings)
        assert [f"{name} (github-token)" in told for name in DOCUMENT_FILES] == [policy == "warn"] * len(secrets)
        assert len(outcome.warnings) == (policy == "warn")
        trail = await room.trail()
        seen = {str(one["details"].get("secrets")) for one in trail if one["action"] == "create_document"}
        places = {f"['{name} (github-token)']" for name in DOCUMENT_FILES if policy == "warn"}
        assert seen == {"None", *places}
        assert caplog.text.count("secret stored") == len(places)
        said = f"{outcome.warnings} {outcome.error and outcome.error.as_dict()} {trail} {caplog.text}"
        assert [secret for secret in secrets if secret in said] == []


async def test_a_document_that_a_file_changes_obeys_the_policy(tmp_path: Path) -> None:
    folder = tmp_path / "handbook"
    folder.mkdir()
    (folder / "a.md").write_text("Plain.\n")
    settings = Settings.model_validate({"home": tmp_path / "home", "sanitizer": {"documents": "refuse"}})
    async with open_hub(settings) as hub:
        room = Room(hub, settings)
        assert (await import_into(room, folder))[0].error is None
        (folder / "a.md").write_text(f"The key is {new_secret()}.\n")
        outcome, _ = await import_into(room, folder)
        assert outcome.error is not None
        assert "github-token" in str(outcome.error.details["failed"])
        found, _ = await room.ask("documents-server/list_documents")
        [listed] = found.value["documents"]
        now, _ = await room.ask("documents-server/get_document", document_id=listed["document_id"])
        assert now.value["content"]["body"] == "Plain.\n"


async def test_an_upload_is_warned_of_once(room: Room) -> None:
    content = base64.b64encode(f"# A\n\nKey: {new_secret()}\n".encode()).decode()
    outcome, _ = await room.ask(
        "research-server/upload_document", filename="x.md", content=content, collection="c", create=True
    )
    assert outcome.error is None
    [warning] = outcome.warnings
    assert "x.md (github-token)" in warning


async def test_a_question_is_kept_without_its_secret(room: Room) -> None:
    secret = new_secret()
    await room.ask("research-server/manage_collections", action="create", collection_name="c")
    asked, call = await room.ask("research-server/query_knowledge_base", query=f"why does {secret} not work")
    assert asked.error is None
    for work in call.afterwards:
        await for_tenant(call.tenant, work)()
    history, _ = await room.ask("research-server/query_history")
    assert history.value["queries"]
    assert {one["query"] for one in history.value["queries"]} == {"why does <github-token> not work"}


# -- doors -------------------------------------------------------------------------------------------------------------


def writing(secret: str) -> Json:
    return {"document_id": "d", "content": {"body": f"the key {secret}"}}


@pytest.mark.parametrize("era", ["legacy", MODERN])
async def test_mcp_warns_beside_the_result(room: Room, era: str) -> None:
    background, secret = Background(), new_secret()
    server = McpDoor(room.hub, background, lambda ctx: room.hub.local, ALL, 200).server
    async with Client(server, mode=era) as client:
        result = await client.call_tool("create_document", writing(secret))
    await background.drain()
    answer, warning = result.content
    assert isinstance(answer, TextContent)
    assert isinstance(warning, TextContent)
    assert warning.text.startswith("Warning: ")
    assert "content.body (github-token)" in warning.text
    assert secret not in warning.text
    assert json.loads(answer.text) == result.structured_content


async def test_http_warns_in_a_header(database_url: str | None, tmp_path: Path) -> None:
    async with served(Settings(home=tmp_path / "home", database_url=database_url)) as hub:
        body = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "documents-server/create_document",
            "params": writing(new_secret()),
        }
        response = await hub.post("/jsonrpc", body)
        assert "content.body (github-token)" in response.headers["kho-warning"]
        acted = await hub.act("create_document", {**writing(new_secret()), "document_id": "e"})
        assert acted.json()["status"] == "ok"
        assert "content.body (github-token)" in acted.headers["kho-warning"]
        clean = await hub.act("create_document", {"document_id": "f", "content": {"body": "x"}})
        assert "kho-warning" not in clean.headers


async def test_the_command_line_warns_on_stderr(tmp_path: Path) -> None:
    secret = new_secret()
    written = json.dumps(writing(secret)).encode()
    done = await kho(tmp_path / "home", "docs", "create", "--json", "--params", "-", stdin=written)
    assert done.status == 0, done.err
    assert "content.body (github-token)" in done.err
    assert secret not in done.err
    assert json.loads(done.out)["document_id"] == "d"


# -- long texts, many texts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [0, PIECE // 2, PIECE - 60, PIECE - 20, PIECE, PIECE + OVERLAP - 20, 2 * PIECE + 7])
@pytest.mark.parametrize("filler", ["words of a text\n", "x" * 997 + " ", "Chữ có dấu. "])
def test_a_secret_is_found_wherever_a_long_text_is_cut(place: int, filler: str) -> None:
    secret = new_secret()
    text = (filler * (3 * PIECE // len(filler)))[: 3 * PIECE]
    text = f"{text[:place]} password = '{secret}'\n{text[place:]}"
    [found] = scan(text, personal=False)
    assert text[found.start : found.end] == secret
    assert len(text) > LONG


def test_a_clean_long_text_stays_clean() -> None:
    text = "".join(f"{n}: {random.Random(n).randbytes(20).hex()} a line of a log\n" for n in range(20_000))
    assert len(text) > 3 * PIECE
    assert scan(text, personal=False) == []


def test_positions_among_many_texts() -> None:
    secret = new_secret()
    words: list[Any] = [f"word{n}" for n in range(500)]
    words[321] = {"note": f"see {secret}!"}
    [(text, found)] = look(texts_of({"list": words}), personal=False)
    assert text.name == "list[321].note"
    assert text.text[found.start : found.end] == secret


async def test_a_parameter_that_is_a_secret_by_design_is_let_be(room: Room) -> None:
    url = "https://receiver.example.com/x"
    outcome, _ = await room.ask("documents-server/add_webhook", url=url, secret=new_secret())
    assert (outcome.error, outcome.warnings) == (None, ())


async def test_what_an_error_may_quote_is_looked_at_in_a_thread_if_it_is_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused call with many texts must not hold up everybody else's."""
    threads: list[str] = []

    def watched(texts: Any, *, personal: bool) -> Any:
        threads.append(threading.current_thread().name)
        return look(texts, personal=personal)

    monkeypatch.setattr("kho.sanitizer.policy.look", watched)
    secret, sanitizer = new_secret(), Sanitizer({})
    for arguments in ({"one": secret}, {"one": secret, "many": ["a plain line of words"] * LONG}):
        error = KhoError(f"There is no {secret}.")
        await sanitizer.redact(error, arguments)
        assert error.message == "There is no <github-token>."
    here = threading.current_thread().name
    assert [one if one == here else one.partition("_")[0] for one in threads] == [here, here, "kho-sanitizer", here]
