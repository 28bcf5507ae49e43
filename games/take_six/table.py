"""Table of Take 6!: rows, piles and committed cards, and the settling of a round.

Cards are numbered from 0 here; the printed number is that plus `first_card`. State (uint64):

    0       status: rounds settled, seat that commits first, commits made, 1 + seat that must choose a row (0 none), then
            the switches of the game, written once by `reset` since text is slow to compare
    1       committed cards, ten bits per seat: card, then row
    2       points taken, eight bits per seat (a whole deck has 171)
    3, 4    set of publicly seen cards: in rows, taken or revealed
    5 ..    rows, one word each: up to five cards of seven bits from the bottom up, then their number
    ..      hands, one set per seat; a committed card stays in the hand until it is revealed
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from games.compiled import compiled
from games.core import State
from games.take_six import cards

__all__ = [
    "AFTER",
    "COMMITS",
    "DOCUMENT",
    "FULL_ROW",
    "HAND",
    "NEEDED",
    "PILES",
    "ROWS",
    "SEEN",
    "STRICT",
    "Deck",
    "card_of",
    "cheapest_row",
    "chooser",
    "clear_round",
    "commit",
    "committed",
    "committed_card",
    "committed_row",
    "first_seat",
    "hand",
    "landing_row",
    "mover",
    "play_action",
    "points",
    "row_card",
    "row_count",
    "row_end",
    "row_points",
    "rows_on_offer",
    "set_first_seat",
    "start",
    "start_row",
    "switch",
    "taken",
    "turn",
]  # fmt: skip

HAND = 10
"""Cards dealt to each player, and number of rounds."""
FULL_ROW = 5
"""Cards in a full row: a player who would add another takes them."""

COMMITS, PILES, SEEN, ROWS = 1, 2, 3, 5
"""Indices of these parts in the state."""

AFTER, NEEDED, STRICT, DOCUMENT = 1, 2, 4, 8
"""Switches: rows are chosen after the reveal, or only for cards that can need one; ties score 0; `document` encoding."""

_ZERO = np.uint64(0)
_FIRST, _COMMITTED, _CHOOSER, _SWITCHES = np.uint64(8), np.uint64(11), np.uint64(14), np.uint64(17)
_TURN_MASK, _SEAT_MASK, _CARD_MASK, _POINTS_MASK = np.uint64(0xFF), np.uint64(7), np.uint64(127), np.uint64(255)
_ROUND_MASK = (_SEAT_MASK << _COMMITTED) | (_SEAT_MASK << _CHOOSER)
_COUNT = np.uint64(35)


class Deck(NamedTuple):
    """Numeric parameters of a game; passing the text ones costs more than most functions here."""

    players: int
    cards: int
    first_card: int
    rows: int
    points_of_55: int


@compiled
def start(state: State, switches: int) -> None:
    """Clear the table and note the switches of the game."""
    state[:] = _ZERO
    state[0] = np.uint64(switches) << _SWITCHES


@compiled
def switch(state: State, which: int) -> bool:
    """Return whether a switch of the game is set."""
    return (state[0] >> _SWITCHES) & np.uint64(which) != _ZERO  # type: ignore[no-any-return]


@compiled
def turn(state: State) -> int:
    """Return the number of settled rounds."""
    return cards.as_int(state[0] & _TURN_MASK)


@compiled
def first_seat(state: State) -> int:
    """Return the seat that commits first in each round."""
    return cards.as_int((state[0] >> _FIRST) & _SEAT_MASK)


@compiled
def set_first_seat(state: State, seat: int) -> None:
    """Let `seat` commit first."""
    state[0] = (state[0] & ~(_SEAT_MASK << _FIRST)) | (np.uint64(seat) << _FIRST)


@compiled
def committed(state: State) -> int:
    """Return the number of cards committed in this round."""
    return cards.as_int((state[0] >> _COMMITTED) & _SEAT_MASK)


@compiled
def chooser(state: State) -> int:
    """Return the seat that must choose a row, or -1."""
    return cards.as_int((state[0] >> _CHOOSER) & _SEAT_MASK) - 1


@compiled
def hand(deck: Deck, seat: int) -> int:
    """Return the index in the state of a hand's set of cards."""
    return ROWS + deck.rows + 2 * seat


@compiled
def commit(state: State, seat: int, card: int, row: int) -> None:
    """Commit a card face down, with the row to take if needed."""
    state[COMMITS] |= np.uint64(card | row << 7) << np.uint64(10 * seat)
    state[0] += np.uint64(1) << _COMMITTED


@compiled
def committed_card(state: State, seat: int) -> int:
    """Return the card that a seat has committed."""
    return cards.as_int((state[COMMITS] >> np.uint64(10 * seat)) & _CARD_MASK)


@compiled
def committed_row(state: State, seat: int) -> int:
    """Return the row that a seat has committed with its card."""
    return cards.as_int((state[COMMITS] >> np.uint64(10 * seat + 7)) & _SEAT_MASK)


@compiled
def clear_round(state: State) -> None:
    """Clear the committed cards and the choosing seat."""
    state[COMMITS] = _ZERO
    state[0] &= ~_ROUND_MASK


