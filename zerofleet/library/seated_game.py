"""A game in progress in which a person holds one seat: moves, undo, and what that seat may see.

Everything that leaves an object of this class is in the view of the seat: no other hand, no secret choice of the current round,
and not the seed, from which a deal could be derived.
"""

from __future__ import annotations

from collections.abc import Sequence

from games import core
from games.core import Game, State
from games.errors import IllegalMove
from games.kit.cells import Cell
from games.notation import legal_names
from games.pictures import seen_picture
from games.positions import drawing, final_scores, move_names, replay

__all__ = ["SeatedGame"]

MOST_LINES = 20


class SeatedGame:
    """Moves of a game and the view of one seat. `moves` are the actions so far."""

    def __init__(self, game: Game, *, seat: int, seed: int, start: State | None = None) -> None:
        """Create it without moves; a `start`, which nothing changes, takes the place of the starting position."""
        self.game = game
        self.seat = seat
        self.seed = seed
        self.start = start
        self.moves: list[int] = []
        self.resigned = False
        self.lines: list[tuple[int, ...]] = []
        """Other lines, kept by `undo` and `enter_line`; none with hidden information, whose moves the seat may not know."""

    def copy(self) -> SeatedGame:
        """Return an independent copy, for readers in another thread."""
        copied = SeatedGame(self.game, seat=self.seat, seed=self.seed, start=self.start)
        copied.moves, copied.resigned, copied.lines = list(self.moves), self.resigned, list(self.lines)
        return copied

    def seen_by_mover(self) -> SeatedGame:
        """Return a copy in which the seat is that of the player to move; after the end it stays."""
        copied, state = self.copy(), self.state()
        if not core.is_over(self.game, state):
            copied.seat = int(core.to_move(self.game, state))
        return copied

    def state(self, plies: int | None = None) -> State:
        """Return the position after the first `plies` moves, by default after all of them."""
        return self.state_after(self.moves[:plies])

    def state_after(self, moves: Sequence[int]) -> State:
        """Return the position after `moves` in place of the game's own. Raises `IllegalMove`."""
        return replay(self.game, moves, self.seed, self.start)

    def names(self, moves: Sequence[int]) -> list[str]:
        """Return the notation of `moves` in place of the game's own. Raises `IllegalMove`."""
        return move_names(self.game, moves, self.seed, self.start)

    @property
    def is_over(self) -> bool:
        """Whether the game has ended, by the rules or because the seat resigned."""
        return self.resigned or core.is_over(self.game, self.state())

    @property
    def is_turn(self) -> bool:
        """Whether the seat is to move."""
        return not self.is_over and int(core.to_move(self.game, self.state())) == self.seat

    @property
    def awaits_others(self) -> bool:
        """Whether another seat is to move."""
        return not self.is_over and not self.is_turn

    def legal(self) -> dict[str, int]:
        """Return the legal actions of the seat by notation; empty when it is not its turn."""
        return legal_names(self.game, self.state()) if self.is_turn else {}

    def cells(self) -> tuple[Cell, ...]:
        """Return the cells to click; empty when it is not the seat's turn: cells may show the hand of the player to move."""
        own = getattr(self.game, "cells", None)
        return () if own is None or not self.is_turn else tuple(own(self.state()))

    def paths(self) -> dict[str, tuple[str, ...]]:
        """Return the cells to click for each legal move of the seat, by notation; see `games.kit.cells`."""
        own, state = getattr(self.game, "action_path", None), self.state()
        return {name: () if own is None else tuple(own(state, action)) for name, action in self.legal().items()}

    def play(self, text: str) -> None:
        """Play a move of the seat. Raises `IllegalMove` for an illegal one, or when it is not the seat's turn."""
        if not self.is_turn:
            raise IllegalMove(f"{text!r}: the game is over" if self.is_over else f"{text!r}: it is not your turn")
        self.moves.append(self.game.parse_action(self.state(), text))

    def undo(self) -> None:
        """Take back the seat's last move and the replies. Raises `IllegalMove` if there is none."""
        mine = [ply for ply in range(len(self.moves)) if core.to_move(self.game, self.state(ply)) == self.seat]
        if not mine:
            raise IllegalMove("there is no move of yours to take back")
        self._keep_line()
        del self.moves[mine[-1] :]
        self.resigned = False

    def enter_line(self, number: int) -> None:
        """Go to the end of another line, from 0; the present one is kept. Raises `IllegalMove` if there is none."""
        others = self.other_lines()
        if not 0 <= number < len(others):
            raise IllegalMove(f"there is no line {number + 1}; {len(others)} are kept")
        self._keep_line()
        self.moves = list(others[number])
        self.resigned = False

    def other_lines(self) -> list[tuple[int, ...]]:
        """Return the kept lines other than the present one, newest first."""
        return [line for line in reversed(self.lines) if line != tuple(self.moves)]

    def _keep_line(self) -> None:
        """Keep the present moves, unless they are the beginning of a kept line; a line that they continue is dropped."""
        now = tuple(self.moves)
        if self.game.spec().information != "perfect" or any(line[: len(now)] == now for line in self.lines):
            return
        self.lines = [*(line for line in self.lines if now[: len(line)] != line), now][-MOST_LINES:]

    def seen_moves(self) -> list[str]:
        """Return the moves that the seat knows, in notation: those of the current secret round are left out unless its own."""
        names, known = self.names(self.moves), len(self.moves)
        state = self.state()
        secret = -1 if core.is_over(self.game, state) else int(core.round_of(self.game, state))
        while secret >= 0 and known and int(core.round_of(self.game, self.state(known - 1))) == secret:
            known -= 1
        own = [names[ply] for ply in range(known, len(names)) if core.to_move(self.game, self.state(ply)) == self.seat]
        return names[:known] + own

    def picture(self) -> str:
        """Return the position as SVG in the view of the seat."""
        return seen_picture(self.game, self.state(), self.seat)

    def text(self) -> str:
        """Return the position as text in the view of the seat."""
        return drawing(self.game, self.state(), self.seat)

    def scores(self) -> tuple[float, ...] | None:
        """Return the scores by seat, None while the game goes on and after a resignation."""
        state = self.state()
        return final_scores(self.game, state) if core.is_over(self.game, state) else None
