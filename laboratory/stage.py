"""`python -m laboratory.stage FOLDER [PARENT]`: run one stage of a reproduction, read as JSON from standard input.

A line of JSON is written for each event: `progress` with the share done, and at last `result`. Checkpoints of training lie in
`FOLDER/networks/<stage>`, where later stages find the network. With the process id of its parent it ends with it: two processes
would otherwise write the same checkpoints after a reproduction was killed and begun again.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import games
from games.core import Game
from laboratory import alphazero
from laboratory.accuracy import judge_accuracy
from laboratory.benches import run_bench
from laboratory.learner_training import LearnerTraining
from laboratory.measures import trained_measures
from laboratory.meetings import Side, Table, meet
from laboratory.sarsa import SarsaTraining
from laboratory.stored import stored_side
from laboratory.td import TdTraining
from laboratory.value_training import ValueTraining, judgements
from zerofleet.errors import Diverged
from zerofleet.presets.theses.stages import (
    AccuracyStage,
    AlphaZeroStage,
    BenchStage,
    LearnerStage,
    MatchStage,
    Meeting,
    SarsaStage,
    Stage,
    TdStage,
    read_stage,
)
from zerofleet.service import logs
from zerofleet.service.process_end import end_with
from zerofleet.storage.files import atomic_publish
from zerofleet.strength.claims.tallies import Tally
from zerofleet.strength.claims.verdicts import DIVERGED

__all__ = ["main", "run_stage"]

_REPORT_EVERY_S = 0.5
_JUDGED = "judged.json"
Emit = Callable[[float, str], None]
_Trained: TypeAlias = TdStage | SarsaStage | LearnerStage


def main() -> int:
    """Run the stage and return the exit code. `cpu_seconds` of the result are those of this process and its children."""
    if sys.argv[2:] and not end_with(int(sys.argv[2])):
        return 1
    stage = read_stage(sys.stdin.read())
    logs.configure("warning", "auto", "laboratory")
    result = asyncio.run(run_stage(stage, Path(sys.argv[1]), emit=_progress))
    _write({"event": "result", **result, "cpu_seconds": round(sum(os.times()[:4]), 1)})
    return 0


async def run_stage(stage: Stage, folder: Path, *, emit: Emit) -> dict[str, Any]:
    """Return the result of a stage: tallies, and what its kind adds. Raises the errors of its kind, `Diverged` excepted.

    The result of a training that diverged has the reason, and the judgements before.
    Cancellation: training continues from its last checkpoint when the stage is run again; everything else is repeated.
    """
    if isinstance(stage, BenchStage):
        return await run_bench(stage)
    if isinstance(stage, AccuracyStage):
        return await judge_accuracy(stage, folder, emit=emit)
    if isinstance(stage, MatchStage):
        return await _match(stage, folder, emit)
    home = folder / "networks" / stage.id
    home.mkdir(parents=True, exist_ok=True)
    if isinstance(stage, AlphaZeroStage):
        return await alphazero.train(stage, home, emit=emit)
    kept = _judged_before(home)
    try:
        return await _trained(stage, home, kept, emit)
    except Diverged as error:
        return _judged(stage, kept) | {DIVERGED: str(error)}


async def _trained(stage: _Trained, home: Path, kept: dict[str, dict[str, Any]], emit: Emit) -> dict[str, Any]:
    """Train, and judge at each place; `kept` has the judgements so far, which lie beside the checkpoints."""
    game = games.make(stage.game, **stage.parameters)
    training = _training(stage, game, home)
    began_s = time.process_time()
    training_s = 0.0
    for place in judgements(stage):
        started_s = time.process_time()
        training.train_to(place, on_games=lambda _: emit(training.games / stage.games, f"{training.games:,} games"))
        training_s += time.process_time() - started_s
        if str(place) not in kept:
            side = Side(game, training.evaluator)
            table = Table(game=game, seed=stage.seed, at=place, trained=True, sides={"subject": side})
            plays = place == stage.games or not (isinstance(stage, LearnerStage) and stage.meet_at_end)
            tallies = await _meet_all(
                stage.meetings if plays else (),
                table,
                lambda share: emit(training.games / stage.games, f"{training.games:,} games, {share:.0%} of their judgement"),
            )
            kept[str(place)] = {"tallies": [tally.as_json() for tally in tallies], "row": training.row()}
            atomic_publish(home / _JUDGED, json.dumps(kept))
        elif training.games == place:
            training.row()  # the checkpoint was written before its measures were taken
    if isinstance(training, LearnerTraining):  # the last checkpoint of others has the network
        training.publish()
    found = _judged(stage, kept)
    seconds = {"training": round(training_s, 1), "all": round(time.process_time() - began_s, 1)}
    totals = {"games": training.games, "cpu_seconds_of_this_call": seconds}
    return found | {"measures": trained_measures(found["curve"]), "totals": totals}


def _judged(stage: _Trained, kept: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the tallies of the judgements so far, and the measures of each."""
    judged = [kept[str(place)] for place in judgements(stage) if str(place) in kept]
    return {
        "tallies": [tally for one in judged for tally in one["tallies"]],
        "curve": [one["row"] for one in judged if one["row"]],
    }


def _training(stage: _Trained, game: Game, home: Path) -> ValueTraining | LearnerTraining:
    if isinstance(stage, TdStage):
        return TdTraining(stage, game, home)
    return SarsaTraining(stage, game, home) if isinstance(stage, SarsaStage) else LearnerTraining(stage, game, home)


async def _match(stage: MatchStage, folder: Path, emit: Emit) -> dict[str, Any]:
    game = games.make(stage.game, **stage.parameters)
    other = stage.parameters if stage.opponent_parameters is None else stage.opponent_parameters
    tallies: list[Tally] = []
    for number, meeting in enumerate(stage.meetings):
        sides = {}
        if meeting.subject_network:
            sides["subject"] = stored_side(game, folder / "networks", meeting.subject_network)
        if meeting.opponent_network:
            game_of_other = games.make(stage.game, **other)
            sides["opponent"] = stored_side(game_of_other, folder / "networks", meeting.opponent_network)
        table = Table(game=game, seed=stage.seed, sides=sides, trained=bool(sides))

        def within(share: float, number: int = number) -> None:
            emit((number + share) / len(stage.meetings), stage.meetings[number].name)

        tallies += await _meet_all((meeting,), table, within)
    return {"tallies": [tally.as_json() for tally in tallies]}


async def _meet_all(meetings: tuple[Meeting, ...], table: Table, emit: Callable[[float], None]) -> list[Tally]:
    total = sum(meeting.games * len(meeting.seats) for meeting in meetings)
    played = 0

    def count() -> None:
        nonlocal played
        played += 1
        emit(played / total)

    return [tally for meeting in meetings for tally in await meet(meeting, table, on_game=count)]


def _judged_before(home: Path) -> dict[str, dict[str, Any]]:
    path = home / _JUDGED
    return dict(json.loads(path.read_text("utf-8"))) if path.exists() else {}


_reported_s = -_REPORT_EVERY_S


def _progress(share: float, remark: str) -> None:
    """Write the progress, at most every `_REPORT_EVERY_S`."""
    global _reported_s  # noqa: PLW0603 - one process runs one stage
    now_s = time.monotonic()
    if now_s - _reported_s >= _REPORT_EVERY_S:
        _reported_s = now_s
        _write({"event": "progress", "share": share, "remark": remark})


def _write(event: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(event, allow_nan=False) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
