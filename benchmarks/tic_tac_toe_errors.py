"""Errors of a network of tic-tac-toe in training, counted in all positions, and its exact results by seat.

    $ python -m benchmarks.tic_tac_toe_errors --arm stable --seed 0 --set selfplay.opening_plies=0

A stage of `zerofleet reproduce tictactoe_take6_rps` is trained by its own loop. At each judgement the network chooses a move in
each of the 4,520 positions that play can reach, by its policy alone and with simulations. A move that lowers the value under
perfect play is an error. A chosen move depends on its position alone, so that games against a player with known probabilities
are summed over all lines, without sampling.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

import games
from games import core
from games.core import Game, State
from games.positions import legal, new_state
from laboratory.loop import Event, Loop
from zerofleet.agents.by_game.tic_tac_toe import TicTacToeRulesAgent
from zerofleet.agents.exact.perfect import PerfectAgent
from zerofleet.evaluators.base import Evaluator
from zerofleet.presets.theses.catalogue import load_thesis
from zerofleet.presets.theses.planning import plan
from zerofleet.presets.theses.stages import AlphaZeroStage
from zerofleet.presets.trial import Trial
from zerofleet.service import logs
from zerofleet.strength.accuracy import model_chooser
from zerofleet.strength.learning.judges import Measure

__all__ = ["Census", "ErrorJudge", "main"]

THESIS, EXPERIMENT = "tictactoe_take6_rps", "tic_tac_toe"

Policy: TypeAlias = Callable[[State], np.ndarray]
"""Returns the probabilities of the legal actions, in their order."""


@dataclass(frozen=True, slots=True)
class Position:
    """Position in which a player moves."""

    moves: tuple[int, ...]
    """One line that leads to it."""
    keeping: frozenset[int]
    """Actions that keep its value."""
    decides: bool
    """Whether some action does not."""


class Census:
    """All unfinished positions of the game, and the results of a player whose move in each is given."""

    def __init__(self, game: Game) -> None:
        """Enumerate the positions from the start."""
        self._game = game
        self.perfect = PerfectAgent(game)
        self.positions: list[Position] = []
        self._index: dict[bytes, int] = {}
        self._enumerate(new_state(game), ())

    def errors(self, chosen: Sequence[int]) -> list[int]:
        """Return the indices of the positions in which the chosen action does not keep the value."""
        return [i for i, (one, action) in enumerate(zip(self.positions, chosen, strict=True)) if action not in one.keeping]

    def result(self, chosen: Sequence[int], seat: int, opponent: Policy) -> tuple[np.ndarray, set[int]]:
        """Return the probabilities of win, draw and loss, float64 [3], and the own positions that occur.

        Args:
            chosen: Action of the player, one per position.
            seat: Seat of the player, from 0.
            opponent: Policy of the other player.
        """
        met: set[int] = set()
        return self._result(new_state(self._game), chosen, seat, opponent, met), met

    def _enumerate(self, state: State, moves: tuple[int, ...]) -> None:
        if core.is_over(self._game, state) or state.tobytes() in self._index:
            return
        self._index[state.tobytes()] = len(self.positions)
        searched = self.perfect.analyse(state)
        keeping = frozenset(int(action) for action in searched.best())
        self.positions.append(Position(moves, keeping, len(keeping) < len(searched.actions)))
        for action in legal(self._game, state):
            self._enumerate(self._after(state, action), (*moves, action))

    def _result(self, state: State, chosen: Sequence[int], seat: int, opponent: Policy, met: set[int]) -> np.ndarray:
        if core.is_over(self._game, state):
            scores = np.empty(2, np.float32)
            core.scores(self._game, state, scores)
            ended: np.ndarray = np.eye(3)[1 - int(scores[seat])]
            return ended
        if core.to_move(self._game, state) == seat:
            index = self._index[state.tobytes()]
            met.add(index)
            return self._result(self._after(state, chosen[index]), chosen, seat, opponent, met)
        total = np.zeros(3)
        for action, share in zip(legal(self._game, state), opponent(state), strict=True):
            if share > 0.0:
                total += share * self._result(self._after(state, action), chosen, seat, opponent, met)
        return total

    def _after(self, state: State, action: int) -> State:
        after = state.copy()
        core.play(self._game, after, action)
        return after


class ErrorJudge:
    """Judge that prints the errors and results of a version; see `zerofleet.strength.learning.judges.Judge`."""

    def __init__(self, game: Game, simulations: int) -> None:
        self._game = game
        self._census = Census(game)
        self._rules = TicTacToeRulesAgent(game)
        self._simulations = simulations
        self.latest: list[str] = []
        """Lines of the last judgement."""

    async def judge(self, evaluator: Evaluator, version: int) -> list[Measure]:
        """Judge the policy alone and with simulations. Cancellation: nothing is kept."""
        self.latest = []
        for simulations in (0, self._simulations):
            choose = model_chooser(self._game, evaluator, version=version, simulations=simulations, seed=0)
            self.latest += self._lines(
                f"{simulations} simulations", await choose([one.moves for one in self._census.positions])
            )
        return []

    def _lines(self, name: str, chosen: list[int]) -> list[str]:
        census, game = self._census, self._game
        errors = set(census.errors(chosen))
        deciding = sum(one.decides for one in census.positions)
        lines = [f"{name}: {len(errors)} errors in all {deciding} deciding positions"]
        for seat in range(2):
            _, met = census.result(chosen, seat, lambda state: np.ones(len(legal(game, state))) / len(legal(game, state)))
            perfect, _ = census.result(chosen, seat, lambda state: census.perfect.policy(game, state))
            rules, _ = census.result(chosen, seat, lambda state: self._rules.policy(game, state))
            won, drawn, lost = 100.0 * rules
            lines.append(
                f"  seat {seat + 1}: {len(errors & met)} errors in the {len(met)} positions that it can meet; "
                f"{100.0 * perfect[2]:.1f} % lost to perfect; against rules {won:.1f} / {drawn:.1f} / {lost:.1f} %"
            )
        return lines


def main() -> None:
    """Train an arm and print the errors at each judgement."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--arm", default="stable", help="arm of the experiment (default: stable)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the training (default: 0)")
    parser.add_argument("--samples", type=int, default=150_000, help="budget in samples (default: 150000)")
    parser.add_argument("--judge-every", type=int, default=50_000, help="samples between judgements (default: 50000)")
    parser.add_argument("--simulations", type=int, default=25, help="simulations of the judged player (default: 25)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="setting in place of the arm's")
    arguments = parser.parse_args()
    stages = {one.arm: one.stage for one in plan(load_thesis(THESIS), "full", seeds=1, only=[EXPERIMENT])}
    if arguments.arm not in stages:
        parser.error(f"no arm {arguments.arm}; there are {', '.join(stages)}")
    stage = stages[arguments.arm]
    if not isinstance(stage, AlphaZeroStage):
        raise TypeError(f"arm {arguments.arm} is a stage of the kind {stage.kind}; want alphazero")
    logs.configure("warning", "auto", "benchmark")
    game = games.make(stage.game, **stage.parameters)
    judge = ErrorJudge(game, arguments.simulations)

    def on_event(event: Event) -> None:
        if event["event"] == "judgement":
            first = f"{event['games']:,} games, {event['cpu_seconds_used']:.0f} processor seconds"
            sys.stdout.write("\n".join([first, *judge.latest]) + "\n")
            sys.stdout.flush()

    trial = Trial(
        game=stage.game,
        preset=stage.preset,
        parameters=stage.parameters,
        settings=stage.settings | dict(one.split("=", 1) for one in arguments.set),
        seed=arguments.seed,
        samples=arguments.samples,
        judge_every=arguments.judge_every,
        simulations=arguments.simulations,
    )
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(Loop(trial, Path(folder), judge=judge, emit=on_event).run())


if __name__ == "__main__":
    main()
