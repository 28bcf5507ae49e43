"""Chinese Checkers on three boards: the star of 121 fields, the star of 37 fields and the rhombus of 81 cells."""
