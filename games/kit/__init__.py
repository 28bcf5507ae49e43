"""Building blocks of games: bits, random numbers, square boards and SVG."""
