"""Positions in which models are compared: a seeded sample of the newest stored games of a run, or those of one line of moves.

Each position is encoded for its player to move, as a search encodes it, so that networks receive what that player sees. A
position that occurs in several games is there once: equal encodings with equal legal moves are equal for a network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from games import core
from games.core import Game, State
from games.pictures import seen_picture
from games.positions import encode_for, legal, move_names, read_moves, replay
from zerofleet.errors import InvalidRequest, RecordRejected
from zerofleet.library.run_files import OpenRun
from zerofleet.library.stored_games import read_game
from zerofleet.storage.game_log import LoggedGame

__all__ = [
    "DEFAULT_POSITIONS",
    "MOST_POSITIONS",
    "ChosenPosition",
    "ChosenPositions",
    "Sample",
    "drawn_position",
    "line_positions",
    "sampled_positions",
]

Source = Literal["stored games", "moves"]

DEFAULT_POSITIONS = 500
MOST_POSITIONS = 2000
MOST_GAMES = 1000
"""Newest games among which positions are chosen: replaying them takes seconds."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Wish for positions of stored games."""

    positions: int = DEFAULT_POSITIONS
    seed: int = 0
    before: int | None = None
    """Number of a game: only older ones are taken; None for the newest ones."""

    def __post_init__(self) -> None:
        """Raise `InvalidRequest` for a number of positions out of range."""
        if not 1 <= self.positions <= MOST_POSITIONS:
            raise InvalidRequest(f"positions={self.positions} is out of range; give an integer from 1 to {MOST_POSITIONS}")


@dataclass(frozen=True, slots=True)
class ChosenPosition:
    """Position before move `ply`, counted from 0."""

    uid: str
    """Uid of its stored game; empty in a line of moves."""
    ply: int
    moves: tuple[str, ...]
    """Moves to the position, in a line alone."""
    state: State
    seat: int
    """Seat of the player to move, from 0."""


@dataclass(frozen=True, slots=True)
class ChosenPositions:
    """Different positions, none of them after the end of a game. Axes: N positions, L maximum legal actions."""

    game: Game
    source: Source
    positions: tuple[ChosenPosition, ...]
    states: np.ndarray  # uint8 [N, packed_bytes], each for its player to move
    legal: np.ndarray  # int16 [N, L], ascending, padded with -1
    group: np.ndarray  # int64 [N], number of the game; positions of one game depend on one another
    games: int
    """Number of games from which positions were taken."""
    before: int | None
    """Number of a game: all games of the sample are older; None for a line of moves."""

    def __len__(self) -> int:
        return len(self.positions)


def sampled_positions(run: OpenRun, sample: Sample, *, is_stopped: Callable[[], bool] = bool) -> ChosenPositions:
    """Return positions of the newest stored games, chosen by the seed; fewer where the games have fewer different ones.

    `is_stopped` is called before each game; once it returns true, the positions so far are returned.
    Raises `RunDirectoryError`, `InvalidRequest` for a run without a readable game.
    """
    before, logged = run.newest_logged(min(MOST_GAMES, sample.positions), before=sample.before)
    rng = np.random.default_rng(sample.seed)
    of_each = -(-2 * sample.positions // max(1, len(logged)))  # twice as many as are wanted, as some occur again
    found: list[tuple[int, ChosenPosition]] = []
    for game in logged:
        if is_stopped():
            break
        found += _positions_of(game, of_each, rng)
    if not found:
        raise InvalidRequest(f"the run {run.name} has no stored game to take positions from; give a line of moves")
    order = [found[index] for index in rng.permutation(len(found))]
    return _chosen(run.game, "stored games", order, sample.positions, before=before)


def line_positions(game: Game, text: str) -> ChosenPositions:
    """Return the positions of a line of moves, its start and end included.

    Raises `IllegalMove`, `InvalidRequest` for a game with hidden information, a line that is too long, or one without a move.
    """
    actions = _line(game, text)
    names = tuple(move_names(game, actions))
    found = []
    for ply in range(len(actions) + 1):
        state = replay(game, actions[:ply])
        if not core.is_over(game, state):
            found.append((0, ChosenPosition("", ply, names[:ply], state, int(core.to_move(game, state)))))
    return _chosen(game, "moves", found, MOST_POSITIONS, before=None)


def drawn_position(run: OpenRun, *, uid: str = "", ply: int = 0, moves: str = "") -> str:
    """Return a position as SVG in the view of its player to move: of a stored game before move `ply`, or after moves.

    Raises `InvalidRequest` for a position without a move, `IllegalMove`, `RecordRejected`.
    """
    if uid:
        _, stored = run.stored(uid)
        if not 0 <= ply < len(stored.movers):
            raise InvalidRequest(f"ply={ply} is no position with a move; the game has moves 0 to {len(stored.movers) - 1}")
        return seen_picture(stored.game, stored.states[ply], int(stored.movers[ply]))
    state = replay(run.game, _line(run.game, moves))
    if core.is_over(run.game, state):
        raise InvalidRequest("the game is over after these moves; take some back")
    return seen_picture(run.game, state, int(core.to_move(run.game, state)))


def _line(game: Game, text: str) -> list[int]:
    """Return the moves of a line, whose positions hide nothing. Raises as `line_positions`."""
    if game.spec().information != "perfect":
        raise InvalidRequest(
            f"{game.spec().name} has hidden information, so moves alone name no position; compare in the stored games"
        )
    actions = read_moves(game, text)
    if len(actions) >= MOST_POSITIONS:
        raise InvalidRequest(f"the line has {len(actions)} moves, want at most {MOST_POSITIONS - 1}")
    return actions


def _positions_of(logged: LoggedGame, most: int, rng: np.random.Generator) -> Iterator[tuple[int, ChosenPosition]]:
    """Yield random positions of a game with its number; none of a damaged game or one of another release."""
    try:
        stored = read_game(logged)
    except RecordRejected:
        return
    plies = len(stored.movers)
    for ply in np.sort(rng.permutation(plies)[:most]).tolist():
        yield logged.index, ChosenPosition(logged.uid, ply, (), stored.states[ply], int(stored.movers[ply]))


def _chosen(
    game: Game, source: Source, found: Sequence[tuple[int, ChosenPosition]], most: int, *, before: int | None
) -> ChosenPositions:
    """Return the first `most` different positions of those found, each with the number of its game."""
    kept: dict[tuple[bytes, bytes], tuple[int, ChosenPosition, np.ndarray, np.ndarray]] = {}
    for number, one in found:
        if len(kept) == most:
            break
        listed = np.full(game.spec().max_legal, -1, dtype=np.int16)
        actions = legal(game, one.state)
        listed[: len(actions)] = actions
        seen = encode_for(game, one.state, one.seat)
        kept.setdefault((seen.tobytes(), listed.tobytes()), (number, one, seen, listed))
    numbers, positions, states, lists = zip(*kept.values(), strict=True)
    return ChosenPositions(
        game=game,
        source=source,
        positions=positions,
        states=np.stack(states),
        legal=np.stack(lists),
        group=np.array(numbers, dtype=np.int64),
        games=len(set(numbers)),
        before=before,
    )
