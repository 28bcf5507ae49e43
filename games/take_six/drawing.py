"""Text and SVG pictures of Take 6!: the table in the view of one player, or with nothing hidden.

Pictures count players from 1, as people do; seats and viewers count from 0.
"""

from __future__ import annotations

import numpy as np

from games.core import State
from games.kit.cells import Cell
from games.kit.svg import BOARD, INK, LINE, PLAYER_COLOURS, Canvas
from games.take_six import cards, table
from games.take_six.table import Deck

__all__ = ["cells", "draw", "draw_svg", "draw_svg_undealt", "takes"]

_CARD_WIDTH, _CARD_HEIGHT, _STEP = 44, 34, 50
_MARGIN, _LABEL = 16, 150
_CHOICE = 96  # pixels, of `plays 104@8` behind a full hand
_LINE_HEIGHT = _CARD_HEIGHT + 14
_TOP = _MARGIN + 26  # of the first row
_PALE, _HEAVY = "#ffffff", "#f3d9a8"
_HEAVY_POINTS = 5  # minimum value of multiples of 11
_NOBODY = -1  # viewer without a seat


def draw(deck: Deck, state: State, viewer: int | None) -> str:
    """Return the table as text; with a `viewer`, other hands and committed cards are hidden."""
    lines = [_headline(deck, state)]
    for row in range(deck.rows):
        listed = _numbers(deck, _row(state, row))
        lines.append(f"row {row + 1} | {listed:<{4 * table.FULL_ROW}} | {_counted(table.row_points(deck, state, row))}")
    for seat in range(deck.players):
        held = _hand(deck, state, seat)
        shown = _numbers(deck, held) if viewer in (None, seat) else "  ." * len(held)
        line = f"player {seat + 1}: {_counted(table.taken(state, seat)):>10} | {shown}"
        if (card := _chosen(deck, state, seat)) is not None and (viewer is None or table.chooser(state) >= 0):
            line += f"   plays {card}"
        lines.append(line.rstrip())
    return "\n".join(lines)


def draw_svg_undealt(deck: Deck) -> str:
    """Return the table before the deal as an SVG document: empty rows, and hands face down."""
    state = np.zeros(table.hand(deck, deck.players), dtype=np.uint64)
    for seat in range(deck.players):
        for card in range(table.HAND):  # any ones: they lie face down
            cards.put(state, table.hand(deck, seat), card)
    return draw_svg(deck, state, _NOBODY, headline="before the deal")


def draw_svg(deck: Deck, state: State, viewer: int | None = None, *, headline: str = "") -> str:
    """Return the table as an SVG document; with a `viewer`, other hands are face down and committed cards are hidden.

    `headline` takes the place of the one of the state.
    """
    headline = headline or _headline(deck, state)
    # Only a reader of the whole deal sees a full hand with a committed card: that picture alone needs the room.
    width = _MARGIN + _LABEL + table.HAND * _STEP + (_CHOICE if viewer is None else _STEP) + _MARGIN
    canvas = Canvas(width, 2 * _MARGIN + 24 + (deck.rows + deck.players) * _LINE_HEIGHT + 12)
    canvas.text(_MARGIN, _MARGIN + 6, headline, size=14, anchor="start", bold=True)
    canvas.rectangle(_MARGIN, _TOP - 7, width - 2 * _MARGIN, deck.rows * _LINE_HEIGHT, fill=BOARD, corner=8)
    for row in range(deck.rows):
        y = _TOP + row * _LINE_HEIGHT
        label = f"row {row + 1}, {_counted(table.row_points(deck, state, row))}"
        canvas.text(_MARGIN + 10, y + _CARD_HEIGHT / 2, label, anchor="start")
        for i in range(table.FULL_ROW):
            x = _MARGIN + _LABEL + i * _STEP
            canvas.rectangle(x, y, _CARD_WIDTH, _CARD_HEIGHT, fill="none", stroke=LINE, corner=5)
        for i, card in enumerate(_row(state, row)):
            _draw_card(canvas, deck, card, _MARGIN + _LABEL + i * _STEP, y)
    for seat in range(deck.players):
        y = _hand_top(deck, seat)
        canvas.circle(_MARGIN + 16, y + _CARD_HEIGHT / 2, 8, fill=PLAYER_COLOURS[seat])
        label = f"{seat + 1}: {_counted(table.taken(state, seat))}"
        canvas.text(_MARGIN + 32, y + _CARD_HEIGHT / 2, label, anchor="start")
        is_seen = viewer in (None, seat)
        for i, card in enumerate(_hand(deck, state, seat)):
            x = _MARGIN + _LABEL + i * _STEP
            if is_seen:
                _draw_card(canvas, deck, card, x, y)
            else:
                canvas.rectangle(x, y, _CARD_WIDTH, _CARD_HEIGHT, fill=BOARD, stroke=LINE, corner=5)
        is_shown = viewer is None or table.chooser(state) >= 0
        if is_shown and (chosen := _chosen(deck, state, seat)) is not None:
            canvas.text(width - _MARGIN, y + _CARD_HEIGHT / 2, f"plays {chosen}", anchor="end")
    return canvas.render(f"Take 6!, {headline}")


