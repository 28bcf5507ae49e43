"""Abalone: rules on bitboards, the board, its notation and drawing."""

from games.abalone.rules import Abalone

__all__ = ["Abalone"]
