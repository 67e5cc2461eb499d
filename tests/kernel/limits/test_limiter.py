"""What one caller and one tenant may take, at the registry itself: no door is needed to be limited."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from pydantic import BaseModel

from kho.kernel.background import Background
from kho.kernel.call import Call, Principal
from kho.kernel.capability import Capability
from kho.kernel.errors import KhoError, TooManyRequests
from kho.kernel.limits.allowance import CURRENT, model_call
from kho.kernel.limits.limiter import KNOWN, Limiter
from kho.kernel.limits.settings import LimitSettings
from kho.kernel.operation import Operation
from kho.kernel.registry import Outcome, Registry

LOCAL = Principal("me", "local", frozenset({"*"}))
ANN = Principal("ann", "acme", frozenset({"*"}), "key", key="k1")
BOB = Principal("bob", "acme", frozenset({"*"}), "key", key="k2")
EVE = Principal("eve", "evil", frozenset({"*"}), "key", key="k3")


class Nothing(BaseModel):
    pass


@dataclass
class Ticks:
    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


class House:
    """A registry with limits, whose operations count how often they ran, and wait if they are told to."""

    def __init__(self, **limits: float) -> None:
        self.ticks = Ticks()
        self.limiter = Limiter(LimitSettings.model_validate(limits), self.ticks)
        self.ran = 0
        self.door = asyncio.Event()
        self.door.set()
        operations = [
            Operation("things.look", "Looks.", Nothing, self._run, "things"),
            Operation("things.put", "Puts.", Nothing, self._run, "things", "write"),
            Operation("things.drop", "Drops.", Nothing, self._run, "things", "destructive"),
            Operation("things.ask", "Asks a model.", Nothing, self._ask, "things"),
            Operation("things.later", "Asks a model later.", Nothing, self._later, "things"),
        ]
        self.operations = {one.name.partition(".")[2]: one for one in operations}
        self.background = Background()
        capability = Capability("things", "things-server", operations)
        self.registry = Registry([capability], self.background, limiter=self.limiter)

    async def call(self, name: str, principal: Principal = ANN) -> Outcome:
        return await self.registry.call(self.operations[name], {}, Call(principal))

    async def codes(self, name: str, times: int, principal: Principal = ANN) -> list[str]:
        return [_code(await self.call(name, principal)) for _ in range(times)]

    async def _run(self, params: Nothing, call: Call) -> None:
        self.ran += 1
        await self.door.wait()

    async def _ask(self, params: Nothing, call: Call) -> None:
        model_call()
        self.ran += 1

    async def _later(self, params: Nothing, call: Call) -> None:
        async def ask() -> None:
            model_call()
            self.ran += 1

        call.after(ask)


def _code(outcome: Outcome) -> str:
    return outcome.error.code if outcome.error else "OK"


def refused(outcome: Outcome) -> KhoError:
    assert outcome.error is not None
    return outcome.error


async def test_writes_are_counted_for_each_key_and_come_back() -> None:
    house = House(writes=2)
    assert await house.codes("put", 2) == ["OK", "OK"]
    error = refused(await house.call("drop"))
    assert (error.code, error.status, error.rpc) == ("RATE_LIMITED", 429, -32029)
    assert error.details == {"limit": "writes", "setting": "KHO_LIMITS__WRITES", "retry_after": 30}
    assert error.message == (
        "The limit of 2 writes in a minute of one key is reached. Nothing was done. Try again in 30 seconds."
    )
    assert "KHO_LIMITS__WRITES" in error.guidance
    assert house.ran == 2
    assert await house.codes("look", 5) == ["OK"] * 5
    assert await house.codes("put", 2, BOB) == ["OK", "OK"]
    house.ticks.now += 29
    assert await house.codes("put", 1) == ["RATE_LIMITED"]
    house.ticks.now += 1
    assert await house.codes("put", 2) == ["OK", "RATE_LIMITED"]


async def test_this_machine_s_user_has_no_limits() -> None:
    house = House(requests=1, writes=1, model_calls=1, calls_at_once=1, calls_waiting=0, streams=1)
    assert await house.codes("put", 5, LOCAL) == await house.codes("ask", 5, LOCAL) == ["OK"] * 5
    house.door.clear()
    calls = [asyncio.ensure_future(house.call("look", LOCAL)) for _ in range(5)]
    for _ in range(20):
        await asyncio.sleep(0)
    assert house.ran == 15
    house.door.set()
    assert [_code(one) for one in await asyncio.gather(*calls)] == ["OK"] * 5
    for _ in range(5):
        house.limiter.request(LOCAL)
        house.limiter.hold("streams", LOCAL)


async def test_a_limit_of_0_is_none() -> None:
    house = House(requests=0, writes=0, model_calls=0, calls_at_once=0, streams=0)
    assert await house.codes("put", 50) == await house.codes("ask", 50) == ["OK"] * 50
    for _ in range(50):
        house.limiter.request(ANN)
        house.limiter.hold("streams", ANN)


async def test_calls_of_a_model_are_counted_where_they_are_made() -> None:
    house = House(model_calls=2)
    assert await house.codes("ask", 3) == ["OK", "OK", "RATE_LIMITED"]
    assert refused(await house.call("ask")).details["setting"] == "KHO_LIMITS__MODEL_CALLS"
    assert CURRENT.get() is None


async def test_work_after_the_answer_is_nobody_s() -> None:
    house = House(model_calls=1)
    assert await house.codes("later", 5) == ["OK"] * 5
    await house.background.drain()
    assert house.ran == 5


async def test_anonymous_callers_share_one_allowance() -> None:
    house = House(requests=2)
    anybody = Principal("anonymous", "acme", frozenset(), "anonymous")
    house.limiter.request(anybody)
    house.limiter.request(replace(anybody, sub="other"))
    with pytest.raises(TooManyRequests):
        house.limiter.request(anybody)
    house.limiter.request(ANN)


async def flood(house: House, principals: Sequence[Principal]) -> list["asyncio.Task[Outcome]"]:
    house.door.clear()
    calls = [asyncio.ensure_future(house.call("look", one)) for one in principals]
    for _ in range(len(calls) + 5):
        await asyncio.sleep(0)
    return calls


async def test_a_tenant_s_flood_waits_in_its_own_line_and_then_is_refused() -> None:
    house = House(calls_at_once=3, calls_waiting=2)
    calls = await flood(house, [ANN, BOB] * 5)
    assert house.ran == 3
    over = [one for one in calls if one.done()]
    assert len(over) == 5
    error = refused(over[0].result())
    assert error.details == {"limit": "calls_waiting", "setting": "KHO_LIMITS__CALLS_WAITING", "retry_after": 1}
    others = await flood(house, [EVE] * 3)
    assert house.ran == 6, "another tenant's calls begin at once"
    house.door.set()
    done = await asyncio.gather(*calls, *others)
    assert [_code(one) for one in done].count("OK") == 8
    assert house.ran == 8
    assert await house.codes("look", 5) == ["OK"] * 5


async def test_waiting_calls_are_run_in_order() -> None:
    house, order = House(calls_at_once=1, calls_waiting=9), list[int]()

    async def ask(number: int) -> None:
        await house.call("look")
        order.append(number)

    house.door.clear()
    asked = [asyncio.ensure_future(ask(number)) for number in range(6)]
    await asyncio.sleep(0)
    house.door.set()
    await asyncio.gather(*asked)
    assert order == list(range(6))


async def test_a_call_that_is_given_up_leaves_its_place() -> None:
    house = House(calls_at_once=1, calls_waiting=1)
    running, waiting = await flood(house, [ANN, ANN])
    waiting.cancel()
    await asyncio.wait({waiting})
    [next_one] = await flood(house, [BOB])
    assert not next_one.done(), "the place in line is free again"
    running.cancel()
    await asyncio.wait({running})
    house.door.set()
    assert _code(await next_one) == "OK"
    assert await house.codes("look", 3) == ["OK"] * 3


async def test_nobody_waits_longer_than_the_setting_says() -> None:
    house = House(calls_at_once=1, calls_waiting=5, calls_patience=0.001)
    running, *waiting = await flood(house, [ANN, ANN, ANN])
    for one in waiting:
        error = refused(await one)
        assert error.details == {"limit": "calls_at_once", "setting": "KHO_LIMITS__CALLS_AT_ONCE", "retry_after": 1}
    house.door.set()
    assert _code(await running) == "OK"
    assert await house.codes("look", 3) == ["OK"] * 3


async def test_no_call_of_a_key_lasts_for_ever() -> None:
    house = House(call_seconds=0.001, calls_at_once=1)
    [endless] = await flood(house, [ANN])
    assert _code(await endless) == "TIMEOUT"
    house.door.set()
    assert await house.codes("look", 3, BOB) == ["OK"] * 3, "its place is free again"


async def test_what_lasts_is_counted_while_it_is_open() -> None:
    limiter = House(streams=2).limiter
    one, other = limiter.hold("streams", ANN), limiter.hold("streams", ANN)
    with one, other:
        with pytest.raises(TooManyRequests, match="2 event streams and subscriptions open of one key"):
            limiter.hold("streams", ANN)
        with limiter.hold("streams", BOB):
            pass
    with limiter.hold("streams", ANN):
        pass


async def test_the_memory_of_callers_is_bounded_and_keeps_who_has_something_open() -> None:
    limiter = House(requests=1, streams=1).limiter
    limiter.request(ANN)
    with limiter.hold("streams", BOB):
        for number in range(KNOWN + 5):
            limiter.request(replace(EVE, key=f"n{number}"))
        with pytest.raises(TooManyRequests):
            limiter.hold("streams", BOB)
        limiter.request(ANN)  # silent for longest: forgotten
