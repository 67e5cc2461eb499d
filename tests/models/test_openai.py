"""Embeddings over HTTP, from real servers that behave and that do not."""

import asyncio
import logging
import socket
import zlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import numpy as np
import pytest
from pydantic import SecretStr, ValidationError
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from tests.models.model_server import ModelServer, embeddings, serving, vectors_of

from kho.kernel.errors import KhoError, Unavailable
from kho.kernel.ports import Embedder
from kho.models.factory import embedder
from kho.models.settings import Embedding

KEY = "sk-very-secret-0123456789"


def made(url: str, attempts: int = 4, **config: Any) -> Embedder:
    settings: dict[str, Any] = {"provider": "openai", "url": url, "model": "m", **config}
    model = embedder(Embedding(**settings), attempts=attempts, backoff=0.001)
    assert model is not None
    return model


@asynccontextmanager
async def client(server: ModelServer | str, **config: Any) -> AsyncGenerator[Embedder, None]:
    model = made(server if isinstance(server, str) else server.url, **config)
    try:
        yield model
    finally:
        await model.aclose()


async def test_vectors_come_in_the_order_of_the_texts_and_have_length_1() -> None:
    texts = [f"{letter}{'x' * number}" for number, letter in enumerate("abcdefg")]
    async with serving(embeddings) as server, client(server, batch=3) as model:
        found = await model.passages(texts)
        assert len(server.asked) == 3
        expected = np.asarray(vectors_of(texts))
        np.testing.assert_allclose(found, expected / np.linalg.norm(expected, axis=1, keepdims=True), rtol=1e-5)
        assert found.dtype == np.float32
        np.testing.assert_allclose(await model.query(texts[2]), found[2], rtol=1e-6)
        assert await model.dimension() == 8
        assert (await model.passages([])).shape == (0, 8)


async def test_the_request_is_the_one_that_servers_know() -> None:
    async with (
        serving(embeddings) as server,
        client(server, api_key=KEY, query_prefix="query: ", passage_prefix="passage: ") as model,
    ):
        await model.passages(["một"])
        await model.query("hai")
        plain, asked = server.asked
        assert plain.path == "/v1/embeddings"
        assert plain.headers["authorization"] == f"Bearer {KEY}"
        assert plain.body == {"model": "m", "input": ["passage: một"], "encoding_format": "float"}
        assert asked.body["input"] == ["query: hai"]


async def test_a_server_without_a_key_is_sent_none() -> None:
    async with serving(embeddings) as server, client(server) as model:
        await model.query("x")
        assert "authorization" not in server.asked[0].headers


async def test_shorter_vectors_are_asked_for_only_when_told_to() -> None:
    async with (
        serving(embeddings) as server,
        client(server, dimension=8) as plain,
        client(server, dimension=8, ask_dimension=True) as short,
    ):
        assert await plain.dimension() == 8
        assert server.asked == [], "a dimension that was told need not be asked for"
        await plain.query("x")
        await short.query("x")
        assert ["dimensions" in asked.body for asked in server.asked] == [False, True]


def test_what_changes_the_vectors_changes_the_name() -> None:
    configs: list[dict[str, Any]] = [
        {},
        {"model": "n"},
        {"dimension": 256, "ask_dimension": True},
        {"passage_prefix": "passage: "},
        {"passage_prefix": "doc: "},
    ]
    names = {made("http://localhost/v1", **config).model for config in configs}
    assert len(names) == 5
    assert made("http://localhost/v1").model == made("http://127.0.0.1:1/v1", query_prefix="q: ").model


@pytest.mark.parametrize("status", [429, 500, 502, 503])
async def test_a_busy_server_is_asked_again(status: int) -> None:
    async with serving(embeddings) as server:
        server.answers = [Response(status_code=status, headers={"retry-after": "0"})] * 2
        async with client(server) as model:
            assert (await model.passages(["x"])).shape == (1, 8)
            assert len(server.asked) == 3


async def test_it_gives_up_after_so_many_attempts() -> None:
    async with serving(embeddings) as server:
        server.answers = [Response(status_code=503)] * 9
        async with client(server, attempts=3) as model:
            with pytest.raises(Unavailable, match=r"127\.0\.0\.1 answered 503"):
                await model.passages(["x"])
            assert len(server.asked) == 3


@pytest.mark.parametrize("said", ["seconds", "date"])
async def test_a_server_that_wants_an_hour_is_not_waited_for(said: str) -> None:
    hour = timedelta(hours=1)
    wish = "3600" if said == "seconds" else format_datetime(datetime.now(UTC) + hour, usegmt=True)
    async with serving(embeddings) as server:
        server.answers = [Response(status_code=429, headers={"retry-after": wish})]
        async with client(server) as model:
            with pytest.raises(Unavailable, match="429"):
                await model.passages(["x"])
            assert len(server.asked) == 1


