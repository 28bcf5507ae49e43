"""Heat map of a search: the share of the visits of a stored search by the cell on which each move ends."""

from __future__ import annotations

from zerofleet.contracts.records import ValidatedGame
from zerofleet.library.values import Value

__all__ = ["HeatCell", "HeatMap", "heat_map"]


class HeatCell(Value):
    """Cell of the picture with the visits of all moves that end on it."""

    id: str
    x: float
    y: float
    radius: float
    visits: int
    share: float
    """Share of all visits of the search."""


class HeatMap(Value):
    """Cells that were visited, the most visited first; none for a position without a search or a game without cells."""

    has_cells: bool
    """Whether the game has cells."""
    cells: tuple[HeatCell, ...]
    elsewhere: float
    """Share of the visits of moves without a cell, such as a pass."""


def heat_map(stored: ValidatedGame, ply: int) -> HeatMap:
    """Return the heat map of the search of move `ply`, from 0, of a game; empty after the last move."""
    cells_of, path_of = (getattr(stored.game, name, None) for name in ("cells", "action_path"))
    rows = {int(at): row for row, at in enumerate(stored.search.ply)}
    if cells_of is None or path_of is None or ply not in rows:
        return HeatMap(has_cells=None not in (cells_of, path_of), cells=(), elsewhere=0.0)
    state, columns, row = stored.states[ply], stored.search, rows[ply]
    entries = slice(columns.start[row], columns.start[row + 1])
    known = {cell.id: cell for cell in cells_of(state)}
    visits: dict[str, int] = {}
    for action, count in zip(columns.actions[entries].tolist(), columns.visits[entries].tolist(), strict=True):
        end = next(reversed(path_of(state, action)), "")
        visits[end if end in known else ""] = visits.get(end if end in known else "", 0) + count
    total = sum(visits.values()) or 1  # agents without a search record targets alone
    elsewhere = visits.pop("", 0)
    found = [
        HeatCell(**known[id]._asdict(), visits=count, share=count / total)
        for id, count in sorted(visits.items(), key=lambda one: -one[1])
        if count
    ]
    return HeatMap(has_cells=True, cells=tuple(found), elsewhere=elsewhere / total)
