"""Parts that rules are built from: bits, random numbers, squares and SVG."""
