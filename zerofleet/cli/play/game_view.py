"""Display of a stored game: a row in a list, or move by move with the results of the search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from games.core import Game
from zerofleet.cli import screen
from zerofleet.cli.play.board import colour_board, player_name, player_style
from zerofleet.contracts.records import ValidatedGame
from zerofleet.library.stored_games import GameRow, MoveView, seat_names, view_moves
from zerofleet.library.times import time_text

__all__ = ["WIDE_COLUMNS", "list_table", "render_game"]

FIRST_MOVES = 8  # moves of a game in a row of the list
SHOWN_ACTIONS = 8  # rows per searched move, most visited first
NARROW_UID_DIGITS = 12
WIDE_COLUMNS = 150  # terminal width that fits a full row of the list


def list_table(game: Game, rows: Sequence[GameRow], *, is_narrow: bool = False) -> Table:
    """Return the rows of a game as a table.

    A narrow one omits the last columns and shortens uids to prefixes valid for `games show`.
    """
    extra = () if is_narrow else ("models", "moves", "worker", "finished")
    table = screen.table(">game", "uid", ">plies", "result", "ending", *extra)
    for row in rows:
        models = " ".join(str(version) if version else "-" for version in row.versions)
        opening = " ".join(row.moves[:FIRST_MOVES]) + (" …" if len(row.moves) > FIRST_MOVES else "")
        more = () if is_narrow else (models, opening, row.worker, row.finished_at or "?")
        shown_uid = row.uid[:NARROW_UID_DIGITS] if is_narrow else row.uid
        table.add_row(f"{row.index:,}", shown_uid, str(row.plies), _result(game, row.scores), row.ending, *more)
    return table


def render_game(stored: ValidatedGame, *, ply: int | None = None) -> Iterator[RenderableType]:
    """Yield the parts of a game for a terminal: heading, each move with search and position, result.

    With `ply` (counted from 1), only that move.
    """
    record = stored.record
    if ply is None:
        yield _heading(stored)
    for view in view_moves(stored):
        if ply in (None, view.ply):
            yield Group(_move_line(stored.game, view), *([_actions_table(view)] if view.actions else []))
            yield colour_board(stored.game, stored.states[view.ply])
            yield Text()
    if ply is None:
        resigned = f"player {record.resigned_seat} resigned after " if record.resigned_seat else "over after "
        yield Text.assemble(resigned, f"{len(stored.movers)} moves: ", _result(stored.game, tuple(stored.scores.tolist())))


def _heading(stored: ValidatedGame) -> Text:
    record = stored.record
    models = ", ".join(seat_names(stored))
    text = Text.assemble((f"{record.game} {record.uid}", "bold"), "\n")
    control = ", control game (no resignation)" if record.resignation_control else ""
    text.append(
        f"{models}; worker {record.worker_id}; seed {record.seed}{control}; {time_text(record.finished_at_ms) or '?'}\n"
    )
    return text


def _move_line(game: Game, view: MoveView) -> Text:
    line = Text.assemble((f"{view.ply:>3}. ", "dim"), player_name(game, view.player - 1), "  ", (view.move, "bold"))
    if view.value is None:
        line.append("  not searched", style="dim")
        return line
    line.append("  ")
    line.append_text(screen.value_bar(view.value, style=player_style(view.player - 1)))
    line.append(f" {view.value:+.3f}")
    line.append(f"  {view.visits:,} visits, model {view.model_version}, {', '.join(view.notes)}", style="dim")
    return line


def _actions_table(view: MoveView) -> Table:
    table = screen.table("     move", ">visits", ">share", ">target", "")
    for action in view.actions[:SHOWN_ACTIONS]:
        name = Text(f"     {action.move}", style="bold" if action.move == view.move else "")
        numbers = (f"{action.visits:,}", f"{action.share:.1%}", f"{action.target:.1%}")
        table.add_row(name, *numbers, screen.share_bar(action.share))
    return table


def _result(game: Game, scores: tuple[float, ...]) -> Text:
    if len(set(scores)) == 1:
        return Text("draw")
    return Text("  ").join(Text.assemble(player_name(game, seat), f" {score:+g}") for seat, score in enumerate(scores))
