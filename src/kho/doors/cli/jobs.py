"""Jobs that go on behind an answer. They end with the process that runs them, so a command waits for its own."""

import asyncio
from typing import Any, cast

from kho.doors.cli.context import Program
from kho.kernel.call import Progress
from kho.kernel.hub import Hub
from kho.kernel.registry import Outcome

LOOK_AGAIN = 0.25
"""Seconds."""
UNDER_WAY = ("queued", "running")


def job_of(outcome: Outcome) -> dict[str, Any]:
    """The job in an answer; nothing where there is none."""
    value = cast(dict[str, Any], outcome.value) if outcome.error is None else {}
    return value.get("job") or {}


async def followed(hub: Hub, program: Program, method: str, outcome: Outcome, progress: Progress) -> Outcome:
    """The answer itself if it is the last word; else that of `method` once the job is over."""
    while (job := job_of(outcome)).get("state") in UNDER_WAY:
        await progress(job["done"], job.get("total"), "Reading")
        await asyncio.sleep(LOOK_AGAIN)
        outcome = await hub.registry.call(hub.registry.methods[method], {"job_id": job["job_id"]}, program.call())
    return outcome
