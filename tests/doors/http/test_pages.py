"""The pages for people: `/` and `/open/{id}`."""

from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from urllib.parse import quote

import httpx2
from tests.doors.doors import Json, Served, served

from kho.settings import Http, Settings

EVIL = "</pre><script>alert(1)</script><img src=x onerror=alert(1)> & \"quotes\" 'n' all"


class Read(HTMLParser):
    """The elements and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.style = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.links += [value or "" for name, value in attrs if name == "href"]
        assert not any(name.startswith("on") or name == "src" for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        if self.elements[-1:] == ["style"] and not self.style:
            self.style = data
        self.text += data


def read(response: httpx2.Response, status: int = 200) -> Read:
    assert (response.status_code, response.headers["content-type"]) == (status, "text/html; charset=utf-8")
    page = Read(response.text)
    assert "script" not in page.elements
    allowed = b64encode(sha256(page.style.encode()).digest()).decode()
    policy = response.headers["content-security-policy"]
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{allowed}';")
    assert "frame-ancestors 'none'" in policy
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["cache-control"] == "no-store"
    return page


async def call(hub: Served, method: str, **params: object) -> Json:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return (await hub.post("/jsonrpc", body)).json()["result"]


async def test_the_first_page_says_what_this_is(hub: Served) -> None:
    page = read(await hub.get("/"))
    assert "memory for agents" in page.text
    assert "kho connect" in page.text
    assert (await hub.post("/", {})).status_code == 405


async def test_a_link_of_search_opens_a_page(settings: Settings) -> None:
    async with served(settings) as hub:
        await call(hub, "facts-server/remember", text=f"The kestrel {EVIL}", source=EVIL, about=EVIL)
        [found] = (await call(hub, "recall-server/search", query="kestrel"))["results"]
        assert found["url"] == f"http://127.0.0.1:8001/open/{found['id']}"
        page = read(await hub.get(found["url"].removeprefix("http://127.0.0.1:8001")))
        assert page.text.count(EVIL) == 3  # text, source, about
        assert page.text.count("<script>") == 5  # and the title, cut short, twice
        assert not {"img", "b"} & {*page.elements}


async def test_an_id_may_have_any_character(settings: Settings) -> None:
    async with served(settings) as hub:
        for id in ("a/../b", "whatsapp:+84 90#5?x=1&y", "cuộc trò chuyện/%2e%2e", "100%", "//x"):
            await call(
                hub, "memory-server/memory/add_message", conversation_id=id, role="user", content=f"Kestrel {id}"
            )
            found = (await call(hub, "recall-server/recent", limit=1))["results"][0]
            assert found["id"] == f"msg:{id}/1"
            page = read(await hub.get(found["url"].partition("8001")[2]))
            assert f"Kestrel {id}" in page.text


async def test_a_long_text_has_a_link_to_more_of_it(settings: Settings) -> None:
    async with served(settings) as hub:
        body = "".join(f"Line {number} of the long guide.\n\n" for number in range(2_000))
        await call(hub, "documents-server/create_document", document_id="a/long", content={"body": body})
        first = read(await hub.get("/open/doc:a%2Flong"))
        [link] = first.links
        second = read(await hub.get(link))
        assert "Line 1999 of" in second.text
        assert "Line 1999 of" not in first.text
        assert not second.links
        assert "'offset' must be a whole number" in read(await hub.get("/open/doc:a%2Flong?offset=x"), 400).text


async def test_there_is_one_page_for_what_is_not_there(hub: Served) -> None:
    pages = {
        (await hub.get(f"/open/{quote(id)}")).text
        for id in ("fact:nothing", "doc:nothing", "nothing", "msg:x/1", "<script>")
    }
    assert len(pages) == 1
    assert "Nothing that you may read has that id." in read(await hub.get("/open/fact:nothing"), 404).text


def test_the_address_is_made_of_host_and_port() -> None:
    assert Http().address == "http://127.0.0.1:8001"
    assert Http(host="::1", port=9).address == "http://[::1]:9"
    assert Http(host="0.0.0.0").address == "http://127.0.0.1:8001"
    assert Http(public_url="https://kho.example.org/hub/").address == "https://kho.example.org/hub"


async def test_the_host_of_the_public_address_is_allowed(settings: Settings) -> None:
    public = Settings(home=settings.home, database_url=None, http=Http(public_url="https://kho.example.org"))
    async with served(public) as hub:
        assert (await hub.get("/", host="kho.example.org")).status_code == 200
        assert (await hub.get("/", host="evil.example.org")).status_code == 421
