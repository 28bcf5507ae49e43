"""Chinese Checkers on three boards: the star of 121 fields, the star of 37 and the rhombus of 81."""