def cells(deck: Deck, state: State) -> tuple[Cell, ...]:
    """Return the cells for clicks of the player to move: behind the last place of each row, and the cards of the own hand."""
    if table.turn(state) == table.HAND:
        return ()
    middle, radius = _MARGIN + _LABEL + _CARD_WIDTH / 2, _CARD_HEIGHT / 2
    rows = (_TOP + row * _LINE_HEIGHT + radius for row in range(deck.rows))
    found = [Cell(f"row {row + 1}", middle + table.FULL_ROW * _STEP, y, radius) for row, y in enumerate(rows)]
    seat = table.mover(deck, state)
    if table.chooser(state) < 0:
        y = _hand_top(deck, seat) + radius
        held = enumerate(_hand(deck, state, seat))
        found += [Cell(str(card + deck.first_card), middle + i * _STEP, y, radius) for i, card in held]
    return tuple(found)


def takes(points: int) -> str:
    """Return the name of an outcome with these points, such as `takes 7 points`."""
    return f"takes {_counted(points)}" if points else "takes nothing"


def _hand_top(deck: Deck, seat: int) -> int:
    """Return the upper edge of a hand in the picture, in pixels."""
    return _TOP + (deck.rows + seat) * _LINE_HEIGHT + 12


def _draw_card(canvas: Canvas, deck: Deck, card: int, x: float, y: float) -> None:
    """Draw a card with its number and one dot per point."""
    points = table.points(deck, card)
    fill = _HEAVY if points >= _HEAVY_POINTS else _PALE
    canvas.rectangle(x, y, _CARD_WIDTH, _CARD_HEIGHT, fill=fill, stroke=LINE, corner=5)
    canvas.text(x + _CARD_WIDTH / 2, y + 13, str(card + deck.first_card), size=15, bold=True)
    for i in range(points):
        dot = x + _CARD_WIDTH / 2 + (i - (points - 1) / 2) * 6
        canvas.circle(dot, y + _CARD_HEIGHT - 7, 1.8, fill=INK, stroke="none", width=0)


def _headline(deck: Deck, state: State) -> str:
    if table.turn(state) == table.HAND:
        return "the game is over"
    task = "chooses a row" if table.chooser(state) >= 0 else "chooses a card"
    return f"round {table.turn(state) + 1} of {table.HAND}, player {table.mover(deck, state) + 1} {task}"


def _chosen(deck: Deck, state: State, seat: int) -> str | None:
    """Return the notation of a seat's commitment in this round, `46@2` or `46`, or None."""
    place = (seat - table.first_seat(state)) % deck.players
    if place >= table.committed(state):
        return None
    number = table.committed_card(state, seat) + deck.first_card
    if table.switch(state, table.AFTER):
        return str(number)
    return f"{number}@{table.committed_row(state, seat) + 1}"


def _row(state: State, row: int) -> list[int]:
    return [table.row_card(state, row, place) for place in range(table.row_count(state, row))]


def _hand(deck: Deck, state: State, seat: int) -> list[int]:
    own, held = table.hand(deck, seat), []
    card = cards.next_card(state, own, 0)
    while card >= 0:
        held.append(card)
        card = cards.next_card(state, own, card + 1)
    return held


def _numbers(deck: Deck, listed: list[int]) -> str:
    return " ".join(f"{card + deck.first_card:>3}" for card in listed)


def _counted(points: int) -> str:
    return f"{points} point" if points == 1 else f"{points} points"
