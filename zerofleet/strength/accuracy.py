"""Accuracy: share of a player's moves that keep the value of the position under perfect play.

    positions = random_positions(game, count=500, seed=0)
    chosen = await chooser(positions)                       # the player's move in each
    graded = grade(yardstick(game), game, positions, [chosen])

A move keeps the value if the position stays won, drawn or lost. A position in which every move keeps it is no evidence about
the player, hence the separate count of decisive positions.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, cast

import numpy as np

from games import core
from games.connect_four import ConnectFour
from games.core import Game, State
from games.positions import legal, new_state, replay
from zerofleet.agents import Agent
from zerofleet.agents.exact.perfect import PerfectAgent, require_small
from zerofleet.agents.exact.solver import MAX_NODES, Solver, fits, shipped_book
from zerofleet.errors import InvalidRequest
from zerofleet.evaluators.base import Evaluator
from zerofleet.search import SearchSettings, search_positions
from zerofleet.strength.matches import Opening, draw_openings
from zerofleet.strength.ratings import wilson

__all__ = [
    "Chooser",
    "GradedMove",
    "Position",
    "Share",
    "Tally",
    "Yardstick",
    "agent_chooser",
    "grade",
    "model_chooser",
    "played_positions",
    "random_positions",
    "self_play_positions",
    "tally",
    "yardstick",
]

POOL = 4  # random games per requested position: enough to fill late plies
PER_GAME = 4  # requested positions per self-play game; positions of one game are correlated
TABLE_BITS = 24  # 128 MB; positions of one game share entries
OPENING_PLIES = range(2, 7)  # random plies before a self-play game; longer ones where short openings are too few

Position: TypeAlias = tuple[int, ...]
"""Moves from the start position."""

Chooser: TypeAlias = Callable[[Sequence[Position]], Awaitable[list[int]]]
"""Returns a player's move in each position."""


@dataclass(frozen=True, slots=True)
class GradedMove:
    """Grade of one move in one position."""

    ply: int
    """Number of earlier moves."""
    kept: bool
    """Whether the value of the position for the player is the same after the move."""
    lost: float
    """Difference between the best score and the move's, in units of the yardstick."""
    decides: bool
    """Whether the position is decisive: some legal move does not keep the value."""


@dataclass(frozen=True, slots=True)
class Share:
    """Count out of a total, with the 95 % interval (Wilson) of the share; None when the total is zero."""

    count: int
    of: int
    share: float | None
    low: float
    high: float

    @classmethod
    def counted(cls, count: int, of: int) -> Share:
        """Return the share of a count."""
        return cls(count, of, count / of if of else None, *wilson(count, of))


@dataclass(frozen=True, slots=True)
class Tally:
    """Totals of the graded moves of some plies."""

    first_ply: int
    last_ply: int
    kept: Share
    """Share over all positions."""
    decided: Share
    """Share over the decisive positions."""
    exact: Share
    """Share of the decisive positions in which no move scores better."""
    mean_lost: float | None
    """Mean score lost per move, over all positions."""


class Yardstick(Protocol):
    """Perfect play of one game."""

    unit: str
    """Unit of `lost`."""

    def keeping(self, state: State) -> list[int]:
        """Return the actions that keep the value of a position; raises `InvalidRequest`."""
        ...

    def lost(self, state: State, action: int) -> float:
        """Return the difference between the best score and the move's; raises `InvalidRequest`."""
        ...

    def scores(self, state: State) -> tuple[list[int], list[float]]:
        """Return the legal actions and their scores for the player to move, whose signs are the values.

        Raises `InvalidRequest`.
        """
        ...


class _SolverYardstick:
    """Connect Four: scores measure the distance to the end."""

    unit = "stones"

    def __init__(self, game: ConnectFour, max_nodes: int) -> None:
        self._solver = Solver(game, book=shipped_book(game), table=TABLE_BITS, max_nodes=max_nodes)

    def keeping(self, state: State) -> list[int]:
        actions: list[int] = self._solver.keeping(state).actions.tolist()
        return actions

    def lost(self, state: State, action: int) -> float:
        return float(self._solver.lost(state, action))

    def scores(self, state: State) -> tuple[list[int], list[float]]:
        found = self._solver.scores(state)
        return found.actions.tolist(), found.scores.astype(np.float64).tolist()


