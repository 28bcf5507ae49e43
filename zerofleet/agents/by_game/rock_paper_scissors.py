"""Players of rock paper scissors: a pattern matcher and a constant player."""

from __future__ import annotations

import numpy as np

from games.core import Game, State, to_move
from games.rock_paper_scissors import NAMES, RockPaperScissors
from zerofleet.agents.base import Choice, Evaluate
from zerofleet.agents.budget import MOST_DIGITS
from zerofleet.agents.spelling import Spelling
from zerofleet.errors import InvalidRequest

__all__ = [
    "MAX_ORDER",
    "RockPaperScissorsConstantAgent",
    "RockPaperScissorsOrderAgent",
    "constant_from_spelling",
    "order_from_spelling",
    "required",
]

MAX_ORDER = 10
"""Limit of the order: longer patterns do not recur within a game."""


class RockPaperScissorsOrderAgent:
    """Counters the opponent's most frequent choice after their last `order` choices, as counted in this game.

    Ties, including the three choices after a new pattern, are broken uniformly.
    """

    def __init__(self, game: Game, order: int) -> None:
        """Create the agent for patterns of `order` choices, 1 to `MAX_ORDER`; raises `InvalidRequest`."""
        self.name = f"rock_paper_scissors_order:{order}"
        self.order = order
        required(self.name, game)
        if not 1 <= order <= MAX_ORDER:
            raise InvalidRequest(f"{self.name} is out of range; the order must be between 1 and {MAX_ORDER}")

    def choose(self, game: Game, state: State, rng: np.random.Generator) -> Choice:
        """See `zerofleet.agents.Agent`."""
        played = required(self.name, game)
        history = played.history(state, 1 - to_move(game, state))
        pattern = history[-self.order :]
        counts = np.zeros(len(NAMES), dtype=np.int64)
        for turn in range(self.order, len(history)):
            if history[turn - self.order : turn] == pattern:
                counts[history[turn]] += 1
        foreseen = int(rng.choice(np.flatnonzero(counts == counts.max())))
        return Choice((foreseen + 1) % len(NAMES))  # each choice beats its predecessor


class RockPaperScissorsConstantAgent:
    """Repeats one choice every turn."""

    def __init__(self, game: Game, choice: str) -> None:
        """Create the agent for `rock`, `paper` or `scissors`; raises `InvalidRequest`."""
        self.name = f"rock_paper_scissors_constant:{choice}"
        required(self.name, game)
        if choice not in NAMES:
            raise InvalidRequest(f"{self.name!r} is not an agent; the choice must be one of {', '.join(NAMES)}")
        self._action = NAMES.index(choice)

    def choose(self, game: Game, state: State, rng: np.random.Generator) -> Choice:
        """See `zerofleet.agents.Agent`."""
        return Choice(self._action)


def order_from_spelling(spelling: Spelling, game: Game, evaluate: Evaluate | None) -> RockPaperScissorsOrderAgent:
    """Return the agent written `rock_paper_scissors_order:N`."""
    spelling.refuse_options()
    if not (spelling.argument.isascii() and spelling.argument.isdigit()):
        raise InvalidRequest(f"{str(spelling)!r} needs a pattern length, such as rock_paper_scissors_order:3")
    if len(spelling.argument) > MOST_DIGITS:
        raise InvalidRequest(
            f"{spelling.name} has a number of {len(spelling.argument)} digits; the order must be between 1 and {MAX_ORDER}"
        )
    return RockPaperScissorsOrderAgent(game, int(spelling.argument))


def constant_from_spelling(spelling: Spelling, game: Game, evaluate: Evaluate | None) -> RockPaperScissorsConstantAgent:
    """Return the agent written `rock_paper_scissors_constant:CHOICE`."""
    spelling.refuse_options()
    return RockPaperScissorsConstantAgent(game, spelling.argument)


def required(name: str, game: Game) -> RockPaperScissors:
    """Return the game as rock paper scissors; raises `InvalidRequest` for another game."""
    if not isinstance(game, RockPaperScissors):
        raise InvalidRequest(f"{name} plays rock_paper_scissors, not {game.spec().name}; `random` plays every game")
    return game
