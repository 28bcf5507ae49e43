"""Positions under perfect play: the score of every move, and the mistakes of a line of moves.

`zerofleet solve --json` prints these values, and the pages of `zerofleet ui` receive the same ones. Connect Four is solved
exactly by search; another game, where it is small enough for a table of all positions. `require_solvable` refuses the rest
before anything is compiled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import cast

from games import core
from games.connect_four import ConnectFour
from games.core import Game, State
from games.notation import column_name
from games.positions import move_names, parameters_text, replay
from zerofleet.agents.exact.perfect import PerfectAgent, require_small
from zerofleet.agents.exact.solver import Solver, fits, shipped_book
from zerofleet.agents.exact.solver.table import MIN_BITS
from zerofleet.library.values import Value

__all__ = ["MoveMark", "Solution", "SolvedLine", "mark_moves", "require_solvable", "solve_position", "solved_line"]


@dataclass(frozen=True, slots=True)
class Solution:
    """Solved position."""

    player: int | None
    """Player to move, counted from 1; None when the game is over."""
    score: float | None
    """For the player to move; None when the game is over."""
    scores: Mapping[str, float | None]
    """By column letter in Connect Four, None for a full column; by move in other games."""
    best: tuple[str, ...]
    """Moves with the highest score."""
    nodes: int
    seconds: float


class SolvedLine(Value):
    """Solved position after a line of moves: the object that `zerofleet solve --json` prints and `/api/v1/solver` returns."""

    game: str
    parameters: dict[str, str]
    """Every parameter of the game."""
    after: tuple[str, ...]
    """Moves to the position."""
    player: int | None
    """Player to move, counted from 1; None when the game is over."""
    score: float | None
    """For the player to move; None when the game is over."""
    scores: dict[str, float | None]
    """By column letter in Connect Four, None for a full column; by move in other games."""
    best: tuple[str, ...]
    """Moves with the highest score."""
    nodes: int
    """Positions that the solver visited."""
    seconds: float
    """Wall-clock time of the search."""


@dataclass(frozen=True, slots=True)
class MoveMark:
    """Move of a line compared with perfect play; scores are for the player who moves."""

    ply: int
    """Number of the move, from 1."""
    player: int
    """Player who moves, counted from 1."""
    move: str
    best: int
    """Highest score of a move here."""
    score: int
    """Score of the move; at most `best`."""
    is_blunder: bool
    """Whether the move changes a win, draw or loss for the worse."""


def require_solvable(game: Game) -> None:
    """Raise `InvalidRequest` at once for a game that cannot be solved."""
    if not fits(game):
        require_small(game)


def solve_position(
    game: Game, state: State, *, table_bits: int = MIN_BITS, solver: Solver | None = None, is_stopped: Callable[[], bool] = bool
) -> Solution:
    """Return the score of every move.

    Args:
        game: Connect Four on a board that the solver supports, or another small game for two players.
        state: Position.
        table_bits: Binary logarithm of the size of the solver's transposition table.
        solver: Solver to use instead of one with the shipped book.
        is_stopped: Called during a long search of Connect Four; once it returns true, `SolverStopped` is raised.

    Raises `InvalidRequest` for games that cannot be solved, `SolverStopped`.
    """
    require_solvable(game)
    if core.is_over(game, state):
        return Solution(None, None, {}, (), 0, 0.0)
    if not fits(game):
        return _solve_small(game, state)
    solver = solver or solver_of(cast("ConnectFour", game), table_bits=table_bits)
    solver.prepare()
    began = time.perf_counter()
    found = solver.scores(state, is_stopped=is_stopped)
    seconds = time.perf_counter() - began
    known = dict(zip(found.actions.tolist(), found.scores.tolist(), strict=True))
    scores = {column_name(column): known.get(column) for column in range(game.spec().num_actions)}
    best = tuple(game.action_name(state, int(action)) for action in found.best())
    return Solution(core.to_move(game, state) + 1, max(known.values()), scores, best, found.nodes, seconds)


def solved_line(game: Game, moves: Sequence[int], solution: Solution) -> SolvedLine:
    """Return the solution of the position after `moves` with the game and the names of the moves."""
    after = tuple(move_names(game, moves))
    return SolvedLine(game=game.spec().name, parameters=parameters_text(game), after=after, **asdict(solution))


def mark_moves(game: Game, moves: Sequence[int], *, is_stopped: Callable[[], bool] = bool) -> Iterator[MoveMark]:
    """Yield the mark of each move of a Connect Four game, the last one first: late positions are solved at once.

    Raises `InvalidRequest` for a game that the solver does not support, `SolverStopped`.
    """
    solver = solver_of(cast("ConnectFour", game))
    solver.prepare()
    for ply in range(len(moves), 0, -1):
        state = replay(game, moves[: ply - 1])
        move, lost = moves[ply - 1], solver.lost(state, moves[ply - 1], is_stopped=is_stopped)
        best, _ = solver.score(state, is_stopped=is_stopped)
        yield MoveMark(
            ply=ply,
            player=core.to_move(game, state) + 1,
            move=game.action_name(state, move),
            best=best,
            score=best - lost,
            is_blunder=_sign(best - lost) < _sign(best),
        )


def solver_of(game: ConnectFour, *, table_bits: int = MIN_BITS) -> Solver:
    """Return a solver with the shipped opening book, if it is for this board. Raises `InvalidRequest` for other games."""
    return Solver(game, book=shipped_book(game) if fits(game) else None, table=table_bits)


def _sign(score: int) -> int:
    return (score > 0) - (score < 0)


def _solve_small(game: Game, state: State) -> Solution:
    """Solve a game small enough for a table of all positions."""
    began = time.perf_counter()
    found = PerfectAgent(game).analyse(state)
    seconds = time.perf_counter() - began
    names = [game.action_name(state, int(action)) for action in found.actions]
    values = [round(value, 6) + 0.0 for value in found.values.tolist()]  # scores are float32; a draw is 0, not -0
    best = tuple(game.action_name(state, int(action)) for action in found.best())
    return Solution(
        core.to_move(game, state) + 1, max(values), dict(zip(names, values, strict=True)), best, found.nodes, seconds
    )