class _SmallYardstick:
    """Game small enough for a table of all positions."""

    unit = "points"

    def __init__(self, game: Game) -> None:
        self._agent = PerfectAgent(game)

    def keeping(self, state: State) -> list[int]:
        found = self._agent.analyse(state)
        keeping: list[int] = found.actions[np.sign(found.values) == np.sign(found.values.max())].tolist()
        return keeping

    def lost(self, state: State, action: int) -> float:
        found = self._agent.analyse(state)
        return float(found.values.max() - found.values[found.actions == action][0])

    def scores(self, state: State) -> tuple[list[int], list[float]]:
        found = self._agent.analyse(state)
        return found.actions.tolist(), found.values.tolist()


def yardstick(game: Game, *, max_nodes: int = MAX_NODES) -> Yardstick:
    """Return the yardstick of a game; raises `InvalidRequest` if it cannot be solved.

    `max_nodes`: nodes of the Connect Four solver above which a position is rejected with `InvalidRequest`.
    """
    if fits(game):
        return _SolverYardstick(cast("ConnectFour", game), max_nodes)
    require_small(game)
    return _SmallYardstick(game)


def grade(
    perfect: Yardstick,
    game: Game,
    positions: Sequence[Position],
    chosen: Sequence[Sequence[int]],
    *,
    leave_out_hard: bool = False,
    progress: Callable[[], None] = lambda: None,
) -> list[list[GradedMove]]:
    """Return the graded moves of several players, one list per player, all for the same positions.

    Args:
        perfect: Yardstick of the game.
        game: The rules.
        positions: Unfinished positions.
        chosen: Moves of each player, one per position.
        leave_out_hard: Leave out a position with a move that the yardstick does not solve within its limit, instead of raising.
        progress: Called after each position.

    Raises:
        InvalidRequest: A position cannot be solved.
    """
    graded: list[list[GradedMove]] = [[] for _ in chosen]
    for i, position in enumerate(positions):
        try:
            found = _grades(perfect, game, position, [moves[i] for moves in chosen], solves_all=leave_out_hard)
        except InvalidRequest:
            if not leave_out_hard:
                raise
        else:
            for grades, grade_of_move in zip(graded, found, strict=True):
                grades.append(grade_of_move)
        progress()
    return graded


def _grades(perfect: Yardstick, game: Game, position: Position, moves: Sequence[int], *, solves_all: bool) -> list[GradedMove]:
    """Return the grades of moves in one position.

    `solves_all`: solve its other moves too, so that a limit rejects the position whichever were chosen: a blunder takes longer.
    """
    state = replay(game, position)
    listed = legal(game, state)
    keeping = perfect.keeping(state)
    decides = len(keeping) < len(listed)
    lost = {action: perfect.lost(state, action) for action in (listed if solves_all else set(moves))}
    return [GradedMove(len(position), action in keeping, lost[action], decides) for action in moves]


