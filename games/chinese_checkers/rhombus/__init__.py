"""Chinese Checkers on a rhombus of 81 cells, for two players."""

from games.chinese_checkers.rhombus.rules import ChineseCheckersRhombus

__all__ = ["ChineseCheckersRhombus"]
