"""SIGKILL of every service in turn, at named points and at random: the run goes on, and no game is lost or counted twice."""

import asyncio
import os
import random
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1100)]  # a machine that is loaded takes minutes

StartRun = Callable[..., AbstractAsyncContextManager[Any]]
CheckPromises = Callable[..., Any]

# One point for each service, so that one start dies three times. All points: tests/trainer/test_process.py,
# tests/gatekeeper/test_crashes.py, tests/streams/test_kill.py and tests/promises.
POINTS = ("stream_before_publish:10", "trainer_after_write_before_ack:3", "gatekeeper_before_promotion")


async def until_killed(run: Any) -> None:
    """Wait until the worker, the trainer and the gatekeeper have died at their points."""
    missing = {"worker-0", "trainer", "gatekeeper"}
    while missing:
        line = await run.until(r"was killed by SIGKILL; restarting")
        missing -= {name for name in missing if name in line}


async def test_services_killed_between_two_effects_with_their_supervisor_and_at_random_moments_lose_nothing(
    start_run: StartRun, check_promises: CheckPromises
) -> None:
    rng = random.Random(20)
    async with start_run(crash_at=",".join(POINTS)) as run:
        await until_killed(run)
        await run.until(r"candidate \d+ (promoted|rejected)")
        run.process.kill()
        await run.rest()  # the services end by themselves: each holds the other end of the lines
    async with start_run() as second:
        victims = ["worker-0", "trainer", "gatekeeper", "inference_server"]
        rng.shuffle(victims)
        for victim in victims:
            await asyncio.sleep(rng.uniform(0.0, 1.5))  # the moment is what is tested
            os.kill(await second.pid_once_announced(victim), signal.SIGKILL)
            await second.until(f"{victim} was killed by SIGKILL; restarting")
        await second.until(r"candidate \d+ (promoted|rejected) against")
        text = await second.end()
    assert second.process.returncode == 0, text
    await check_promises(second.paths)