def tally(graded: Sequence[GradedMove], *, plies: int = 1) -> list[Tally]:
    """Return the totals of graded moves in bands of `plies` plies, without empty bands."""
    bands: dict[int, list[GradedMove]] = {}
    for move in graded:
        bands.setdefault(move.ply // plies, []).append(move)
    return [_tally(bands[band], band * plies, (band + 1) * plies - 1) for band in sorted(bands)]


def _tally(graded: Sequence[GradedMove], first: int, last: int) -> Tally:
    deciding = [move for move in graded if move.decides]
    return Tally(
        first,
        last,
        Share.counted(sum(move.kept for move in graded), len(graded)),
        Share.counted(sum(move.kept for move in deciding), len(deciding)),
        Share.counted(sum(not move.lost for move in deciding), len(deciding)),
        sum(move.lost for move in graded) / len(graded) if graded else None,
    )


def random_positions(game: Game, *, count: int, seed: int, first_ply: int = 0) -> list[Position]:
    """Return up to `count` different positions of random games, spread evenly over the available plies from `first_ply`.

    The same arguments give the same positions.
    """
    rng = np.random.default_rng([seed, count])

    def game_of_random_moves() -> list[int]:
        state, moves = new_state(game), []
        while actions := legal(game, state):
            moves.append(actions[int(rng.integers(len(actions)))])
            core.play(game, state, moves[-1])
        return moves

    pool = POOL * count
    return _spread(game, (game_of_random_moves() for _ in range(pool)), count, rng, [first_ply] * pool)


async def self_play_positions(game: Game, chooser: Chooser, *, count: int, seed: int, first_ply: int = 0) -> list[Position]:
    """Return up to `count` different positions of a player's self-play from random openings.

    Spread evenly over the available plies from `first_ply`, without those of the openings. Propagates errors of the
    chooser. Cancellation: nothing is kept.
    """
    wanted = -(-count // PER_GAME)
    openings = [opening.moves for plies in OPENING_PLIES for opening in _some(game, plies, seed, wanted)][:wanted]
    moves = [list(opening) for opening in openings]
    going = [i for i, played in enumerate(moves) if legal(game, replay(game, played))]
    while going:
        for i, action in zip(going, await chooser([tuple(moves[i]) for i in going]), strict=True):
            moves[i].append(action)
        going = [i for i in going if legal(game, replay(game, moves[i]))]
    first = [max(first_ply, len(opening)) for opening in openings]
    return played_positions(game, moves, count=count, seed=seed, first=first)


def played_positions(
    game: Game, played: Sequence[Sequence[int]], *, count: int, seed: int, first: Sequence[int]
) -> list[Position]:
    """Return up to `count` different positions of games, each given by its moves and its `first` ply, spread over the plies.

    The same arguments give the same positions.
    """
    return _spread(game, played, count, np.random.default_rng([seed, count]), first)


def _some(game: Game, plies: int, seed: int, most: int) -> list[Opening]:
    """Return up to `most` openings of `plies` plies."""
    return list(itertools.islice(draw_openings(game, plies=plies, seed=seed), most))


def _spread(
    game: Game, played: Iterable[Sequence[int]], count: int, rng: np.random.Generator, first: Sequence[int]
) -> list[Position]:
    """Return up to `count` different positions of games from their `first` ply, taken from each ply in turn."""
    plies: dict[int, list[Position]] = {}
    seen: set[int] = set()
    for number, moves in enumerate(played):
        state = new_state(game)
        for ply, action in enumerate(moves):
            key = int(core.key(game, state))
            if key not in seen and ply >= first[number]:
                seen.add(key)
                plies.setdefault(ply, []).append(tuple(moves[:ply]))
            core.play(game, state, action)
    for found in plies.values():
        rng.shuffle(found)
    chosen: list[Position] = []
    while len(chosen) < count and any(plies.values()):
        chosen += [found.pop() for _, found in sorted(plies.items()) if found]
    return sorted(chosen[:count], key=len)


def agent_chooser(game: Game, agent: Agent, *, seed: int) -> Chooser:
    """Return a chooser of an agent's moves; its random numbers depend on seed and position."""

    def choose_all(positions: Sequence[Position]) -> list[int]:
        return [
            agent.choose(game, replay(game, position), np.random.default_rng([seed, len(position), *position])).action
            for position in positions
        ]

    async def choose(positions: Sequence[Position]) -> list[int]:
        return await asyncio.to_thread(choose_all, positions)

    return choose


def model_chooser(game: Game, evaluator: Evaluator, *, version: int, simulations: int, seed: int) -> Chooser:
    """Return a chooser of a model's moves: those of its search in matches, or of highest prior without a search."""
    settings = SearchSettings.for_match(game.spec(), simulations)

    async def choose(positions: Sequence[Position]) -> list[int]:
        found = await search_positions(game, evaluator, positions, settings=settings, version=version, seed=seed)
        return [analysis.best_action for analysis in found]

    return choose
