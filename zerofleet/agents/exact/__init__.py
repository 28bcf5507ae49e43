"""Exact play: the solver, the perfect player and best responses."""
