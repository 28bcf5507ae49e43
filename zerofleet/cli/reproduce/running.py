"""Running of stages: a process each, several at a time, in order, after the stages that they need."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zerofleet.cli.laboratory import events
from zerofleet.cli.reproduce.results import StageResults
from zerofleet.errors import Unavailable
from zerofleet.presets.theses.planning import Planned
from zerofleet.rpc.calls import all_of
from zerofleet.strength.claims.verdicts import DIVERGED

__all__ = ["Progress", "Schedule", "run_stages"]

_POLL_S = 0.2


@dataclass(slots=True)
class Schedule:
    """Stages of a call and their states."""

    waiting: list[Planned]
    deadline_s: float | None = None
    """`time.monotonic` after which no stage begins; None: no limit."""
    complete: set[str] = field(default_factory=set)
    left_out: list[str] = field(default_factory=list)
    """Stages that did not begin for lack of time, or because a stage that they need did not."""
    diverged: dict[str, str] = field(default_factory=dict)
    """Complete stages whose training diverged, or that need such a stage, with the reason."""

    def next(self) -> Planned | None:
        """Remove and return the first stage whose needs are complete; None if there is none at present."""
        if self.deadline_s is not None and time.monotonic() > self.deadline_s:
            self.left_out += [planned.stage.id for planned in self.waiting]
            self.waiting.clear()
        for place, planned in enumerate(self.waiting):
            if self.complete.issuperset(planned.needs):
                return self.waiting.pop(place)
        return None

    def note(self, stage: str, diverged: str | None) -> None:
        """Count a complete stage; `diverged`: the reason, if its training diverged."""
        self.complete.add(stage)
        if diverged:
            self.diverged[stage] = diverged


@dataclass(slots=True)
class Progress:
    """Work of a call's stages, in the seconds that are expected of it on one core."""

    total_s: float
    _done_s: dict[str, float] = field(default_factory=dict)
    _before_s: dict[str, float] = field(default_factory=dict)

    @property
    def done_s(self) -> float:
        """Work that is done, by earlier calls as well."""
        return sum(self._done_s.values())

    def note(self, planned: Planned, share: float) -> None:
        """Set the share of a stage that is done. The first one is the work of earlier calls: 0 where none began the stage."""
        stage, done_s = planned.stage.id, share * planned.seconds
        self._before_s.setdefault(stage, done_s)
        self._done_s[stage] = max(done_s, self._done_s.get(stage, 0.0))

    def left_s(self, passed_s: float) -> float | None:
        """Return the expected wall-clock time left, `passed_s` after the beginning; None before anything was done."""
        here_s = self.done_s - sum(self._before_s.values())
        return passed_s * (self.total_s - self.done_s) / here_s if here_s > 0.0 else None


async def run_stages(
    schedule: Schedule, results: StageResults, *, jobs: int, on_progress: Callable[[Planned, float, str], None]
) -> None:
    """Run stages, at most `jobs` at a time, and keep each result when it is complete.

    A stage whose training diverges is complete with that result, and so are the stages that need its network. `on_progress` is
    called with a stage, the share of it that is done and a remark. Raises `Unavailable` with the last lines of
    a stage that failed. Cancellation: running stages are ended; their training continues in the next call.
    """

    async def work() -> None:
        while schedule.waiting:
            planned = schedule.next()
            if planned is None:
                await asyncio.sleep(_POLL_S)  # another worker runs a stage that is needed
                continue
            began_s = time.monotonic()
            results.begin(planned.stage)
            if not results.was_begun(planned.stage):
                on_progress(planned, 0.0, "begun")
            lost = [f"it needs {name}: {schedule.diverged[name]}" for name in planned.needs if name in schedule.diverged]
            found = _without_network(lost[0]) if lost else await _run(planned, results.folder, on_progress)
            results.keep(planned.stage, found, seconds=time.monotonic() - began_s)
            schedule.note(planned.stage.id, found.get(DIVERGED))
            on_progress(planned, 1.0, "diverged" if DIVERGED in found else "complete")

    await all_of(work() for _ in range(jobs))


def _without_network(reason: str) -> dict[str, Any]:
    return {"tallies": [], DIVERGED: reason, "cpu_seconds": 0.0}


async def _run(planned: Planned, folder: Path, on_progress: Callable[[Planned, float, str], None]) -> dict[str, Any]:
    result: dict[str, Any] | None = None
    name, request = f"stage {planned.stage.id}", planned.stage.model_dump_json()
    async with events(name, "laboratory.stage", str(folder), str(os.getpid()), request=request) as found:
        async for event in found:
            if event.pop("event") == "result":
                result = event
            else:
                on_progress(planned, min(0.99, event["share"]), event["remark"])
    if result is None:
        raise Unavailable(f"{name} ended without a result")
    return result
