"""What the limits cost a call that keeps to them, and what a refusal costs, beside the same call without limits.

    python -m bench.limits [--calls 5000] [--rounds 15]

A trivial operation at the registry, without any door. CPU time; the variants take turns, and the best round of each
counts. A call of this machine's user passes no limit: it is the baseline.
"""

import argparse
import asyncio
import time
from collections.abc import Mapping

from pydantic import BaseModel

from kho.kernel.background import Background
from kho.kernel.call import Call, Principal
from kho.kernel.capability import Capability
from kho.kernel.limits.limiter import Limiter
from kho.kernel.limits.settings import LimitSettings
from kho.kernel.operation import Operation
from kho.kernel.registry import Registry

EVERYTHING = frozenset({"*"})
LOCAL = Principal("me", "local", EVERYTHING)
KEY = Principal("bot", "acme", EVERYTHING, "key", key="k1")
MANY = 2**40


class Sum(BaseModel):
    a: int
    b: int


async def add(params: Sum, call: Call) -> int:
    return params.a + params.b


READ = Operation("sums.add", "Adds.", Sum, add, "sums")
WRITE = Operation("sums.keep", "Adds.", Sum, add, "sums", "write")


def registry(**limits: int) -> Registry:
    limiter = Limiter(LimitSettings(**limits))
    return Registry([Capability("sums", "sums-server", (READ, WRITE))], Background(), limiter=limiter)


async def cost(hub: Registry, operation: Operation, principal: Principal, calls: int) -> float:
    began = time.process_time()
    for _ in range(calls):
        await hub.call(operation, {"a": 1, "b": 2}, Call(principal))
    return (time.process_time() - began) / calls


async def measure(calls: int, rounds: int) -> Mapping[str, float]:
    """CPU seconds of a call."""
    open_, full = registry(writes=MANY), registry(writes=1)
    await full.call(WRITE, {"a": 1, "b": 2}, Call(KEY))
    variants = {
        "this machine's user: no limits": (open_, READ, LOCAL),
        "a key's read": (open_, READ, KEY),
        "a key's write": (open_, WRITE, KEY),
        "a key's write that is refused": (full, WRITE, KEY),
    }
    best = dict.fromkeys(variants, float("inf"))
    for _ in range(rounds):
        for name, variant in variants.items():
            best[name] = min(best[name], await cost(*variant, calls))
    return best


async def request_cost(calls: int, rounds: int) -> float:
    """CPU seconds of counting one request, as the HTTP door does before it reads it."""
    limiter, best = Limiter(LimitSettings(requests=MANY)), float("inf")
    for _ in range(rounds):
        began = time.process_time()
        for _ in range(calls):
            limiter.request(KEY)
        best = min(best, (time.process_time() - began) / calls)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=15)
    asked = parser.parse_args()
    found = asyncio.run(measure(asked.calls, asked.rounds))
    baseline = next(iter(found.values()))
    for name, seconds in found.items():
        print(f"{name:32} {seconds * 1e6:7.1f} us  {seconds / baseline:5.2f}")
    counted = asyncio.run(request_cost(asked.calls, asked.rounds))
    print(f"{'counting a request':32} {counted * 1e6:7.1f} us  {counted / baseline:5.2f}")


if __name__ == "__main__":
    main()
