"""What the environment says of settings, and what counts as saying nothing."""

from pathlib import Path

import pytest

from kho.settings import InvalidSettings, Settings, load


@pytest.mark.parametrize("name", ["KHO_DEVICES__APPROVAL", "KHO_HTTP__PORT", "KHO_DATABASE_URL", "KHO_CONFIG"])
def test_an_empty_variable_is_one_that_is_not_set(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.delenv(name, raising=False)
    usual = load()
    monkeypatch.setenv(name, "")
    assert load() == usual


def test_one_that_is_set_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KHO_DEVICES__APPROVAL", "code")
    assert Settings().devices.approval == "code"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("KHO_HTPP__PORT", "9", "KHO_HTPP__PORT: there is no such setting. Did you mean KHO_HTTP__PORT?"),
        ("KHO_HTTP__PROT", "9", "KHO_HTTP__PROT: there is no such setting. Did you mean KHO_HTTP__PORT?"),
        ("KHO_SEARCH__EMBEDER__URL", "9", "Did you mean KHO_SEARCH__EMBEDDER__URL?"),
        ("KHO_DATABSE_URL", "secret", "KHO_DATABSE_URL: there is no such setting. Did you mean KHO_DATABASE_URL?"),
        ("KHO_COFNIG", "kho.toml", "KHO_COFNIG: there is no such setting. Did you mean KHO_CONFIG?"),
        ("KHO_QQ__PORT", "9", "KHO_QQ__PORT: there is no such setting. There are: home, database_url, http,"),
        ("KHO_HTTP__QQ", "9", "KHO_HTTP__QQ: there is no such setting. There are: host, port,"),
        ("KHO_HTTP", "9", "KHO_HTTP: is a section, not a value. Its settings are written as KHO_HTTP__PORT"),
        ("KHO_HTTP", "{", "KHO_HTTP is not JSON. A section is written as JSON"),
        ("KHO_HTTP__PORT", "x", "KHO_HTTP__PORT: must be a whole number"),
        ("KHO_HTTP__PORT", "70000", "KHO_HTTP__PORT: must be 65535 or less"),
        ("KHO_OBSERVE__LOG_LEVEL", "x", "must be 'DEBUG', 'INFO', 'WARNING' or 'ERROR'"),
        ("KHO_MCP__TOOLS", '{"a": 1}', 'KHO_MCP__TOOLS: must be a list, such as ["a", "b"]'),
        ("KHO_MCP__TOOLS", "[a", "KHO_MCP__TOOLS is not JSON. A list is written as"),
        ("KHO_HTTP__ALLOWED_HOSTS", "http://kho", "KHO_HTTP__ALLOWED_HOSTS: must be a name or an address without http"),
        ("KHO_HTTP__ALLOWED_HOSTS", "*", "KHO_HTTP__ALLOWED_HOSTS: must be a name or an address without http"),
        ("KHO_HTTP__ALLOWED_ORIGINS", "kho.lan", "KHO_HTTP__ALLOWED_ORIGINS: must be an origin such as"),
    ],
)
def test_a_wrong_variable_is_refused_in_our_own_words(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(InvalidSettings) as refused:
        load()
    assert message in str(refused.value)
    assert "secret" not in str(refused.value)
    assert "Input" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[htpp]\nport = 9", "htpp in {file}: there is no such setting. Did you mean http in {file}?"),
        ("[http]\nprot = 9", "http.prot in {file}: there is no such setting. Did you mean http.port in {file}?"),
        ("hoem = '/x'", "hoem in {file}: there is no such setting. Did you mean home in {file}?"),
        ("http = 9", "http in {file}: is a section, not a value."),
        ("[http]\nport = 'x'", "http.port in {file}: must be a whole number"),
        ("home = 9", "home in {file}: must be a path"),
        ("[http]\nallowed_hosts = ['ok', 'http://x']", "http.allowed_hosts in {file}: must be a name or an address"),
    ],
)
def test_a_wrong_line_of_the_file_is_refused_with_its_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "kho.toml"
    file.write_text(text)
    monkeypatch.setenv("KHO_CONFIG", str(file))
    monkeypatch.delenv("KHO_HOME", raising=False)
    with pytest.raises(InvalidSettings) as refused:
        load()
    assert message.format(file=file) in str(refused.value)


@pytest.mark.parametrize("name", ["KHO_PORT", "KHO_SERVICE_HOST", "KHO_PORT_8001_TCP_ADDR", "KHO_KEY"])
def test_a_variable_of_another_program_is_left_alone(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    usual = load()
    monkeypatch.setenv(name, "tcp://10.0.0.1:8001")
    assert load() == usual


@pytest.mark.parametrize(
    "text", ['["kho.lan", "mcp-server:8001"]', "kho.lan,mcp-server:8001", " kho.lan , mcp-server:8001,"]
)
def test_a_list_is_json_or_separated_by_commas(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("KHO_HTTP__ALLOWED_HOSTS", text)
    assert load().http.allowed_hosts == ["kho.lan", "mcp-server:8001"]


def test_hosts_of_every_form_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = ["kho.example.org", "kho.example.org:*", "[2001:db8::1]:8001", "[::1]", "192.168.1.20"]
    monkeypatch.setenv("KHO_HTTP__ALLOWED_HOSTS", ",".join(hosts))
    assert load().http.allowed_hosts == hosts
