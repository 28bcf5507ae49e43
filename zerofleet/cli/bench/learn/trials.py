"""Trials as processes: one for each seed, several at a time, with their events."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from zerofleet.cli.laboratory import events
from zerofleet.presets.trial import Trial
from zerofleet.rpc.calls import all_of

__all__ = ["TrialResult", "run_trials"]


@dataclass(slots=True)
class TrialResult:
    """Events of one trial so far."""

    seed: int
    judgements: list[dict[str, Any]] = field(default_factory=list)
    end: dict[str, Any] | None = None
    """Totals, and a hash of the weights; None while the trial runs."""

    def as_json(self) -> dict[str, Any]:
        """Return the fields."""
        return {"seed": self.seed, "judgements": self.judgements, "end": self.end}


async def run_trials(
    trials: Sequence[Trial], *, jobs: int, on_event: Callable[[TrialResult, dict[str, Any]], None]
) -> list[TrialResult]:
    """Run trials, at most `jobs` at a time, and return their results in order; `on_event` is called after each event.

    Raises `Unavailable` with the last lines of a trial that failed. Cancellation: running trials are ended. In each case their
    run directories are removed.
    """
    results = [TrialResult(trial.seed) for trial in trials]
    free = asyncio.Semaphore(jobs)

    async def run(trial: Trial, result: TrialResult) -> None:
        async with free:
            with tempfile.TemporaryDirectory(prefix="zerofleet-learn-") as directory:  # a killed trial leaves its own
                await _run(trial, result, directory, on_event)

    await all_of(run(trial, result) for trial, result in zip(trials, results, strict=True))
    return results


async def _run(
    trial: Trial, result: TrialResult, directory: str, on_event: Callable[[TrialResult, dict[str, Any]], None]
) -> None:
    command = ("laboratory", directory, str(os.getpid()))
    async with events(f"the trial of seed {trial.seed}", *command, request=trial.model_dump_json()) as found:
        async for event in found:
            kind = event.pop("event")
            if kind == "judgement":
                result.judgements.append(event)
            elif kind == "end":
                result.end = event
            on_event(result, {"kind": kind, **event})
