"""Evaluations that outlast their server: a lane waits for it, and only games of a version that is gone come to an end."""

from __future__ import annotations

import asyncio
import random
import time
from typing import NamedTuple

import numpy as np
import structlog

from games.core import GameSpec
from selfplay_worker.champion import AdoptedModel
from zerofleet import metrics
from zerofleet.errors import CorruptModel, ModelNotFound, Overloaded, Unavailable
from zerofleet.evaluators.base import Evaluation, Evaluator, LeafBatch, ModelVersion
from zerofleet.evaluators.fakes import uniform_policy
from zerofleet.search import Leaves

__all__ = ["Answers", "PatientEvaluator"]

FIRST_PAUSE_S = 0.05
MAX_PAUSE_S = 2.0

log = structlog.get_logger()


class Answers(NamedTuple):
    """What a step's leaves were evaluated to. Leaves of versions that are gone got an answer that must not decide a move."""

    policy: np.ndarray  # float16 [B, L]
    value: np.ndarray  # float32 [B, P]
    heads: tuple[np.ndarray, ...]  # the extra heads asked for, [B, W] each
    gone: set[int]  # versions that nobody serves any more


class PatientEvaluator:
    """Asks until there is an answer, shared by the lanes of a worker."""

    def __init__(self, evaluator: Evaluator, adopted: AdoptedModel, *, spec: GameSpec, rng: random.Random) -> None:
        self._evaluator = evaluator
        self._adopted = adopted
        self._spec = spec
        self._rng = rng
        self._network = metrics.EVALUATIONS.labels(source="network")
        self._away = False

    async def answers(self, leaves: Leaves) -> Answers:
        """Return the evaluations of all leaves; drop the games of those whose version is gone.

        Cancellation: the leaves still wait; ask again.
        """
        batch, versions = leaves.batch, leaves.versions
        answers = self._uniform(batch)
        wanted = [int(version) for version in np.unique(versions)]
        if not wanted:
            return answers
        if len(wanted) == 1:
            answer = await self._ask(batch, wanted[0])
            if answer is None:
                return answers._replace(gone=set(wanted))
            return Answers(answer.policy, answer.value, answer.heads, set())
        places = [np.flatnonzero(versions == version) for version in wanted]
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._ask(LeafBatch(batch.states[rows], batch.legal[rows], batch.heads), version))
                for rows, version in zip(places, wanted, strict=True)
            ]
        for rows, version, task in zip(places, wanted, tasks, strict=True):
            found = task.result()
            if found is None:
                answers.gone.add(version)
                continue
            answers.policy[rows], answers.value[rows] = found.policy, found.value
            for head, found_head in zip(answers.heads, found.heads, strict=True):
                head[rows] = found_head
        return answers

    def _uniform(self, batch: LeafBatch) -> Answers:
        """Return what a network that knows nothing says; an extra head that search asks for is one of all actions."""
        actions = self._spec.num_actions
        heads = tuple(np.full((len(batch), actions), 1.0 / actions, dtype=np.float16) for _ in range(batch.heads))
        value = np.zeros((len(batch), self._spec.num_players), dtype=np.float32)
        return Answers(uniform_policy(batch.legal), value, heads, set())

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
                await asyncio.sleep(self._rng.uniform(pause_s / 2, pause_s))
                metrics.count_eval_retry(error)  # the evaluator gave up and counted only what it sent again itself
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
