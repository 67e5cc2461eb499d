"""Reading at a distance: the process is used again, replaced when it fails, and never hurts the hub."""

import contextlib
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from tests.parsers.samples import pdf, word

from kho.lib.chunking.chunker import chunks
from kho.lib.tenancy import in_tenant
from kho.parsers import ParsedFile, ParserLimits, UnreadableFile, Worker, read, read_text
from kho.parsers.worker import LARGE, NESTED

WORD = word(lambda document: document.add_paragraph("Chữ trong tài liệu."))
PDF = pdf(["Chữ trên trang."])
SLOW = pdf(["x"], extra=b"BT /F 12 Tf 14 TL 50 750 Td\n" + b"<0001> Tj T*\n" * 3_000_000 + b"ET\n")
"""Small as a file, and a minute of work for the parser."""


async def test_one_process_reads_many_files_of_many_formats() -> None:
    async with Worker() as worker:
        assert worker.pid is None
        pids: set[int | None] = set()
        for data, name in [(WORD, "a.docx"), (PDF, "b.pdf"), ("<h1>Đầu</h1>đề".encode(), "c.html")] * 3:
            assert await worker.read(data, name) == read(data, name)
            pids.add(worker.pid)
        assert len(pids) == 1
        assert pids != {None}
    assert worker.pid is None


async def test_plain_formats_need_no_process() -> None:
    async with Worker() as worker:
        assert (await worker.read(b"# A", "a.md")).title == "A"
        assert worker.pid is None


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.ipynb", "a.csv", "a.tsv", "a.rst"])
async def test_formats_that_few_signs_make_much_of_are_read_in_the_process_earlier(name: str) -> None:
    """256 KB of `[` would hold up the hub for seconds."""
    async with Worker() as worker:
        for size, pid in ((NESTED - 1, False), (NESTED + 1, True)):
            with contextlib.suppress(UnreadableFile):
                await worker.read(b"[" * size, name)
            assert (worker.pid is not None) is pid
        assert NESTED < LARGE


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.md", b"# A heading\n\nSome words below it.\n\n" * 9_000),
        ("a.txt", b"words on one line " * 16_000),
        ("a.py", b"def brew():\n    return 1\n\n\n" * 10_000),
        ("a.csv", "city,river\nHuế,Hương\n".encode() * 12_000),
        ("a.json", b'{"a": [' + b'"\\u01b0",' * 40_000 + b"1]}"),
        ("a.jsonl", b'{"a": 1}\n' * 40_000),
        ("a.rst", b"Title\n=====\n\nwords\n\n" * 15_000),
        ("a.ipynb", b'{"cells": [' + b'{"cell_type": "markdown", "source": "# A"},' * 8_000 + b"{}]}"),
        ("unknown", b"plain words\n" * 25_000),
    ],
)
async def test_a_large_file_of_any_format_is_read_and_cut_in_the_process(name: str, data: bytes) -> None:
    assert len(data) > LARGE
    async with Worker(cut=True) as worker:
        found = await worker.read(data, name)
        assert worker.pid is not None
    expected = read(data, name)
    assert found.chunks is not None
    assert replace(found, chunks=None) == expected
    cut = chunks(expected.text, kind=expected.kind)
    assert list(found.chunks) == [(one.text, one.heading, one.content) for one in cut]


async def test_a_long_text_is_read_and_cut_in_the_process() -> None:
    text = "---\ntitle: Ấm\n---\n" + "Nước sôi trong ấm.\n\n" * 15_000
    async with Worker(cut=True) as worker:
        assert (await worker.read_text("A first line.\n\nMore.")).title == "A first line."
        assert worker.pid is None
        found = await worker.read_text(text)
        assert worker.pid is not None
    assert found.title == "Ấm"
    assert replace(found, chunks=None) == read_text(text)
    assert found.chunks
    assert found.chunks[0].text == chunks(read_text(text).text)[0].text


