"""Othello: rules on bitboards, and drawing."""

from games.othello.rules import Othello

__all__ = ["Othello"]
