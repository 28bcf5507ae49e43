"""A run that begins with games of agents: its worker is killed among them, and it learns on to a champion of self-play."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from zerofleet.contracts.records import decode_record
from zerofleet.storage.game_log import GameLog

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1100)]  # a machine that is loaded takes minutes

GAMES = 60
WORDS = [
    word
    for item in (
        f"warm_start.games={GAMES}",
        "warm_start.agents=alpha_beta:2,random",
        "warm_start.policy=one_hot",
        "warm_start.winner_only=true",
        "warm_start.parallel=2",
        "train.min_samples=100",
        "train.samples_per_candidate=300",
        "gate.mode=off",
        "gate.ladder_games=0",
    )
    for word in ("--set", item)
]


async def test_a_run_learns_from_agents_first_and_then_from_self_play(
    start_run: Callable[..., AbstractAsyncContextManager[Any]], check_promises: Callable[..., Any]
) -> None:
    async with start_run("--seed", "1", *WORDS, crash_at="worker_before_publish:3") as run:
        await run.until("worker-0 was killed by SIGKILL; restarting")
        await run.until("candidate 1 promoted: first champion")
        await run.until(r"candidate [2-9] promoted")
        text = await run.end()
    assert run.process.returncode == 0, text
    await check_promises(run.paths)
    with GameLog.open(run.paths.replay, writer=False) as log:
        records = [decode_record(logged.payload) for logged in log.scan()]
    of_agents = [record for record in records if record.seat_agents]
    assert records[:GAMES] == of_agents  # all of them came before the first game of self-play
    first_seats = Counter(record.seat_agents[0] for record in of_agents)
    assert first_seats == {"alpha_beta:2": GAMES // 2, "random": GAMES // 2}
    for record in of_agents:
        winners = {seat for seat in (0, 1) if record.scores[seat] > 0}
        assert {move.ply % 2 for move in record.searched} == winners