@pytest.mark.parametrize("wish", ["soon", "", "-5", "Thu, 01 Jan 1970 00:00:00 GMT"])
async def test_a_wish_that_says_nothing_is_no_reason_to_fail(wish: str) -> None:
    async with serving(embeddings) as server:
        server.answers = [Response(status_code=429, headers={"retry-after": wish})]
        async with client(server) as model:
            await model.query("x")
            assert len(server.asked) == 2


async def test_a_refusal_is_not_repeated_and_never_shows_the_key(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving() as server, client(server, api_key=KEY) as model:
        for status in (400, 401, 403, 404, 422):
            server.answers = [JSONResponse({"error": f"model m: no, {KEY}"}, status)]
            with pytest.raises(Unavailable) as refused:
                await model.passages(["x"])
            assert str(status) in str(refused.value)
            assert KEY not in repr(refused.value) + str(refused.value.as_dict())
            assert ("model m" in str(refused.value)) == (status not in {401, 403})
        assert len(server.asked) == 5
    assert KEY not in caplog.text
    assert KEY not in repr(Embedding(api_key=SecretStr(KEY)))


async def test_the_key_does_not_follow_a_redirect() -> None:
    async with serving(embeddings) as thief, serving() as server:
        server.answers = [RedirectResponse(thief.url + "/embeddings")]
        async with client(server, api_key=KEY) as model:
            with pytest.raises(Unavailable, match="307"):
                await model.query("x")
            assert thief.asked == []


WRONG: dict[str, Any] = {
    "too few": {"data": []},
    "too many": {"data": [{"index": place, "embedding": [1, 2]} for place in range(3)]},
    "an index twice": {"data": [{"index": 0, "embedding": [1, 2]}, {"index": 0, "embedding": [1, 2]}]},
    "an index outside": {"data": [{"index": 1, "embedding": [1, 2]}, {"index": 2, "embedding": [1, 2]}]},
    "uneven": {"data": [{"index": 0, "embedding": [1, 2]}, {"index": 1, "embedding": [1]}]},
    "no numbers": {"data": [{"index": 0, "embedding": []}, {"index": 1, "embedding": []}]},
    "null": {"data": [{"index": 0, "embedding": [1, None]}, {"index": 1, "embedding": [1, 2]}]},
    "words": {"data": [{"index": 0, "embedding": ["a", "b"]}, {"index": 1, "embedding": [1, 2]}]},
    "all zero": {"data": [{"index": 0, "embedding": [0, 0]}, {"index": 1, "embedding": [1, 2]}]},
    "nested": {"data": [{"index": 0, "embedding": [[1], [2]]}, {"index": 1, "embedding": [[1], [2]]}]},
    "no data": {"error": "quota"},
    "a list": [1, 2],
    "nothing": None,
}


@pytest.mark.parametrize("wrong", WRONG)
async def test_a_wrong_answer_is_refused(wrong: str) -> None:
    async with serving() as server:
        server.answers = [JSONResponse(WRONG[wrong])]
        async with client(server) as model:
            with pytest.raises(Unavailable):
                await model.passages(["x", "y"])
            assert len(server.asked) == 1


@pytest.mark.parametrize(
    "content",
    [
        b'{"data": [{"index": 0, "embedding": [NaN, 1]}]}',
        b'{"data": [{"index": 0, "embedding": [1e999, 1]}]}',
        b"<html>",
        b"",
        b"\xff",
    ],
)
async def test_what_is_no_json_is_refused(content: bytes) -> None:
    async with serving() as server:
        server.answers = [Response(content, media_type="application/json")]
        async with client(server) as model:
            with pytest.raises(Unavailable):
                await model.query("x")


async def test_another_length_than_before_is_refused() -> None:
    async with serving(embeddings) as server, client(server, dimension=16) as model:
        with pytest.raises(Unavailable, match="8 numbers a vector instead of 16"):
            await model.query("x")


async def test_a_silent_server_times_out() -> None:
    forever = asyncio.Event()

    async def silence(body: Any) -> Response:
        await forever.wait()
        return Response()

    async with serving(silence) as server:
        async with client(server, timeout=0.05) as model:
            with pytest.raises(Unavailable, match=r"ReadTimeout|did not end"):
                await model.query("x")
            assert len(server.asked) == 2, "a query is tried twice: somebody waits"
        forever.set()


async def test_a_server_that_sends_a_byte_now_and_then_is_not_waited_for() -> None:
    async def drip() -> AsyncGenerator[bytes]:
        while True:
            yield b" "
            await asyncio.sleep(0.01)

    async def slowly(body: Any) -> Response:
        return StreamingResponse(drip(), media_type="application/json")

    async with serving(slowly) as server, client(server, timeout=0.1) as model:
        with pytest.raises(Unavailable, match=r"did not end its answer within 0\.1 s"):
            await model.query("x")


@pytest.mark.parametrize("packed", [True, False])
async def test_an_answer_without_an_end_is_not_kept(packed: bool) -> None:
    """Nor is one that is small until it is unpacked."""
    squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)

    async def endless() -> AsyncGenerator[bytes]:
        yield b'{"data": ["'
        for _ in range(2_000):
            yield b"x" * 65_536

    async def bomb() -> AsyncGenerator[bytes]:
        async for part in endless():
            yield squeeze.compress(part)
            if chunk := squeeze.flush(zlib.Z_SYNC_FLUSH):
                yield chunk

    async def flood(body: Any) -> Response:
        headers = {"content-encoding": "gzip"} if packed else {}
        return StreamingResponse(bomb() if packed else endless(), media_type="application/json", headers=headers)

    async with serving(flood) as server, client(server) as model:
        with pytest.raises(Unavailable, match="sent more than 32 MiB"):
            await model.query("x")
        assert len(server.asked) == 1, "it is not asked again"


