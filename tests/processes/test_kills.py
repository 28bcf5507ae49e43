"""SIGKILL of every service in turn, at named points and at random: the run goes on, and no game is lost or counted twice."""

import asyncio
import os
import random
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

pytestmark = pytest.mark.slow

StartRun = Callable[..., AbstractAsyncContextManager[Any]]
CheckPromises = Callable[..., Any]

# One point for each service, so that one start dies three times; the rooms' own tests go through every point of theirs.
FIRST = ("stream_before_publish:40", "trainer_before_write:3", "gatekeeper_after_epoch_before_champion")
SECOND = ("worker_after_publish:40", "trainer_after_write_before_ack:3", "gatekeeper_before_promotion")
THIRD = ("stream_after_publish:40", "trainer_after_publish_before_checkpoint:2", "gatekeeper_after_result:3")


async def until_killed(run: Any) -> None:
    """Wait until the worker, the trainer and the gatekeeper have died at their points."""
    missing = {"worker-0", "trainer", "gatekeeper"}
    while missing:
        line = await run.until(r"was killed by SIGKILL; restarting")
        missing -= {name for name in missing if name in line}


async def test_services_killed_between_two_effects_and_then_at_random_moments_lose_nothing(
    start_run: StartRun, check_promises: CheckPromises
) -> None:
    rng = random.Random(20)
    async with start_run(crash_at=",".join(FIRST)) as run:
        await until_killed(run)
        victims = ["worker-0", "trainer", "gatekeeper", "inference_server"]
        rng.shuffle(victims)
        for victim in victims:
            await asyncio.sleep(rng.uniform(0.0, 1.5))  # the moment is what is tested
            os.kill(await run.pid_once_announced(victim), signal.SIGKILL)
            await run.until(f"{victim} was killed by SIGKILL; restarting")
        await run.until(r"candidate \d+ (promoted|rejected) against", times=2)
        text = await run.end()
    assert run.process.returncode == 0, text
    assert "first champion" in text
    await check_promises(run.paths)


async def test_the_services_of_a_killed_supervisor_end_and_the_next_run_resumes_whichever_service_dies(
    start_run: StartRun, check_promises: CheckPromises
) -> None:
    async with start_run(crash_at=",".join(SECOND)) as run:
        await until_killed(run)
        await run.until(r"candidate [2-9] (promoted|rejected)")
        run.process.kill()
        await run.rest()
    async with start_run(crash_at=",".join(THIRD)) as second:
        await until_killed(second)
        await second.until(r"candidate \d+ (promoted|rejected) against", times=2)
        text = await second.end()
    assert second.process.returncode == 0, text
    await check_promises(second.paths)
