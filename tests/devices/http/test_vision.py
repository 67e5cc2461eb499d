"""A board's photo and a question: who may ask, what counts as a photo, and what the board is told."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
import pytest
from pydantic import SecretStr
from starlette.responses import JSONResponse, Response, StreamingResponse
from tests.devices.factories import HubWorker
from tests.devices.http_server import Dialled, Json, MakeWorker, Served, gone, ready, web
from tests.devices.mqtt_brokers import boards, linked
from tests.models.model_server import ModelServer, serving

from kho.devices.errors import DeviceFailed
from kho.devices.http.vision import MAX_ANSWER, MAX_IMAGE, image_type
from kho.kernel.limits.limiter import Limiter
from kho.kernel.limits.settings import LimitSettings
from kho.models import factory
from kho.models.settings import VisionSettings
from kho.simulator import simulator
from kho.simulator.board import Board

JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF" + b"\0" * 200 + b"\xff\xd9"
DEVICE = "aa:bb"


def saying(text: str) -> JSONResponse:
    return JSONResponse({"choices": [{"message": {"role": "assistant", "content": text}}]})


@asynccontextmanager
async def seeing(
    worker: HubWorker, timeout: float = 30.0, **chosen: Any
) -> AsyncGenerator[tuple[Served, ModelServer], None]:
    async with serving() as model:
        seer = factory.vision(VisionSettings(url=model.url, model="eye-1", api_key=SecretStr("k"), timeout=timeout))
        assert seer is not None
        try:
            async with web(worker, seer=seer, **chosen) as hub:
                await hub.ota(DEVICE)
                yield hub, model
        finally:
            await seer.aclose()


def photo_token(hub: Served, ahead: int = 0) -> str:
    return hub.tokens.issue(hub.worker.tenant, DEVICE, "client-one-00001", "vision", hub.worker.clock() + ahead)


async def ask(
    hub: Served, image: bytes = JPEG, question: str | None = "Cái gì đây?", token: str | None = None, **headers: str
) -> httpx2.Response:
    named = {"device-id": DEVICE, "client-id": "client-one-00001"} | {
        k.replace("_", "-"): v for k, v in headers.items()
    }
    return await hub.http.post(
        "/vision/explain",
        data={} if question is None else {"question": question},
        files={"file": ("camera.jpg", image, "image/jpeg")},
        headers={"authorization": f"Bearer {token or photo_token(hub)}", **named},
    )


def failed(answer: httpx2.Response, status: int) -> str:
    assert answer.status_code == status, answer.text
    told: Json = answer.json()
    assert told.keys() == {"success", "message"}
    assert told["success"] is False
    return told["message"]


async def test_the_model_sees_the_photo_and_its_words_reach_the_board(workers: MakeWorker) -> None:
    async with seeing(workers()) as (hub, model):
        model.answers.append(saying("  Một con mèo.  "))
        answer = await ask(hub)
        assert (answer.status_code, answer.json()) == (
            200,
            {"success": True, "action": "RESPONSE", "response": "Một con mèo."},
        )
        [asked] = model.asked
        assert asked.path == "/v1/chat/completions"
        assert asked.headers["authorization"] == "Bearer k"
        assert asked.body["model"] == "eye-1"
        words, photo = asked.body["messages"][-1]["content"]
        assert words == {"type": "text", "text": "Cái gì đây?"}
        assert photo["image_url"]["url"].startswith("data:image/jpeg;base64,/9j/")


async def test_as_the_firmware_sends_it_in_chunks(workers: MakeWorker) -> None:
    async with seeing(workers()) as (hub, model):
        model.answers.append(saying("A cup."))
        parts = [
            b'--ESP32\r\nContent-Disposition: form-data; name="question"\r\n\r\nWhat is it?\r\n',
            b'--ESP32\r\nContent-Disposition: form-data; name="file"; filename="camera.jpg"\r\n'
            b"Content-Type: image/jpeg\r\n\r\n",
            JPEG[:50],
            JPEG[50:],
            b"\r\n--ESP32--\r\n",
        ]

        async def chunks() -> AsyncGenerator[bytes, None]:
            for part in parts:
                yield part

        headers = {
            "content-type": "multipart/form-data; boundary=ESP32",
            "authorization": f"Bearer {photo_token(hub)}",
            "device-id": DEVICE,
            "client-id": "client-one-00001",
        }
        answer = await hub.http.post("/vision/explain", content=chunks(), headers=headers)
        assert answer.json()["response"] == "A cup."
        assert model.asked[0].body["messages"][-1]["content"][0]["text"] == "What is it?"


async def test_without_a_question_or_with_a_long_answer_it_still_fits(workers: MakeWorker) -> None:
    async with seeing(workers()) as (hub, model):
        model.answers += [saying("đ" * 5000), saying("x")]
        told: str = (await ask(hub, question=None)).json()["response"]
        assert len(told.encode()) <= MAX_ANSWER
        assert told.endswith("đ…")
        assert model.asked[0].body["messages"][-1]["content"][0]["text"] == "What do you see?"
        await ask(hub, question="x" * 9000)
        assert len(model.asked[1].body["messages"][-1]["content"][0]["text"]) == 2000


async def test_without_a_model_the_board_is_told_so(workers: MakeWorker) -> None:
    async with web(workers()) as hub:
        await hub.ota(DEVICE)
        assert "no vision model" in failed(await ask(hub), 200)


async def test_without_a_model_the_caller_is_told_so_and_the_history_does_not_call_it_done(workers: MakeWorker) -> None:
    worker = workers()
    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(web(worker))
        simulate = await boards(stack, worker, hub.url, await stack.enter_async_context(simulator.http()))
        await simulate(Board(DEVICE, online=True))
        await (await linked(worker, DEVICE)).settled()
        photo = {"device": DEVICE, "tool": "self.camera.take_photo", "arguments": {"question": "What is it?"}}
        with pytest.raises(DeviceFailed, match=r"^This hub has no vision model\. .*KHO_VISION__URL") as failed:
            await worker.ask("device_call", photo)
        assert "this is its answer" in failed.value.guidance
        [entry] = (await worker.ask("device_log", {}))["calls"]
        assert entry["outcome"] == "DEVICE_FAILED"
        assert entry["message"].startswith("This hub has no vision model.")


async def test_a_model_that_fails_is_told_in_a_sentence(workers: MakeWorker) -> None:
    async with seeing(workers()) as (hub, model):
        model.answers += [JSONResponse({"error": "no such model"}, 404), JSONResponse({"choices": []})]
        assert "404" in failed(await ask(hub), 200)
        assert "no text" in failed(await ask(hub), 200)


@pytest.mark.parametrize("kind", ["dribbling", "endless", "packed twice", "a huge text", "deep", "a list", "no text"])
async def test_a_model_server_that_means_ill_is_told_in_a_sentence(workers: MakeWorker, kind: str) -> None:
    """The next photo is answered, and what the board gets is never long."""

    async def dribbling() -> AsyncGenerator[bytes]:
        while True:
            yield b" "
            await asyncio.sleep(0.01)

    async def endless() -> AsyncGenerator[bytes]:
        for _ in range(100):
            yield b" " * 1_000_000

    answers: dict[str, Response] = {
        "dribbling": StreamingResponse(dribbling(), media_type="application/json"),
        "endless": StreamingResponse(endless(), media_type="application/json"),
        "packed twice": Response(b"x" * 99, headers={"content-encoding": "gzip, gzip"}),
        "a huge text": saying("đ" * 3_000_000),
        "deep": Response(b"[" * 1_000_000),
        "a list": JSONResponse([1, 2, 3]),
        "no text": JSONResponse({"choices": [{"message": {"content": {"a": 1}}}]}),
    }
    async with seeing(workers(), timeout=0.5) as (hub, model):
        model.answers += [answers[kind]] * 8
        answer = await ask(hub)
        assert answer.status_code == 200
        assert len(answer.content) < 2 * MAX_ANSWER
        assert answer.json()["success"] == (kind == "a huge text")
        model.answers[:] = [saying("A cup.")]
        assert (await ask(hub)).json()["response"] == "A cup."


async def test_only_the_board_s_own_token_for_photos_opens_it(workers: MakeWorker) -> None:
    async with seeing(workers()) as (hub, model):
        worker = hub.worker
        socket = (await hub.ota(DEVICE))["websocket"]["token"]
        old = photo_token(hub, -3601 * 1_000_000)
        for token in ("x", socket, old, photo_token(hub)[:-1] + "!"):
            failed(await ask(hub, token=token), 401)
        failed(await ask(hub, device_id="aa:cc"), 401)
        failed(await ask(hub, client_id="c-2"), 401)
        bare = await hub.http.post("/vision/explain", files={"file": JPEG}, headers={"device-id": DEVICE})
        failed(bare, 401)
        token = photo_token(hub)
        worker.clock.pass_(1)
        await worker.ask("device_revoke", {"device": DEVICE})
        failed(await ask(hub, token=token), 401)
        assert model.asked == []


async def test_while_a_board_stays_connected_its_token_does_not_run_out(workers: MakeWorker) -> None:
    async with seeing(workers()) as (hub, model):
        model.answers.append(saying("A cup."))
        async with hub.dial(device_id=DEVICE, client_id="client-one-00001") as socket:
            dialled = Dialled(Board(DEVICE), socket)
            await ready(hub.worker, DEVICE)
            initialize: Any = next(frame for frame in dialled.frames if frame["type"] == "mcp")
            token = initialize["payload"]["params"]["capabilities"]["vision"]["token"]
            hub.worker.clock.pass_(7200)
            assert (await ask(hub, token=token)).json()["success"] is True
            await dialled.leave()
        await gone(hub.worker, DEVICE)
        assert "expired" in failed(await ask(hub, token=token), 401)


async def test_what_is_no_photo_is_refused_whatever_it_calls_itself(workers: MakeWorker) -> None:
    async with seeing(workers()) as (hub, model):
        for content in (b"", b"<svg/>", b"hello", b"RIFF0000WAVE", b"%PDF-1.7"):
            failed(await ask(hub, content), 415)
        assert model.asked == []


async def test_a_photo_that_is_too_large_is_refused(workers: MakeWorker) -> None:
    async with seeing(workers()) as (hub, model):
        model.answers.append(saying("big"))
        assert (await ask(hub, JPEG + b"\0" * (MAX_IMAGE - len(JPEG)))).json()["response"] == "big"
        assert "more than" in failed(await ask(hub, JPEG + b"\0" * (MAX_IMAGE - len(JPEG) + 1)), 400)
        failed(await ask(hub, JPEG + b"\0" * (MAX_IMAGE + 100_000)), 413)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", b"{}"),
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=b", b""),
        ("multipart/form-data; boundary=b", b"--b\r\nnonsense"),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="question"\r\n\r\nx\r\n--b--',
        ),
        ("multipart/form-data; boundary=b", b'--b\r\nContent-Disposition: form-data; name="x"\r\n\r\nx\r\n' * 50),
        ("image/jpeg", JPEG),
    ],
)
async def test_a_form_that_cannot_be_read_is_refused(workers: MakeWorker, kind: str, body: bytes) -> None:
    async with seeing(workers()) as (hub, model):
        headers = {"content-type": kind, "authorization": f"Bearer {photo_token(hub)}", "device-id": DEVICE}
        failed(await hub.http.post("/vision/explain", content=body, headers=headers), 400)
        assert model.asked == []


def test_images_are_told_by_their_first_bytes() -> None:
    known = {
        b"\xff\xd8\xff\xdb": "image/jpeg",
        b"\x89PNG\r\n\x1a\n": "image/png",
        b"GIF87a": "image/gif",
        b"GIF89a": "image/gif",
        b"RIFF\x10\0\0\0WEBPVP8 ": "image/webp",
    }
    assert {content: image_type(content) for content in known} == known
    assert image_type(b"RIFF") is None


async def test_the_photos_of_a_board_are_counted(workers: MakeWorker) -> None:
    limiter = Limiter(LimitSettings(model_calls=2), lambda: 0.0)
    async with seeing(workers(), limiter=limiter) as (hub, model):
        model.answers += [saying("a cup"), saying("a cat")]
        for _ in range(2):
            assert (await ask(hub)).status_code == 200
        answer = await ask(hub)
        assert "2 calls of a language or vision model in a minute of one key or board" in failed(answer, 429)
        assert answer.headers["retry-after"] == "30"
        assert len(model.asked) == 2
