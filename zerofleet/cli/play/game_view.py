"""Display of a stored game: a row in a list, or move by move with the results of the search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from zerofleet.cli import screen
from zerofleet.cli.play.board import colour_board, player_name, player_style
from zerofleet.contracts.played import FULL_SEARCH, REDUCED, WOULD_RESIGN
from zerofleet.contracts.records import ValidatedGame

__all__ = ["WIDE_COLUMNS", "GameRow", "MoveView", "SearchedAction", "list_table", "render_game", "summarise", "view_moves"]

SHOWN_ACTIONS = 8  # rows per searched move, most visited first
FIRST_MOVES = 8  # opening moves in a row of the list
NARROW_UID_DIGITS = 12
WIDE_COLUMNS = 150  # terminal width that fits a full row of the list


@dataclass(frozen=True, slots=True)
class GameRow:
    """Row of `games list`."""

    index: int
    uid: str
    plies: int
    scores: tuple[float, ...]
    ending: str
    """played out, or which player resigned."""
    versions: tuple[int, ...]
    """Model version of each seat at the start; 0 for a seat without a model."""
    searched: int
    """Number of moves with a search."""
    moves: tuple[str, ...]
    worker: str
    finished_at: str | None
    """By the worker's clock, ISO 8601 with zone; None for an impossible time."""


@dataclass(frozen=True, slots=True)
class SearchedAction:
    """Search result of one legal move."""

    move: str
    visits: int
    share: float
    """Share of all visits."""
    target: float
    """Policy target."""


@dataclass(frozen=True, slots=True)
class MoveView:
    """Move of a game; without a search, `actions` is empty and `value` None."""

    ply: int
    player: int
    move: str
    model_version: int
    value: float | None
    """Mean value of the search for the player who moved."""
    visits: int
    notes: tuple[str, ...]
    actions: tuple[SearchedAction, ...]


def summarise(index: int, stored: ValidatedGame) -> GameRow:
    """Return the row of a game."""
    record = stored.record
    names = _names(stored)
    return GameRow(
        index=index,
        uid=record.uid,
        plies=len(names),
        scores=tuple(stored.scores.tolist()),
        ending=f"player {record.resigned_seat} resigned" if record.resigned_seat else "played out",
        versions=tuple(record.seat_versions),
        searched=len(record.searched),
        moves=tuple(names),
        worker=record.worker_id,
        finished_at=_when(record.finished_at_ms),
    )


def list_table(rows: list[GameRow], *, is_narrow: bool = False) -> Table:
    """Return the rows as a table; a narrow one omits the last columns and shortens uids to prefixes valid for `games show`."""
    extra = () if is_narrow else ("models", "moves", "worker", "finished")
    table = screen.table(">game", "uid", ">plies", "result", "ending", *extra)
    for row in rows:
        models = " ".join(str(version) if version else "-" for version in row.versions)
        opening = " ".join(row.moves[:FIRST_MOVES]) + (" …" if len(row.moves) > FIRST_MOVES else "")
        more = () if is_narrow else (models, opening, row.worker, row.finished_at or "?")
        shown_uid = row.uid[:NARROW_UID_DIGITS] if is_narrow else row.uid
        table.add_row(f"{row.index:,}", shown_uid, str(row.plies), _result(row.scores), row.ending, *more)
    return table


def view_moves(stored: ValidatedGame) -> list[MoveView]:
    """Return every move with its search, in order."""
    columns = stored.search
    rows = {int(ply): row for row, ply in enumerate(columns.ply)}
    views = []
    for ply, name in enumerate(_names(stored)):
        player = int(stored.movers[ply])
        if ply not in rows:
            views.append(MoveView(ply, player, name, 0, None, 0, (), ()))
            continue
        row = rows[ply]
        actions = _actions(stored, ply, row)
        views.append(
            MoveView(
                ply=ply,
                player=player,
                move=name,
                model_version=int(columns.model_version[row]),
                value=float(columns.root_value[row, player]),
                visits=sum(action.visits for action in actions),
                notes=_notes(int(columns.flags[row])),
                actions=actions,
            )
        )
    return views


def render_game(stored: ValidatedGame, *, ply: int | None = None) -> Iterator[RenderableType]:
    """Yield the parts of a game for a terminal: heading, each move with search and position, result.

    With `ply` (counted from 1), only that move.
    """
    record = stored.record
    if ply is None:
        yield _heading(stored)
    for view in view_moves(stored):
        if ply is None or view.ply + 1 == ply:
            yield Group(_move_line(view), *([_actions_table(view)] if view.actions else []))
            yield colour_board(stored.game, stored.states[view.ply + 1])
            yield Text()
    if ply is None:
        resigned = f"player {record.resigned_seat} resigned after " if record.resigned_seat else "over after "
        yield Text.assemble(resigned, f"{len(stored.movers)} moves: ", _result(tuple(stored.scores.tolist())))


def _names(stored: ValidatedGame) -> list[str]:
    return [stored.game.action_name(stored.states[ply], int(action)) for ply, action in enumerate(stored.record.moves)]


def _actions(stored: ValidatedGame, ply: int, row: int) -> tuple[SearchedAction, ...]:
    columns = stored.search
    entries = slice(columns.start[row], columns.start[row + 1])
    visits = columns.visits[entries].tolist()
    total = sum(visits)
    found = [
        SearchedAction(stored.game.action_name(stored.states[ply], action), count, count / total, target)
        for action, count, target in zip(
            columns.actions[entries].tolist(), visits, columns.policy[entries].tolist(), strict=True
        )
    ]
    return tuple(sorted(found, key=lambda action: (-action.visits, -action.target)))


def _notes(flags: int) -> tuple[str, ...]:
    notes = ["reduced search" if flags & REDUCED else "full search" if flags & FULL_SEARCH else "fast search"]
    if flags & WOULD_RESIGN:
        notes.append("would resign")
    return tuple(notes)


def _heading(stored: ValidatedGame) -> Text:
    record = stored.record
    models = ", ".join(_seated(record.seat_versions, record.seat_agents))
    text = Text.assemble((f"{record.game} {record.uid}", "bold"), "\n")
    control = ", control game (no resignation)" if record.resignation_control else ""
    text.append(f"{models}; worker {record.worker_id}; seed {record.seed}{control}; {_when(record.finished_at_ms) or '?'}\n")
    return text


def _move_line(view: MoveView) -> Text:
    line = Text.assemble((f"{view.ply + 1:>3}. ", "dim"), player_name(view.player), "  ", (view.move, "bold"))
    if view.value is None:
        line.append("  not searched", style="dim")
        return line
    line.append("  ")
    line.append_text(screen.value_bar(view.value, style=player_style(view.player)))
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


def _result(scores: tuple[float, ...]) -> Text:
    if len(set(scores)) == 1:
        return Text("draw")
    return Text("  ").join(Text.assemble(player_name(seat), f" {score:+g}") for seat, score in enumerate(scores))


def _seated(versions: Sequence[int], agents: Sequence[str]) -> list[str]:
    """Return the player of each seat, as text."""
    names = agents or [""] * len(versions)
    return [f"model {version}" if version else name or "no model" for version, name in zip(versions, names, strict=True)]


def _when(milliseconds: int) -> str | None:
    """Return a worker's timestamp in ISO 8601 with zone; it is not validated, and None if it is no time."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, tz=UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return None
