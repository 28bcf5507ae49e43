"""Positions for scripts and notebooks, each in the view of one player.

    position = zf.position("connect_four", ["d1", "d2", "c1"])
    position.play("e1")                  a new position; in a notebook the last value of a cell is shown as a picture

The pictures are the games' own drawings. A picture or a text contains what the viewer knows: neither a hand of another player
nor a choice of the round in progress.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from games import core
from games.core import Game, State, make
from games.errors import InvalidParameters
from games.notation import legal_names
from games.pictures import seen_picture
from games.positions import drawing, final_scores, move_names, read_moves, replay
from zerofleet.contracts.naming import model_name
from zerofleet.search.block import LAST_SEED

__all__ = ["Position", "position"]


def position(game: str | Game, moves: Sequence[str] | str = (), *, seed: int = 0, viewer: int | None = None) -> Position:
    """Return the position after `moves`, for analysis and for its picture.

    Args:
        game: Name of the game, or a game from `games.make`, or that of a run.
        moves: Moves from the start, `["d1", "d2"]` or `"d1, d2"`.
        seed: Seed of the deal, where there is one.
        viewer: Seat, from 0, whose view is drawn; None: the player to move.

    Raises:
        GameError: No such game or seat, or a move cannot be read or is not legal.
    """
    played = make(game) if isinstance(game, str) else game
    if not 0 <= seed <= LAST_SEED:
        raise InvalidParameters(f"seed={seed} is out of range; give 0 to {LAST_SEED:,}")
    actions = read_moves(played, moves if isinstance(moves, str) else " ".join(moves), seed)
    return Position(played, tuple(move_names(played, actions, seed)), seed, _seat(played, viewer))


@dataclass(frozen=True, slots=True, repr=False)
class Position:
    """A position, as one player sees it. `position` makes one and checks its moves."""

    game: Game
    moves: tuple[str, ...]
    """Moves from the start, secret ones of the present round included."""
    seed: int = 0
    """Seed of the deal; with the moves it determines every hand."""
    viewer: int | None = None
    """Seat, from 0, whose view is drawn; None: the player to move."""

    @property
    def state(self) -> State:
        """State of the rules, with nothing hidden; `games.core` reads it."""
        return replay(self.game, read_moves(self.game, " ".join(self.moves), self.seed), self.seed)

    @property
    def is_over(self) -> bool:
        """Whether the game has ended by the rules."""
        return bool(core.is_over(self.game, self.state))

    @property
    def to_move(self) -> int:
        """Seat of the player to move, from 0; 0 after the end."""
        state = self.state
        return 0 if core.is_over(self.game, state) else int(core.to_move(self.game, state))

    @property
    def scores(self) -> tuple[float, ...] | None:
        """Scores in [-1, 1] in seat order; None before the end."""
        state = self.state
        return final_scores(self.game, state) if core.is_over(self.game, state) else None

    def legal(self) -> list[str]:
        """Return the legal moves of the player to move, in notation; none after the end."""
        return list(legal_names(self.game, self.state))

    def play(self, *moves: str) -> Position:
        """Return the position after further moves; raises `IllegalMove`, which is a `GameError`."""
        return position(self.game, [*self.moves, *moves], seed=self.seed, viewer=self.viewer)

    def seen_by(self, viewer: int | None) -> Position:
        """Return the same position in the view of another seat; None: the player to move. Raises `GameError`."""
        return replace(self, viewer=_seat(self.game, viewer))

    def __repr__(self) -> str:
        count = len(self.moves)
        after = f"after {count} move{'s' if count > 1 else ''}" if count else "at the start"
        return f"<Position of {model_name(self.game)} {after}{self._view()}>"

    def __str__(self) -> str:
        """Return the drawing of the game as text, in the view of the seat."""
        return drawing(self.game, self.state, self._seen_from()) if self._can_be_shown() else repr(self)

    def _repr_svg_(self) -> str | None:
        """Return the picture, for notebooks; None where a game with hidden information does not draw the view of a player."""
        return seen_picture(self.game, self.state, self._seen_from()) if self._can_be_shown() else None

    def _seen_from(self) -> int:
        return self.to_move if self.viewer is None else self.viewer

    def _can_be_shown(self) -> bool:
        return self.game.spec().information == "perfect" or hasattr(self.game, "draw_for")

    def _view(self) -> str:
        return "" if self.game.spec().information == "perfect" else f", seen by player {self._seen_from() + 1}"


def _seat(game: Game, viewer: int | None) -> int | None:
    players = game.spec().num_players
    if viewer is not None and not 0 <= viewer < players:
        raise InvalidParameters(f"a seat of {game.spec().name} is between 0 and {players - 1}, got viewer={viewer}")
    return viewer
