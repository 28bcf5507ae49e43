"""Take 6!: cards, table, hidden hands, encoding and drawing."""

from games.take_six.rules import TakeSix

__all__ = ["TakeSix"]
