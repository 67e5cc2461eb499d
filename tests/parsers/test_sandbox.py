"""What a parser cannot do: each limit of the process holds, whatever a file makes it do, and the next file is read."""

import contextlib
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from tests.parsers.samples import pdf, word
from tests.parsers.test_worker import PDF, SLOW, WORD

from kho.parsers import ParsedFile, ParserLimits, UnreadableFile, Worker, landlock, read

linux = pytest.mark.skipif(sys.platform != "linux", reason="the limits are those of Linux")
needs_landlock = pytest.mark.skipif(landlock.abi() == 0, reason="this kernel has no Landlock")
MB = 2**20


def told(script: str, *arguments: str, cwd: Path | None = None) -> list[str]:
    """What a process of its own prints, which confines itself."""
    before = "from kho.parsers import landlock\nimport errno, os, resource, socket, sys\n"
    done = subprocess.run(
        [sys.executable, "-c", before + textwrap.dedent(script), *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


TRY = """
    def tried(what, work):
        try:
            work()
            print(what, "done")
        except OSError as error:
            print(what, errno.errorcode[error.errno])
"""
ESCAPE = (
    TRY
    + """
    secret, ours = sys.argv[1:3]
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    landlock.abi = (lambda known: lambda: known)(int(sys.argv[3]))
    print("abi", landlock.confine())
    tried("read", lambda: open(secret).read())
    tried("list", lambda: os.listdir(os.path.dirname(secret)))
    tried("passwd", lambda: open("/etc/passwd").read())
    tried("proc", lambda: open("/proc/self/environ").read())
    tried("own code", lambda: open(ours).read())
    tried("change own code", lambda: open(ours, "a"))
    tried("write", lambda: open(secret + ".new", "w"))
    tried("delete", lambda: os.unlink(secret))
    tried("make", lambda: os.mkdir(secret + ".folder"))
    tried("link", lambda: os.symlink("/etc", secret + ".link"))
    tried("run", lambda: os.execv("/bin/sh", ["sh", "-c", "exit 3"]))
    tried("connect", lambda: socket.create_connection(("127.0.0.1", port)))
    tried("listen", lambda: socket.create_server(("127.0.0.1", 0)))
    tried("signal", lambda: os.kill(os.getppid(), 0))
"""
)


@needs_landlock
@pytest.mark.parametrize("known", [known for known in (1, 2, 3, 4, 5, 6, 7) if known <= landlock.abi()])
def test_a_confined_process_reads_its_own_code_and_nothing_else(tmp_path: Path, known: int) -> None:
    """With what each version of the kernel's interface knows. The secret lies in the working directory, which `python -m`
    puts on the path."""
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    answers = dict(
        line.rsplit(" ", 1) for line in told(ESCAPE, str(secret), landlock.__file__, str(known), cwd=tmp_path)
    )
    tcp, scoped = known >= 4, known >= 6
    assert answers == {
        "abi": str(known),
        **dict.fromkeys(("read", "list", "passwd", "proc", "write", "delete", "make", "link", "run"), "EACCES"),
        "own code": "done",
        "change own code": "EACCES",
        "connect": "EACCES" if tcp else "done",
        "listen": "EACCES" if tcp else "done",
        "signal": "EPERM" if scoped else "done",
    }
    assert [path.name for path in tmp_path.iterdir()] == ["secret.txt"]


def test_a_kernel_without_it_goes_on(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    script = (
        "\nlandlock._call = lambda *arguments: (_ for _ in ()).throw(OSError(errno.ENOSYS, 'no such call'))\n"
        "print(landlock.abi(), landlock.confine(), open(sys.argv[1]).read())"
    )
    assert told(script, str(secret)) == ["0 0 secret"]


@linux
async def test_the_process_of_a_worker_is_confined() -> None:
    async with Worker(ParserLimits(memory=300 * MB)) as worker:
        assert worker.landlock == 0
        await worker.read(PDF, "a.pdf")
        assert worker.landlock == landlock.abi()
        status = await anyio.Path(f"/proc/{worker.pid}/status").read_text()
        assert f"NoNewPrivs:\t{int(worker.landlock > 0)}" in status
        rows = (await anyio.Path(f"/proc/{worker.pid}/limits").read_text()).splitlines()
        limits = {row[:26].strip(): row[26:].split()[:2] for row in rows}
    assert limits["Max open files"] == ["64", "64"]
    assert limits["Max processes"] == ["0", "0"]
    assert limits["Max core file size"] == ["0", "0"]
    assert limits["Max address space"][0] == limits["Max address space"][1] != "unlimited"
    assert int(limits["Max file size"][1]) < 100 * MB


@linux
def test_the_limits_bite_without_landlock(tmp_path: Path) -> None:
    script = (
        TRY
        + """
    from kho.parsers import worker_process
    from kho.parsers.model import ParserLimits
    landlock.confine = lambda: 0
    print(worker_process._confine(ParserLimits(memory=50 * 2**20)))
    held = []
    tried("open", lambda: [held.append(os.open("/dev/null", 0)) for _ in range(100)])
    os.close(held.pop())
    file = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
    tried("write", lambda: [os.write(file, bytes(2**20)) for _ in range(3)])
    try:
        bytes(60 * 2**20)
    except MemoryError:
        print("memory full")
    """
    )
    assert told(script, str(tmp_path / "x")) == ["0", "open EMFILE", "write EFBIG", "memory full"]


SAMPLES = {
    "a.docx": WORD,
    "a.pdf": PDF,
    "a.html": "<h1>Đầu</h1><p>đề".encode(),
    "a.md": b"---\ntitle: Front\ntags: [a]\n---\nText.",
    "toml.md": b"+++\ntitle = 'Front'\n+++\nText.",
    "a.csv": b"a,b\n1,2\n",
    "a.json": b'{"a": "\\u01b0"}',
    "a.ipynb": b'{"cells": [{"cell_type": "markdown", "source": "# A"}]}',
    "a.rst": b"Title\n=====\n\nwords\n",
    "gbk.txt": "消防演习每年三月和九月举行，集合地点在北门停车场。".encode("gb18030") * 5,
    "big5.txt": "消防演習每年三月和九月舉行，集合地點在北門停車場。".encode("big5") * 5,
    "tcvn.txt": "Nguyễn Thị Ánh Tuyết ở Huế".encode("utf-16"),
    "latin.txt": "Smörgåsbord à la carte, déjà vu.".encode("latin-1") * 5,
    "a.py": b"def f():\n    return 1\n",
    "a.xml": b"<a><b>x</b></a>",
}


@pytest.mark.parametrize("name", SAMPLES)
async def test_every_parser_finds_what_it_imports_in_a_fresh_process(name: str) -> None:
    async with Worker() as worker:
        assert await worker.read(SAMPLES[name], name, suspect=True) == read(SAMPLES[name], name)
        assert worker.pid is not None


async def test_a_file_that_takes_too_much_of_a_processor_ends_the_process_and_the_next_is_read() -> None:
    async with Worker(ParserLimits(processor=0.5)) as worker:
        await worker.read(PDF, "a.pdf")
        with pytest.raises(UnreadableFile, match=r"took more than 0\.5 seconds of a processor") as refused:
            await worker.read(SLOW, "slow.pdf")
        assert refused.value.advice
        assert worker.pid is None
        assert (await worker.read(PDF, "a.pdf")).text == "Chữ trên trang.\n"


async def test_the_processor_time_of_each_file_is_counted_by_itself() -> None:
    busy = b"# a heading\n\n" * 30_000
    async with Worker(ParserLimits(processor=3)) as worker:
        for _ in range(4):
            await worker.read(busy, "a.md")
        first = worker.pid
        await worker.read(PDF, "a.pdf")
        assert worker.pid == first


def loops() -> bytes:
    """Pages that are their own children, a form that shows itself, an outline and a table of references in circles."""
    stream = b"<< /Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X 5 0 R >> >> /Length 12 >>"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R /Outlines 6 0 R >>",
        b"<< /Type /Pages /Kids [2 0 R 3 0 R 2 0 R] /Count 3 >>",
        b"<< /Type /Page /Parent 2 0 R /Contents 4 0 R /Resources << /XObject << /X 5 0 R >> >> >>",
        b"<< /Length 6 >>\nstream\n/X Do \nendstream",
        stream + b"\nstream\n/X Do /X Do \nendstream",
        b"<< /First 7 0 R /Last 7 0 R /Count 1 >>",
        b"<< /Title (x) /Parent 6 0 R /Next 7 0 R /First 7 0 R /Dest [3 0 R /Fit] >>",
    ]
    out, places = bytearray(b"%PDF-1.7\n"), list[int]()
    for number, body in enumerate(objects, start=1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    rows = b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(objects) + 1, rows)
    out += b"trailer\n<< /Root 1 0 R /Size %d /Prev %d >>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, start, start)
    return bytes(out)


HOSTILE: dict[str, Callable[[], bytes]] = {
    "deep.json": lambda: b"[" * (5 * MB),
    "deep-objects.json": lambda: b'{"a":' * (MB // 4),
    "brackets.ipynb": lambda: b'{"cells":[' + b"[]," * (47 * MB // 3) + b"[]]}",
    "deep.ipynb": lambda: b'{"cells":' + b"[" * (47 * MB),
    "line.csv": lambda: b"a," * (8 * MB),
    "quote.csv": lambda: b'"' * (16 * MB),
    "columns.csv": lambda: b"n" * 20_000 + b"," * 20_000 + b"\n" + (b"1," * 20_000 + b"\n") * 10,
    "line.md": lambda: b"*a" * (8 * MB),
    "marks.txt": lambda: ("a" + "\u0301\u0323" * MB).encode(),
    "front.md": lambda: b"---\n" + b"a: &a [*a, *a]\n" * 100_000 + b"---\nx",
    "tags.html": lambda: b"<p>" * (4 * MB),
    "loops.pdf": loops,
    "bomb.docx": lambda: word(lambda document: document.add_paragraph("a" * (5 * MB))),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_file_is_refused_or_bounded_and_the_next_is_read(name: str) -> None:
    data = HOSTILE[name]()
    async with Worker(ParserLimits(memory=400 * MB, seconds=40), cut=True) as worker:
        found: ParsedFile | None = None
        with contextlib.suppress(UnreadableFile):
            found = await worker.read(data, name)
        if found is not None:
            assert len(found.text) <= worker.limits.characters(found.format, len(data))
        assert (await worker.read(PDF, "a.pdf")).text == "Chữ trên trang.\n"


def test_a_large_hostile_file_grows_the_worker_only_to_its_limit() -> None:
    """47 MB of a notebook's brackets are 1.5 GB of lists. A process of its own is asked for the most memory that it and
    its worker had."""
    script = """
    import anyio
    from kho.parsers import ParserLimits, UnreadableFile, Worker
    data = b'{"cells":[' + b"[]," * (47 * 2**20 // 3) + b"[]]}"

    async def main():
        async with Worker(ParserLimits(memory=500 * 2**20)) as worker:
            await worker.read(b"# a", "a.md")
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            try:
                await worker.read(data, "a.ipynb")
            except UnreadableFile as error:
                print(error.reason)
            print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
        print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)

    anyio.run(main)
    """
    reason, own, child = told(script)
    assert reason == "reading it takes more than 500 MB of memory"
    kilobytes = 1 if sys.platform == "linux" else 1024
    assert int(own) < 120_000 * kilobytes
    assert int(child) < 650_000 * kilobytes


def test_a_compressed_page_does_not_grow_without_end() -> None:
    data = pdf(["x"], extra=b"BT /F 12 Tf 14 TL 50 750 Td\n" + b"<0001> Tj\n" * 50_000 + b"ET\n")
    with pytest.raises(UnreadableFile, match="characters, more than 10,000"):
        read(data, "a.pdf", limits=ParserLimits(small=10_000, ratio=1))
