"""Vectors for what waits: nothing is lost, nothing is done twice, and a failure costs nothing but time."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import orjson
import pytest
from tests.search.conftest import Core, T, Watched, doc
from tests.timeouts import PATIENCE

from kho.kernel.errors import KhoError, Unavailable
from kho.kernel.hub import Settled
from kho.kernel.ports import SearchFilter
from kho.lib.clock import SECOND
from kho.lib.tenancy import for_all_tenants
from kho.models.hash_embedder import HashEmbedder
from kho.search.calibration.calibrate import is_current
from kho.search.indexing import passages
from kho.search.indexing.embedding_queue import BATCH, FIRST_RETRY, LAST_RETRY, LEASE_DURATION, calibration_row
from kho.search.indexing.index import Document

if TYPE_CHECKING:
    from kho.kernel.ports import Matrix


def many(count: int) -> list[Document]:
    return [doc(f"d{n}", f"Text d{n} of the collection.") for n in range(count)]


async def have_vectors(core: Core, where: SearchFilter = T) -> set[int]:
    rows = await core.all("SELECT seq FROM passages")
    return set(await core.vectors.get(core.embedder.model, where, [row[0] for row in rows]))


async def complete(core: Core) -> bool:
    """Every passage has its vector, and none waits."""
    rows = await core.all("SELECT seq FROM passages")
    return await core.embedding_queue.pending() == 0 and await have_vectors(core) == {row[0] for row in rows}


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await condition():  # it asks the database, so there is always something to wait for
            pass


async def at_the_gate(core: Core) -> "asyncio.Task[Settled]":
    """Works, and has come to where the model is asked."""
    core.embedder.gate = asyncio.Event()
    task = asyncio.create_task(core.settle())
    async with asyncio.timeout(PATIENCE):
        await core.embedder.reached.wait()
    return task


async def test_settling_tells_how_far_it_is(core: Core) -> None:
    await core.put(*many(2 * BATCH + 5))
    told: list[tuple[int, int]] = []
    settled = await core.embedding_queue.settle(lambda done, total: told.append((done, total)))
    assert settled == Settled(2 * BATCH + 5, 0)
    assert told == [(0, 53), (BATCH, 53), (2 * BATCH, 53), (53, 53)]
    assert await complete(core)
    assert await core.number("leases") == 0
    assert await core.settle() == Settled(0, 0)


async def test_nothing_to_do_loads_nothing(core: Core) -> None:
    assert await core.settle() == Settled(0, 0)
    assert core.embedder.embedded == []


async def test_the_queue_survives_a_restart(core: Core) -> None:
    await core.put(*many(30))
    await at_work(core)
    db = core.again()
    other = Core(db, core.words, core.vectors, core.again, clock=core.clock)
    assert await other.embedding_queue.pending() == 30
    assert await other.settle() == Settled(30, 0)
    assert await complete(core)


async def at_work(core: Core) -> None:
    """Began, and was ended in the middle of a batch."""
    task = await at_the_gate(core)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_only_one_works_at_a_time(core: Core) -> None:
    await core.put(*many(3))
    first = await at_the_gate(core)
    other = core.beside()
    assert await other.settle() == Settled(0, 3, elsewhere=True)
    assert other.embedder.embedded == []
    assert core.embedder.gate is not None
    core.embedder.gate.set()
    assert await first == Settled(3, 0)
    # It let go, so that the other can begin at once.
    await core.put(doc("x", "Another text."))
    assert await other.settle() == Settled(1, 0)
    assert other.embedder.embedded == ["Another text."]


async def test_a_lease_that_nobody_renews_runs_out(core: Core) -> None:
    await core.put(*many(3))
    stuck = await at_the_gate(core)
    other = core.beside()
    core.clock.now += LEASE_DURATION - 1
    assert (await other.settle()).elsewhere
    core.clock.now += 1
    assert await other.settle() == Settled(3, 0)
    # The first wakes up late. What it does then is harmless.
    assert core.embedder.gate is not None
    core.embedder.gate.set()
    await stuck
    assert await complete(core)


async def test_closing_lets_go_even_if_nothing_was_achieved(core: Core) -> None:
    await core.put(*many(3))
    core.embedder.broken = Unavailable("The model is away.")
    core.background.add(for_all_tenants(core.embedding_queue.run))
    await asyncio.sleep(0)
    core.embedding_queue.nudge()
    await until(lambda: core.db.read(lambda tx: passages.problem(tx) is not None))
    assert await core.number("leases") == 1
    await core.background.drain()
    await core.embedding_queue.aclose()
    assert await core.number("leases") == 0


async def test_dropped_while_its_vector_was_made(core: Core) -> None:
    await core.put(doc("a", "The bridge is closed."), doc("b", "The museum is open."))
    gone = await core.seqs("a")
    task = await at_the_gate(core)
    await core.drop("a")
    assert core.embedder.gate is not None
    core.embedder.gate.set()
    assert (await task).left == 0
    assert await complete(core)
    assert await core.nearest("bridge") == await core.seqs("b")
    assert await core.vectors.get(core.embedder.model, T, gone) == {}


async def test_filed_elsewhere_while_its_vector_was_made(core: Core) -> None:
    await core.put(doc("a", "The bridge is closed.", tags=("old",)))
    task = await at_the_gate(core)
    await core.put(doc("a", "The bridge is closed.", tags=("new",)))
    assert core.embedder.gate is not None
    core.embedder.gate.set()
    await task
    assert await core.nearest("bridge", SearchFilter("s", "t", tags=("new",))) == await core.seqs("a")
    assert await core.nearest("bridge", SearchFilter("s", "t", tags=("old",))) == []


async def test_a_failing_provider_is_asked_again_later_and_words_answer(core: Core) -> None:
    core.embedder.broken = Unavailable("The model is away.")
    await core.put(doc("a", "The bridge is closed."))
    waits: list[float] = []
    while not waits or waits[-1] < LAST_RETRY:
        assert await core.settle() == Settled(0, 1, problem="The model is away.")
        [[due, attempts, problem]] = await core.all("SELECT due_at, attempts, problem FROM vector_queue")
        waits.append((due - core.clock.now) / SECOND)
        assert (attempts, problem) == (len(waits), "The model is away.")
        core.clock.now = due - 1
        assert await core.settle() == Settled(0, 1, problem="The model is away.")  # and it was not asked
        assert (await core.all("SELECT attempts FROM vector_queue")) == [(len(waits),)]
        core.clock.now = due
    assert waits[:3] == [FIRST_RETRY, 2 * FIRST_RETRY, 4 * FIRST_RETRY]
    found = await core.searcher.search(T, "bridge")
    assert [hit.passage.key for hit in found.hits] == ["a"]
    assert found.notes == ("Keyword search only. The model is away.",)
    assert found.pending == 1
    core.embedder.broken = None
    assert await core.settle() == Settled(1, 0)
    found = await core.searcher.search(T, "bridge")
    assert (found.notes, found.pending) == ((), 0)
    assert found.hits[0].parts.meaning is not None


async def test_a_failing_provider_is_not_asked_at_every_poll(core: Core, caplog: pytest.LogCaptureFixture) -> None:
    """Each time it is asked in vain the log has a line."""
    await core.ready(doc("a", "The bridge is closed."))
    await core.db.write(lambda tx: passages.set_state(tx, calibration_row(core.embedder.model), '{"version": 0}'))
    new = core.beside()
    new.embedder.broken = Unavailable("The model is away.")
    for _ in range(3):  # there is nothing but the calibration to do
        assert await new.settle() == Settled(0, 0)
    await new.put(doc("b", "The bridge is open."))
    for _ in range(3):
        assert await new.settle() == Settled(0, 1, problem="The model is away.")
    assert caplog.text.count("The model is away.") == 2
    new.embedder.broken = None
    await core.db.write(lambda tx: passages.retry(tx, core.clock.now))
    assert await new.settle() == Settled(1, 0)


async def test_a_provider_that_fails_later(core: Core) -> None:
    await core.ready(doc("a", "The bridge is closed."))
    core.embedder.broken = Unavailable("The model is away.")
    await core.put(doc("b", "The bridge is open."))
    assert (await core.settle()).problem == "The model is away."
    found = await core.searcher.search(T, "bridge")
    assert {hit.passage.key for hit in found.hits} == {"a", "b"}
    assert found.notes == ("Keyword search only. The model is away.",)
    core.embedder.broken = None
    core.clock.now += int(FIRST_RETRY * SECOND)
    assert await core.settle() == Settled(1, 0)
    assert (await core.searcher.search(T, "bridge")).notes == ()


class Picky(Watched):
    """Refuses one text, and whatever comes with it, as servers do."""

    async def passages(self, texts: Sequence[str]) -> "Matrix":
        if any("poison" in text for text in texts):
            raise Unavailable("The server answered 400.")
        return await super().passages(texts)


async def test_one_text_that_is_refused_does_not_hold_back_the_others(core: Core) -> None:
    picky = core.beside(Picky())
    await picky.put(*many(40), doc("bad", "This is poison."))
    rounds = 0
    while (settled := await picky.settle()).left > 1:
        core.clock.now += int(FIRST_RETRY * SECOND)
        rounds += 1
        assert rounds < 40
    assert settled.problem == "The server answered 400."
    assert await core.all("SELECT key FROM passages WHERE seq IN (SELECT seq FROM vector_queue)") == [("bad",)]


async def test_another_model_gets_everything_anew_and_never_meets_the_old(core: Core) -> None:
    await core.ready(*many(30), doc("a", "The bridge is closed."))
    new = core.beside(Watched(HashEmbedder(64)))
    # Before there is a vector of the new model, words answer, and the old vectors have no say.
    found = await new.searcher.search(T, "bridge closed")
    assert found.hits[0].passage.key == "a"
    assert all(hit.parts.meaning is None for hit in found.hits)
    told: list[tuple[int, int]] = []
    assert await new.embedding_queue.settle(lambda done, total: told.append((done, total))) == Settled(31, 0)
    assert (told[0], told[-1]) == ((0, 31), (31, 31))
    assert len(new.embedder.embedded) >= 31
    assert (await new.searcher.search(T, "bridge closed")).hits[0].parts.meaning is not None
    assert await complete(new)
    assert await core.nearest("bridge closed", limit=1) == await core.seqs("a")  # in its own index, undisturbed


async def test_the_model_that_came_last_has_its_way(core: Core) -> None:
    await core.ready(doc("a", "The bridge is closed."))
    new = core.beside(Watched(HashEmbedder(64)))
    await new.settle()
    await core.put(doc("b", "The museum is open."))
    assert (await core.settle()).done == 0
    assert core.embedder.embedded == []
    assert await new.settle() == Settled(1, 0)
    assert await complete(new)


class Lying(HashEmbedder):
    """Says one dimension and gives another."""

    async def dimension(self) -> int:
        return 300


class Namesake(HashEmbedder):
    @property
    def model(self) -> str:
        return "hash/256"


@pytest.mark.parametrize(("inner", "message"), [(Lying(128), "300 numbers"), (Namesake(128), "256 numbers")])
async def test_a_wrong_dimension_is_refused(core: Core, inner: HashEmbedder, message: str) -> None:
    await core.ready(doc("a", "The bridge is closed."))
    before = await have_vectors(core)
    wrong = core.beside(Watched(inner))
    await wrong.put(doc("b", "The museum is open."))
    settled = await wrong.settle()
    assert settled.done == 0
    assert settled.left > 0
    assert message in (settled.problem or "")
    assert [hit.passage.key for hit in (await wrong.searcher.search(T, "museum")).hits] == ["b"]
    assert await have_vectors(core) == before


async def test_the_hub_works_by_itself(core: Core) -> None:
    core.background.add(for_all_tenants(core.embedding_queue.run))
    await asyncio.sleep(0)
    await core.put(*many(BATCH + 2))
    await until(lambda: complete(core))
    await core.put(doc("b", "The museum is open."))
    await until(lambda: complete(core))
    assert core.embedder.embedded.count("The museum is open.") == 1


async def test_stopping_breaks_off_a_batch_and_loses_nothing(core: Core) -> None:
    await core.ready(doc("z", "So that the model is known."))
    await core.put(*many(BATCH + 2))
    core.embedder.gate = asyncio.Event()
    core.background.add(for_all_tenants(core.embedding_queue.run))
    await asyncio.sleep(0)
    core.embedding_queue.nudge()
    async with asyncio.timeout(PATIENCE):
        await core.embedder.reached.wait()
        await core.background.drain()  # although the gate stays shut
    assert await core.embedding_queue.pending() == BATCH + 2
    other = core.beside()
    core.clock.now += LEASE_DURATION + 1
    assert await other.settle() == Settled(BATCH + 2, 0)
    assert await complete(core)


@pytest.mark.parametrize("how", ["run", "settle"])
async def test_a_measure_of_an_older_kind_is_taken_anew(core: Core, how: str) -> None:
    await core.ready(doc("a", "The bridge is closed."))
    row = calibration_row(core.embedder.model)
    kept = await core.db.read(lambda tx: passages.state(tx, row))
    assert kept is not None
    old = orjson.dumps(orjson.loads(kept) | {"version": 0}).decode()
    await core.db.write(lambda tx: passages.set_state(tx, row, old))
    new = core.beside()
    assert (await new.searcher.search(T, "bridge")).hits[0].parts.meaning is None
    if how == "settle":
        assert await new.settle() == Settled(0, 0)
    else:
        new.background.add(for_all_tenants(new.embedding_queue.run))
        await asyncio.sleep(0)
        new.embedding_queue.nudge()  # nothing waits for a vector
    await until(lambda: core.db.read(lambda tx: is_current(passages.state(tx, row))))
    await new.background.drain()
    assert "The bridge is closed." not in new.embedder.embedded
    assert (await new.searcher.search(T, "bridge")).hits[0].parts.meaning is not None


async def test_a_database_that_is_away_puts_nothing_off(core: Core) -> None:
    await core.put(*many(2))
    db = core.again()
    other = Core(db, core.words, core.vectors, core.again, clock=core.clock)
    await db.aclose()
    with pytest.raises(KhoError):
        await other.settle()
    assert await core.all("SELECT attempts FROM vector_queue") == [(0,), (0,)]
    assert await core.number("leases") == 0
