"""Accuracy of agents and of networks of earlier stages: their moves in deciding positions, against perfect play.

The positions are those of `zerofleet.strength.learning.positions`, half of random games, half of games of a shallow search.
They depend on the game, their number and the seed alone, so that the seeds of an experiment are independent and its arms have
the same positions; they are scored once, and lie in `positions` in the folder of the reproduction.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import games
from laboratory.stored import stored_side
from zerofleet.agents import make_agent
from zerofleet.presets.theses.stages import AccuracyStage
from zerofleet.strength.accuracy import agent_chooser
from zerofleet.strength.claims.tallies import Tally
from zerofleet.strength.learning.positions import ScoredPosition, kept_positions, stored_positions

__all__ = ["PERFECT", "judge_accuracy"]

PERFECT = "perfect play"


async def judge_accuracy(stage: AccuracyStage, folder: Path, *, emit: Callable[[float, str], None]) -> dict[str, Any]:
    """Return a tally for each meeting: the score is 1 where the subject's move keeps the value of the position, else -1.

    Args:
        stage: The stage; `games` of a meeting are positions.
        folder: Folder of the reproduction.
        emit: Called with the share of the meetings done and a remark.

    Raises `InvalidRequest` for a game that cannot be solved or an agent that does not play it, `ModelNotFound`. Cancellation:
    the positions are kept if they are complete.
    """
    tallies: list[Tally] = []
    game = games.make(stage.game, **stage.parameters)
    for number, meeting in enumerate(stage.meetings):
        emit(number / len(stage.meetings), meeting.name)
        path = await asyncio.to_thread(
            kept_positions, folder / "positions", game, count=meeting.games, seed=stage.positions_seed + stage.seed
        )
        network = stored_side(game, folder / "networks", meeting.subject_network) if meeting.subject_network else None
        agent = make_agent(meeting.subject, game, evaluate=network.evaluator if network else None)
        positions = stored_positions(path)
        moves = await agent_chooser(game, agent, seed=stage.seed)([position.moves for position in positions])
        tally = Tally(
            meeting=meeting.name,
            subject=meeting.subject,
            opponent=PERFECT,
            seat=1,
            seed=stage.seed,
            trained=network is not None,
            scores=_scores(positions, moves),
        )
        tallies.append(tally)
    return {"tallies": [tally.as_json() for tally in tallies]}


def _scores(positions: list[ScoredPosition], moves: list[int]) -> dict[str, int]:
    kept = Counter(position.keeps_value(move) for position, move in zip(positions, moves, strict=True))
    return {score: kept[keeps] for score, keeps in (("-1", False), ("1", True)) if kept[keeps]}
