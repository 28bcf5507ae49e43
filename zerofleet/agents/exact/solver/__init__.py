"""Perfect play of Connect Four: solver, opening book and test positions."""

from __future__ import annotations

from zerofleet.agents.exact.solver.book import Book, load_book, save_book, shipped_book
from zerofleet.agents.exact.solver.building import Built, build_book
from zerofleet.agents.exact.solver.connect_four import MAX_NODES, ScoredMoves, Solver, SolverStopped, fits

__all__ = [
    "MAX_NODES",
    "Book",
    "Built",
    "ScoredMoves",
    "Solver",
    "SolverStopped",
    "build_book",
    "fits",
    "load_book",
    "save_book",
    "shipped_book",
]
