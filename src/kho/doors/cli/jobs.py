"""Jobs that continue after the answer. They end with the process that runs them, so a command waits for its own."""

import asyncio
from dataclasses import replace
from typing import Any, cast

from kho.doors.cli.context import Program
from kho.kernel.call import Progress
from kho.kernel.hub import Hub
from kho.kernel.registry import Outcome

LOOK_AGAIN = 0.25
"""Seconds between two polls."""
UNDER_WAY = ("queued", "running")


def job_of(outcome: Outcome) -> dict[str, Any]:
    """Return the job in an answer; empty if there is none."""
    value = cast(dict[str, Any], outcome.value) if outcome.error is None else {}
    return value.get("job") or {}


async def followed(hub: Hub, program: Program, method: str, outcome: Outcome, progress: Progress) -> Outcome:
    """Poll `method` until the job is over and return its last answer; the given outcome if no job is running."""
    partly = outcome.operation.failed_in_part
    while (job := job_of(outcome)).get("state") in UNDER_WAY:
        await progress(job["done"], job.get("total"), "Reading")
        await asyncio.sleep(LOOK_AGAIN)
        status = replace(hub.registry.methods[method], failed_in_part=partly)
        outcome = await hub.registry.call(status, {"job_id": job["job_id"]}, program.call())
    return outcome