@compiled
def points(deck: Deck, card: int) -> int:
    """Return the penalty points of a card."""
    number = card + deck.first_card
    if number == 55:
        return deck.points_of_55
    count = 1
    if number % 5 == 0:
        count += 1
    if number % 10 == 0:
        count += 1
    if number % 11 == 0 and number > 0:
        count += 4
    return count


@compiled
def taken(state: State, seat: int) -> int:
    """Return the penalty points that a seat has taken."""
    return cards.as_int((state[PILES] >> np.uint64(8 * seat)) & _POINTS_MASK)


@compiled
def row_count(state: State, row: int) -> int:
    """Return the number of cards in a row."""
    return cards.as_int(state[ROWS + row] >> _COUNT)


@compiled
def row_card(state: State, row: int, place: int) -> int:
    """Return a card of a row, counted from the bottom."""
    return cards.as_int((state[ROWS + row] >> np.uint64(7 * place)) & _CARD_MASK)


@compiled
def row_end(state: State, row: int) -> int:
    """Return the last card of a row, its highest."""
    return row_card(state, row, row_count(state, row) - 1)


@compiled
def row_points(deck: Deck, state: State, row: int) -> int:
    """Return the penalty points in a row."""
    total = 0
    for place in range(row_count(state, row)):
        total += points(deck, row_card(state, row, place))
    return total


@compiled
def cheapest_row(deck: Deck, state: State) -> int:
    """Return the first row with the fewest penalty points."""
    best = 0
    for row in range(1, deck.rows):
        if row_points(deck, state, row) < row_points(deck, state, best):
            best = row
    return best


@compiled
def landing_row(deck: Deck, state: State, card: int) -> int:
    """Return the row whose last card is the highest below `card`, or -1 if all are higher."""
    best = -1
    for row in range(deck.rows):
        end = row_end(state, row)
        if end < card and (best < 0 or end > row_end(state, best)):
            best = row
    return best


@compiled
def start_row(state: State, row: int, card: int) -> None:
    """Make a card the only one in its row."""
    state[ROWS + row] = np.uint64(card) | (np.uint64(1) << _COUNT)


@compiled
def _reveal(deck: Deck, state: State) -> int:
    """Reveal all committed cards; return the seat of the lowest."""
    lowest = 0
    for seat in range(deck.players):
        card = committed_card(state, seat)
        cards.remove(state, hand(deck, seat), card)
        cards.put(state, SEEN, card)
        if card < committed_card(state, lowest):
            lowest = seat
    return lowest


@compiled
def _ask_for_row(state: State, seat: int) -> None:
    """Let `seat` choose the row to take, before cards are laid down."""
    state[0] |= np.uint64(seat + 1) << _CHOOSER


@compiled
def _settle(deck: Deck, state: State, row: int) -> None:
    """Lay the revealed cards down in ascending order and end the round.

    Only the first can be lower than every row, because a row it starts is below all others. It takes `row` or, if that is -1,
    the row committed with it.
    """
    last = -1
    for _ in range(deck.players):
        seat = -1
        for other in range(deck.players):
            card = committed_card(state, other)
            if card > last and (seat < 0 or card < committed_card(state, seat)):
                seat = other
        last = committed_card(state, seat)
        _lay_down(deck, state, seat, last, row if row >= 0 else committed_row(state, seat))
    clear_round(state)
    state[0] += np.uint64(1)


@compiled
def _lay_down(deck: Deck, state: State, seat: int, card: int, fallback: int) -> None:
    """Add a card to its row, or take a row: the full row it belongs to, or `fallback` if there is none."""
    row = landing_row(deck, state, card)
    if row >= 0 and row_count(state, row) < FULL_ROW:
        word = state[ROWS + row]
        state[ROWS + row] = (word | (np.uint64(card) << np.uint64(7 * row_count(state, row)))) + (np.uint64(1) << _COUNT)
        return
    if row < 0:
        row = fallback
    state[PILES] += np.uint64(row_points(deck, state, row)) << np.uint64(8 * seat)
    start_row(state, row, card)


@compiled
def mover(deck: Deck, state: State) -> int:
    """Return the player to move: the one who must choose a row, else the next to commit."""
    if chooser(state) >= 0:
        return chooser(state)
    return (first_seat(state) + committed(state)) % deck.players


@compiled
def card_of(deck: Deck, state: State, action: int) -> int:
    """Return the card that an action commits."""
    return action if switch(state, AFTER) else action // deck.rows


@compiled
def rows_on_offer(deck: Deck, state: State, card: int) -> int:
    """Return the number of actions that commit a card: one per row that it may be committed with, or one."""
    if switch(state, AFTER) or (switch(state, NEEDED) and landing_row(deck, state, card) >= 0):
        return 1
    return deck.rows


@compiled
def play_action(deck: Deck, state: State, action: int) -> None:
    """Commit a card, and settle the round with the last one; or choose a row, and settle it."""
    if chooser(state) >= 0:
        _settle(deck, state, action - deck.cards)
        return
    card = card_of(deck, state, action)
    commit(state, mover(deck, state), card, 0 if switch(state, AFTER) else action - card * deck.rows)
    if committed(state) < deck.players:
        return
    lowest = _reveal(deck, state)
    if switch(state, AFTER) and landing_row(deck, state, committed_card(state, lowest)) < 0:
        _ask_for_row(state, lowest)
    else:
        _settle(deck, state, -1)
