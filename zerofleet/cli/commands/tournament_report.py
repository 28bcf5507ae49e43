"""Tournament results on a terminal: table of ratings and cross table of points."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from zerofleet.cli import screen
from zerofleet.strength.tournaments import PlayerRow, TournamentTable

__all__ = ["show_tournament"]

CELL_COLUMNS = 7  # width of a cell of the cross table, with the gap
FEWEST_CELLS = 4


def show_tournament(table: TournamentTable) -> None:
    """Print the ratings, then the cross table in parts that fit the terminal."""
    console = screen.out()
    console.print(_ratings(table))
    zero = f"{table.anchor} is 0" if table.anchor else "the mean is 0"
    console.print(f"\nElo: {zero}; low and high: 95 % interval\n", markup=False)
    numbers = [str(row.rank) for row in table.players]
    width = max(len(row.name) for row in table.players) + len(numbers[-1]) + 4
    fitting = max(FEWEST_CELLS, (console.width - width) // CELL_COLUMNS)
    for start in range(0, len(table.players), fitting):
        console.print(_shares(table, table.players[start : start + fitting]))
        console.print()
    console.print("points of row against column, in per cent")


def _ratings(table: TournamentTable) -> Table:
    rows = _named(">Elo", ">low", ">high", ">games", ">points", ">ms per move", ">nodes per move")
    for row in table.players:
        interval = ("", "") if row.name == table.anchor else (f"{row.elo_low:+.0f}", f"{row.elo_high:+.0f}")
        cost = (f"{row.ms_per_move:.3g}", f"{row.nodes_per_move:,.0f}")
        elo = "0" if row.name == table.anchor else f"{row.elo:+.0f}"
        rows.add_row(str(row.rank), row.name, elo, *interval, f"{row.games:,}", f"{row.share:.1%}", *cost)
    return rows


def _shares(table: TournamentTable, against: Sequence[PlayerRow]) -> Table:
    rows = _named(*(f">{row.rank}" for row in against))
    for row in table.players:
        shares = [None if row is other else table.share(row.name, other.name) for other in against]
        cells = ["-" if share is None else f"{100 * share:.1f}" for share in shares]
        rows.add_row(str(row.rank), row.name, *cells)
    return rows


def _named(*columns: str) -> Table:
    """Return a table that begins with rank and player; a long name is folded, not truncated."""
    rows = screen.table(">")
    rows.add_column("player", overflow="fold", no_wrap=False)
    for column in screen.table(*columns).columns:
        rows.add_column(column.header, justify=column.justify, no_wrap=True)
    return rows
