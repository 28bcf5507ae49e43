"""Match results on a terminal: by seat, in points and Elo, with the cost of moves."""

from __future__ import annotations

from collections.abc import Sequence

from zerofleet.cli import screen
from zerofleet.strength.matches import LoneTally, MatchOutcome, MatchSummary, PlayerEffort, SeatSummary

__all__ = ["show_match"]


def show_match(summary: MatchSummary, outcome: MatchOutcome | None = None) -> None:
    """Print the results of a match; `outcome` is that of a sequential test."""
    console = screen.out()
    partial = summary.full_wins + summary.full_losses < summary.wins + summary.losses
    full = (">full wins", ">full losses") if partial else ()
    rows = screen.table(f"{summary.first} on", ">games", ">won", ">drawn", ">lost", *full, ">points")
    for seat in summary.by_seat:
        label = f"seat {_listed(seat.seats)}" + (" (first to move)" if seat.seats == (1,) else "")
        rows.add_row(label, *_numbers(seat, partial=partial))
    rows.add_row("all", *_numbers(summary, partial=partial), style="bold")
    console.print(rows)
    console.print(f"\n{summary.verdict}")
    if outcome is not None:
        console.print(f"Sequential test: {outcome.decision.reason}", markup=False)
    console.print(f"Games took {summary.mean_plies:.1f} plies on average\n")
    _show_efforts(summary.efforts)
    for tally in summary.alone:
        _show_lone(tally)


def _show_efforts(efforts: Sequence[PlayerEffort]) -> None:
    rows = screen.table("player", ">moves", ">ms per move", ">nodes per move", ">seconds in total")
    for effort in efforts:
        numbers = (f"{effort.moves:,}", f"{effort.ms_per_move:.3g}", f"{effort.nodes_per_move:,.0f}", f"{effort.time_s:.1f}")
        rows.add_row(effort.player, *numbers)
    screen.out().print(rows)


def _show_lone(tally: LoneTally) -> None:
    console = screen.out()
    placings = [f">{_ordinal(place)}" for place in range(1, tally.opponents + 2)]
    columns = (">games", *placings, ">first of 100", ">95 % interval", ">mean score")
    rows = screen.table(f"{tally.player} alone on", *columns)
    for seat in tally.seats:
        first = (f"{100 * seat.first:.1f}", f"{100 * seat.first_low:.1f} to {100 * seat.first_high:.1f}")
        rows.add_row(f"seat {seat.seat}", str(sum(seat.placings)), *map(str, seat.placings), *first, f"{seat.mean_score:+.3f}")
    console.print()
    console.print(rows)
    console.print(
        f"\n{tally.player} alone against {tally.opponents} {tally.against}: {tally.share:.1%} of the points"
        f" (95 % interval {tally.share_low:.1%} to {tally.share_high:.1%}; equal players have {1 / (tally.opponents + 1):.1%}),"
        f" mean score {tally.mean_score:+.3f}"
    )
    console.print(f"net score {tally.net:+.1f} in 100 games ({tally.net_low:+.1f} to {tally.net_high:+.1f})")


def _ordinal(place: int) -> str:
    return {1: "1st", 2: "2nd", 3: "3rd"}.get(place, f"{place}th")


def _numbers(tally: SeatSummary | MatchSummary, *, partial: bool) -> Sequence[str]:
    full = (tally.full_wins, tally.full_losses) if partial else ()
    counts = (tally.games, tally.wins, tally.draws, tally.losses, *full)
    return (*map(str, counts), f"{tally.share:.1%}")


def _listed(seats: Sequence[int]) -> str:
    return " and ".join(str(seat) for seat in seats)
