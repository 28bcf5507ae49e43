"""Chinese Checkers on the star of 121 fields, for two to six players."""

from games.chinese_checkers.star121.rules import ChineseCheckers

__all__ = ["ChineseCheckers"]