@pytest.mark.parametrize("vector", [[0.1] * 16_385, [1e308] * 8, ["x"] * 8, [[0.1]] * 8, [None] * 8, "abcdefgh"])
async def test_a_vector_that_is_none_is_refused(vector: Any) -> None:
    async def answer(body: Any) -> Response:
        return JSONResponse({"data": [{"index": 0, "embedding": vector}]})

    async with serving(answer) as server, client(server) as model:
        with pytest.raises(Unavailable):
            await model.query("x")


@pytest.mark.parametrize(
    "content",
    [b"[" * 1_000_000, b'{"data":' * 100_000, b"[" + b"0," * 2_000_000 + b"0]", b'{"data": 1e999}', b"\xff" * 99],
)
async def test_nonsense_of_any_depth_is_an_error_in_words(content: bytes) -> None:
    async with serving() as server, client(server, attempts=1) as model:
        server.answers[:] = [Response(content)]
        with pytest.raises(Unavailable, match=r"JSON|unknown form"):
            await model.query("x")


async def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    async with client(f"http://user:password@127.0.0.1:{port}/v1", api_key=KEY) as model:
        with pytest.raises(Unavailable, match=rf"127\.0\.0\.1:{port} cannot be reached") as nobody:
            await model.passages(["x"])
        assert "password" not in str(nobody.value)


async def test_only_so_many_requests_at_once() -> None:
    full, asked, goes_on = asyncio.Event(), asyncio.Event(), asyncio.Event()
    running: list[str] = []

    async def hold(body: Any) -> Response:
        running.extend(body["input"])
        if len(running) == 2:
            full.set()
        if "q" in running:
            asked.set()
        await goes_on.wait()
        return await embeddings(body)

    async with serving(hold) as server, client(server, batch=1, concurrency=2) as model:
        passages = asyncio.create_task(model.passages(["a", "b", "c", "d", "e"]))
        await full.wait()
        question = asyncio.create_task(model.query("q"))
        await asked.wait()  # the query does not wait for a place among the passages
        assert len(running) == 3
        goes_on.set()
        assert (await passages).shape == (5, 8)
        await question


async def test_one_failure_ends_the_batch_with_that_failure() -> None:
    async with serving(embeddings) as server:
        server.answers = [Response(status_code=404)]
        async with client(server, batch=1, concurrency=1) as model:
            with pytest.raises(Unavailable, match="404"):
                await model.passages(["a", "b", "c"])
            assert len(server.asked) == 1


async def test_any_text_can_be_sent() -> None:
    texts = ["", "\ud83d", "a\x00b", "🎉" * 10, "مرحبا", "x" * 100_000]
    async with serving(embeddings) as server, client(server) as model:
        assert (await model.passages(texts)).shape == (6, 8)
        sent = server.asked[0].body["input"]
        assert sent[:4] == [" ", "\ufffd", "a\x00b", "🎉" * 10]
        assert len(sent[5]) == 24_000


async def test_large_texts_are_spread_over_requests() -> None:
    async with serving(embeddings) as server, client(server) as model:
        await model.passages(["x" * 24_000] * 20)
        assert sorted(len(asked.body["input"]) for asked in server.asked) == [4, 8, 8]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"url": "ftp://host"}, "http://"),
        ({"url": "host/v1"}, "http://"),
        ({"model": ""}, "name of a model"),
        ({"api_key": "khoá"}, "characters that cannot be sent"),
        ({"api_key": "a\r\nb: c"}, "characters that cannot be sent"),
        ({"provider": "word2vec"}, "should be 'e5'"),
    ],
)
def test_a_wrong_setting_is_named(config: dict[str, Any], words: str) -> None:
    settings: dict[str, Any] = {"url": "http://localhost/v1", **config}
    with pytest.raises((KhoError, ValidationError), match=words) as problem:
        made(**settings)
    assert config.get("api_key", KEY) not in str(problem.value)
