"""`python -m laboratory FOLDER [PARENT]`: run one trial, read as JSON from standard input, in an empty run directory.

A line of JSON is written for each event. With the process id of its parent it ends with it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from games.core import Game
from laboratory.loop import Event, Loop
from zerofleet.presets.trial import Trial
from zerofleet.service import logs
from zerofleet.service.process_end import end_with
from zerofleet.strength.learning.judges import Judge, MatchJudge, PerfectJudge
from zerofleet.strength.learning.positions import stored_positions

__all__ = ["main"]


def main() -> int:
    """Run the trial and return the exit code."""
    if sys.argv[2:] and not end_with(int(sys.argv[2])):
        return 1
    trial = Trial.model_validate_json(sys.stdin.read())
    logs.configure("warning", "auto", "laboratory")
    asyncio.run(Loop(trial, Path(sys.argv[1]), judge=judge_of(trial, trial.build_game()), emit=_emit).run())
    return 0


def judge_of(trial: Trial, game: Game) -> Judge:
    """Return the judge of a trial: perfect play if it has positions, else its opponents."""
    if trial.positions:
        return PerfectJudge(game, stored_positions(Path(trial.positions)), simulations=trial.simulations)
    return MatchJudge(
        game,
        trial.opponents,
        games=trial.games,
        simulations=trial.simulations,
        seed=trial.judge_seed,
        opening_plies=trial.build_preset().gate.opening_plies,
    )


def _emit(event: Event) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
