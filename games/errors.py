"""Errors of the rules, all of them `GameError`.

GameError
├── UnknownGame          no game of that name
├── InvalidParameters    a parameter is unknown, of the wrong kind or out of range
├── IllegalMove          the move is not allowed here, or cannot be read
└── GameContractError    a game breaks a law of `games.core`
"""

from __future__ import annotations

__all__ = ["GameContractError", "GameError", "IllegalMove", "InvalidParameters", "UnknownGame"]


class GameError(ValueError):
    """Base of everything `games` raises."""


class UnknownGame(GameError):
    """No game of that name is registered; the text lists those that are."""


class InvalidParameters(GameError):
    """A game parameter is unknown, of the wrong kind or out of range; the text names the range."""


class IllegalMove(GameError):
    """A move is not legal in the position, or its text cannot be read; the text lists the legal moves."""


class GameContractError(GameError):
    """A game broke a law of `games.core`; the text names the law, the moves that led there and the position."""
