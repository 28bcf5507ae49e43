"""Evaluations that outlast their server: a lane waits for it, and only games of a version that is gone come to an end."""

from __future__ import annotations

import asyncio
import random
import time

import numpy as np
import structlog

from selfplay_worker.champion import AdoptedModel
from zerofleet import metrics
from zerofleet.errors import CorruptModel, ModelNotFound, Overloaded, Unavailable
from zerofleet.evaluators.base import Evaluation, Evaluator, LeafBatch, ModelVersion
from zerofleet.evaluators.fakes import uniform_policy
from zerofleet.search import Leaves

__all__ = ["PatientEvaluator"]

FIRST_PAUSE_S = 0.05
MAX_PAUSE_S = 2.0

log = structlog.get_logger()


class PatientEvaluator:
    """Asks until there is an answer, shared by the lanes of a worker."""

    def __init__(self, evaluator: Evaluator, adopted: AdoptedModel, *, players: int, rng: random.Random) -> None:
        self._evaluator = evaluator
        self._adopted = adopted
        self._players = players
        self._rng = rng
        self._network = metrics.EVALUATIONS.labels(source="network")
        self._away = False

    async def answers(self, leaves: Leaves) -> tuple[np.ndarray, np.ndarray, set[int]]:
        """Return policy float16 [B, L], value float32 [B, P], and the versions nobody serves any more.

        Leaves of such a version get a uniform answer, which must not decide a move: drop their games.
        Cancellation: the leaves still wait; ask again.
        """
        batch, versions = leaves.batch, leaves.versions
        policy = uniform_policy(batch.legal)
        value = np.zeros((len(batch), self._players), dtype=np.float32)
        wanted = [int(version) for version in np.unique(versions)]
        if not wanted:
            return policy, value, set()
        if len(wanted) == 1:
            answer = await self._ask(batch, wanted[0])
            return (policy, value, set(wanted)) if answer is None else (answer.policy, answer.value, set())
        places = [np.flatnonzero(versions == version) for version in wanted]
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._ask(LeafBatch(batch.states[rows], batch.legal[rows]), version))
                for rows, version in zip(places, wanted, strict=True)
            ]
        gone = set()
        for rows, version, task in zip(places, wanted, tasks, strict=True):
            found = task.result()
            if found is None:
                gone.add(version)
            else:
                policy[rows], value[rows] = found.policy, found.value
        return policy, value, gone

    async def _ask(self, batch: LeafBatch, version: int) -> Evaluation | None:
        """Return the answer, or None when the version is neither served nor the adopted one."""
        pause_s = FIRST_PAUSE_S
        while True:
            began = time.monotonic()
            try:
                answer = await self._evaluator.evaluate(batch, version=ModelVersion(version))
            except (Unavailable, Overloaded, ModelNotFound, CorruptModel) as error:
                # The adopted version may still be loading. Another one will not come back.
                if isinstance(error, ModelNotFound | CorruptModel) and version != self._adopted.version:
                    log.warning("version.gone", version=version, error=str(error))
                    return None
                self._note_away(error)
                metrics.EVAL_RETRIES.labels(reason=type(error).__name__).inc()
                await asyncio.sleep(self._rng.uniform(pause_s / 2, pause_s))
                pause_s = min(MAX_PAUSE_S, pause_s * 2)
                continue
            self._note_answer(len(batch), time.monotonic() - began)
            return answer

    def _note_away(self, error: Exception) -> None:
        if not self._away:
            log.warning("inference.away", error=str(error))
        self._away = True

    def _note_answer(self, positions: int, seconds: float) -> None:
        if self._away:
            log.info("inference.back")
        self._away = False
        self._network.inc(positions)
        metrics.EVAL_BATCH_SIZE.observe(positions)
        metrics.EVAL_LATENCY.observe(seconds)
