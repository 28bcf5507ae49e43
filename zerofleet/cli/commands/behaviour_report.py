"""Tables of behaviour on a terminal."""

from __future__ import annotations

from zerofleet.cli import screen
from zerofleet.strength.behaviour.tables import BehaviourTable
from zerofleet.strength.behaviour.text import headings, text_rows

__all__ = ["show_behaviour"]


def show_behaviour(found: BehaviourTable) -> None:
    """Print a table: a column of figures has its 95 % intervals beside it. One without rows is its notes alone."""
    shown = [f">{one.text}" if one.numeric else one.text for one in headings(found)]
    rows = screen.table(*shown, title=f"{found.title}, {found.games:,} games")
    for row in text_rows(found):
        rows.add_row(*row)
    if found.rows:
        screen.out().print(rows)
    for note in found.notes:
        screen.out().print(note, markup=False)
