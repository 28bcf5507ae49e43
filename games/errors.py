"""Exceptions of the rules, all derived from `GameError`.

GameError
├── UnknownGame          no game is registered under the name
├── InvalidParameters    a parameter is unknown, of the wrong type or out of range
├── IllegalMove          the move is illegal in the position, or cannot be parsed
├── InvalidDrawing       drawn stones are no position in which a game can go on
├── GameContractError    a game violates a law of `games.core`
└── RuleFault            a rule raises an exception, or cannot be compiled
"""

from __future__ import annotations

__all__ = [
    "GameContractError",
    "GameError",
    "IllegalMove",
    "InvalidDrawing",
    "InvalidParameters",
    "RuleFault",
    "UnknownGame",
]


class GameError(ValueError):
    """Base class of all exceptions raised by `games`."""


class UnknownGame(GameError):
    """No game is registered under the name; the message lists the registered games."""


class InvalidParameters(GameError):
    """A game parameter is unknown, of the wrong type or out of range; the message states the valid range."""


class IllegalMove(GameError):
    """A move is illegal in the position, or its text cannot be parsed; the message lists the legal moves."""


class InvalidDrawing(GameError):
    """Drawn stones are no position in which a game can go on; the message states the reason and the change that helps."""


class GameContractError(GameError):
    """A game violates a law of `games.core`; the message states the law, the preceding moves and the position."""


class RuleFault(GameError):
    """A rule raises an exception, or cannot be compiled (`games.faults`); the message states game, rule, reason and line."""