def test_a_file_that_grows_does_not_grow_in_the_hub() -> None:
    """Two million brackets were 164 million characters. A process of its own is asked for the most memory that it and
    its worker ever had: the worker's is limited, the hub's stays near what an empty one needs."""
    code = (
        "import anyio, resource\nfrom kho.parsers import UnreadableFile, Worker\n"
        "def most(who):\n    return resource.getrusage(who).ru_maxrss\n"
        "async def main():\n"
        "    async with Worker() as worker:\n"
        "        await worker.read(b'# a', 'a.md')\n"
        "        before = most(resource.RUSAGE_SELF)\n"
        "        try:\n            await worker.read(b'[' * 2_000_000, 'x.json')\n"
        "        except UnreadableFile as error:\n            print(error.reason)\n"
        "        print(most(resource.RUSAGE_SELF) - before)\n"
        "    print(most(resource.RUSAGE_CHILDREN))\n"
        "anyio.run(main)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    reason, own, child = done.stdout.splitlines()
    assert reason == "its text has 19,999,980 characters, more than 16,000,000"
    kilobytes = 1 if sys.platform == "linux" else 1024
    assert int(own) < 50_000 * kilobytes
    assert int(child) < 600_000 * kilobytes


async def test_a_reason_comes_back_and_the_process_stays() -> None:
    async with Worker() as worker:
        await worker.read(WORD, "a.docx")
        first = worker.pid
        with pytest.raises(UnreadableFile, match="only pictures") as refused:
            await worker.read(pdf([""]), "scan.pdf")
        assert refused.value.advice.startswith("Run text recognition")
        assert worker.pid == first


async def test_a_name_that_is_no_unicode() -> None:
    async with Worker() as worker:
        assert (await worker.read(PDF, os.fsdecode(b"b\xe1o c\xe1o.pdf"))).text == "Chữ trên trang.\n"


async def test_a_file_that_takes_too_long_is_given_up_and_the_next_is_read() -> None:
    async with Worker(ParserLimits(seconds=0.5)) as worker:
        with pytest.raises(UnreadableFile, match=r"took longer than 0\.5 seconds"):
            await worker.read(SLOW, "slow.pdf")
        assert worker.pid is None
    async with Worker() as worker:
        await worker.read(PDF, "a.pdf")


async def test_a_file_that_eats_memory_is_refused_and_the_next_is_read() -> None:
    async with Worker(ParserLimits(memory=120 * 2**20)) as worker:
        with pytest.raises(UnreadableFile, match="more than 120 MB of memory"):
            await worker.read(SLOW, "slow.pdf")
        assert worker.pid is None
        assert (await worker.read(PDF, "a.pdf")).text == "Chữ trên trang.\n"


async def test_a_file_that_crashes_its_parser_is_refused_and_the_next_is_read() -> None:
    """The parser of HTML has an error of its own for the end of the memory, which nobody expects."""
    async with Worker(ParserLimits(memory=150 * 2**20)) as worker:
        with pytest.raises(UnreadableFile, match="it crashes the program that reads it"):
            await worker.read(b"<p>" + b"<b>x" * 5_000_000, "big.html")
        assert worker.pid is None
        assert (await worker.read(b"<p>small", "small.html")).text == "small\n"


async def stopped(worker: Worker) -> int:
    """A process that has started, and does nothing from now on."""
    await worker.read(PDF, "a.pdf")
    assert worker.pid
    os.kill(worker.pid, signal.SIGSTOP)
    return worker.pid


async def test_a_process_that_dies_between_files_goes_unnoticed() -> None:
    async with Worker() as worker:
        await worker.read(PDF, "a.pdf")
        assert worker.pid
        os.kill(worker.pid, signal.SIGKILL)
        assert (await worker.read(WORD, "a.docx")).text == "Chữ trong tài liệu.\n"


async def test_a_process_that_dies_over_a_file_is_replaced_once() -> None:
    async with Worker() as worker:
        pid = await stopped(worker)
        found: list[ParsedFile] = []

        async def reading() -> None:
            found.append(await worker.read(WORD, "a.docx"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reading)
            await anyio.wait_all_tasks_blocked()
            os.kill(pid, signal.SIGKILL)
        assert found[0].text == "Chữ trong tài liệu.\n"
        assert worker.pid != pid


async def test_a_reader_that_is_cancelled_leaves_no_half_answer_behind() -> None:
    async with Worker() as worker:
        pid = await stopped(worker)
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(worker.read, WORD, "a.docx")
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
        assert worker.pid is None
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        assert (await worker.read(PDF, "a.pdf")).text == "Chữ trên trang.\n"


async def test_a_cancelled_read_of_a_large_plain_file_ends_the_process() -> None:
    async with Worker(cut=True) as worker:
        pid = await stopped(worker)
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(worker.read, b"[" * 5_000_000, "x.json")
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
        assert worker.pid is None
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_readers_wait_for_each_other() -> None:
    texts: list[str] = []
    async with Worker() as worker:

        async def reading(number: int) -> None:
            texts.append((await worker.read(f"<p>{number}".encode(), "a.html")).text)

        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon(reading, number)
    assert sorted(texts) == [f"{number}\n" for number in range(8)]


async def test_slow_files_of_one_tenant_hold_up_no_other() -> None:
    async with Worker() as worker:
        await stopped(worker)
        async with anyio.create_task_group() as tasks:
            with in_tenant("slow"):
                for _ in range(8):
                    tasks.start_soon(worker.read, WORD, "a.docx")
                await anyio.wait_all_tasks_blocked()
            with in_tenant("other"), anyio.fail_after(worker.limits.seconds / 2):
                assert (await worker.read(b"<p>small", "small.html")).text == "small\n"
            tasks.cancel_scope.cancel()


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="there is no /proc")
async def test_the_process_has_no_secrets_and_a_limit() -> None:
    async with Worker(ParserLimits(memory=300 * 2**20)) as worker:
        await worker.read(PDF, "a.pdf")
        around = await anyio.Path(f"/proc/{worker.pid}/environ").read_bytes()
        assert [entry.split(b"=")[0] for entry in around.split(b"\0") if entry] == [b"PYTHONPATH"]
        limits = await anyio.Path(f"/proc/{worker.pid}/limits").read_text()
        most = next(line.split()[3] for line in limits.splitlines() if line.startswith("Max address space"))
        assert 300 * 2**20 < int(most) < 1500 * 2**20


def test_nothing_reaches_our_stdout() -> None:
    """A hub on stdio speaks its protocol there; parsers that print must not."""
    code = (
        "import anyio\nfrom kho.parsers import Worker\n"
        "async def main():\n"
        "    async with Worker() as worker:\n"
        "        try:\n            await worker.read(b'%PDF-1.7\\n' + bytes(999), 'a.pdf')\n"
        "        except Exception as error:\n            assert 'damaged' in str(error), error\n"
        "anyio.run(main)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b""
