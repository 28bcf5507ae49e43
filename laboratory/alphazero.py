"""Training by AlphaZero for a stage: the loop of the laboratory with meetings as its judge.

The loop keeps no checkpoint: a stage that was killed is repeated, and its budget in samples makes the repetition equal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from laboratory.loop import Event, Loop
from laboratory.measures import trained_measures
from laboratory.meetings import Table, meet
from zerofleet.evaluators.base import Evaluator
from zerofleet.presets.theses.stages import AlphaZeroStage
from zerofleet.presets.trial import Trial
from zerofleet.strength.claims.tallies import Tally
from zerofleet.strength.learning.judges import Measure

__all__ = ["train"]


class _Meetings:
    """Judge that plays the meetings of a stage and keeps their tallies; see `zerofleet.strength.learning.judges.Judge`."""

    def __init__(self, stage: AlphaZeroStage, table: Table) -> None:
        self._stage = stage
        self._table = table
        self.latest: list[Tally] = []

    async def judge(self, evaluator: Evaluator, version: int) -> list[Measure]:
        """Play the meetings; the shares of won games are the measures. Cancellation: nothing is kept."""
        table = replace(self._table, version=version, evaluator=evaluator)
        self.latest = [tally for meeting in self._stage.meetings for tally in await meet(meeting, table, on_game=lambda: None)]
        return []


async def train(stage: AlphaZeroStage, folder: Path, *, emit: Callable[[float, str], None]) -> dict[str, Any]:
    """Return the tallies and losses of each judgement, and the totals.

    Args:
        stage: The stage.
        folder: Empty folder for the run.
        emit: Called with the share of the budget spent and a remark.

    Raises the errors of the loop. Cancellation: the stage is lost.
    """
    trial = Trial(
        game=stage.game,
        preset=stage.preset,
        parameters=stage.parameters,
        settings=stage.settings,
        seed=stage.seed,
        samples=stage.samples,
        judge_every=stage.judge_every,
        simulations=0,
    )
    judge = _Meetings(stage, Table(game=trial.build_game(), seed=stage.seed, trained=True, sides={}))
    tallies: list[Tally] = []
    curve: list[dict[str, Any]] = []
    end: dict[str, Any] = {}

    def on_event(event: Event) -> None:
        emit(min(1.0, event["done"] / stage.samples), f"{event['games']:,} games")
        if event["event"] == "judgement":
            tallies.extend(replace(tally, at=event["games"]) for tally in judge.latest)
            curve.append({"games": event["games"], "samples": event["samples"], "losses": event["losses"]})
        elif event["event"] == "end":
            end.update(event)

    await Loop(trial, folder, judge=judge, emit=on_event).run()
    totals = {name: end[name] for name in ("games", "samples", "steps", "evaluations", "cpu_seconds_used", "weights")}
    measures = trained_measures([point["losses"] for point in curve])
    return {"tallies": [tally.as_json() for tally in tallies], "curve": curve, "measures": measures, "totals": totals}
