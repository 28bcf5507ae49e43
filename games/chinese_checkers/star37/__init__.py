"""Chinese Checkers on the star of 37 fields, for three players."""

from games.chinese_checkers.star37.rules import ChineseCheckersStar37

__all__ = ["ChineseCheckersStar37"]
