"""Encodings of Take 6! for one viewer: two formats, both a flat bit vector as C x 1 x 1 planes.

Axes: N cards of the deck, R rows, P players, the viewer first, then by seat. Other hands and committed cards are not
encoded. "Own" refers to the viewer's hand.

    rich                                                      document (682 + 9 P bits for 104 cards and 4 rows)
    N        own cards                                        N        own cards
    R x N    cards lower than the end of the row              R x N    end of the row
    R x 5    number of cards in the row                       R x 5    number of cards in the row
    R x 27   points in the row, unary                         R x 7    points in the row, by bin
    P x 64   points taken, unary                              P x 9    points taken, by bin
    N        publicly seen cards                              N        publicly seen cards
    10       number of own cards                              10       number of own cards
    6 x N    own cards by their resulting place in the row: none (lower than all rows), second, .. sixth
    5 x N    own cards with more than 0, 1, 3, 7, 15 unseen cards between them and the end of that row

If rows are chosen after the reveal, P x N bits follow: the revealed cards while a player chooses.
"""

from __future__ import annotations

import numpy as np

from games.compiled import compiled
from games.core import State
from games.kit.bits import set_bit, set_range
from games.take_six import cards, table
from games.take_six.table import Deck

__all__ = ["encode_position", "num_bits"]

_ROW_BINS = np.array([1, 2, 3, 5, 7, 10], dtype=np.int64)
_PILE_BINS = np.array([1, 2, 4, 7, 10, 15, 25, 40], dtype=np.int64)
"""Highest points of each bin except the last, which is unbounded."""
_MOST_ROW_POINTS, _MOST_PILE_POINTS = 27, 64
_PLACES = table.FULL_ROW + 1
_GAPS = 5


def num_bits(deck: Deck, *, rich: bool, after: bool) -> int:
    """Return the length of the encoding; `after`: rows are chosen after the reveal."""
    if rich:
        bits = (2 + deck.rows + _PLACES + _GAPS) * deck.cards + table.HAND
        bits += deck.rows * (5 + _MOST_ROW_POINTS) + deck.players * _MOST_PILE_POINTS
    else:
        bits = (2 + deck.rows) * deck.cards + deck.rows * (5 + 7) + 9 * deck.players + table.HAND
    return bits + (deck.players * deck.cards if after else 0)


@compiled
def encode_position(deck: Deck, state: State, viewer: int, out: np.ndarray) -> None:
    """Write the view of `viewer` into `out` (uint8 [packed_bytes])."""
    out[:] = 0
    rich = not table.switch(state, table.DOCUMENT)
    own = table.hand(deck, viewer)
    _set_cards(state, own, 0, out)
    at = _encode_rows(deck, state, rich, deck.cards, out)
    for i in range(deck.players):
        points = table.taken(state, (viewer + i) % deck.players)
        if rich:
            set_ones(out, at, min(points, _MOST_PILE_POINTS))
            at += _MOST_PILE_POINTS
        else:
            set_bit(out, at + _bin(_PILE_BINS, points))
            at += _PILE_BINS.size + 1
    _set_cards(state, table.SEEN, at, out)
    at += deck.cards
    left = cards.size(state, own)
    if left > 0:
        set_bit(out, at + left - 1)
    at += table.HAND
    if rich:
        _encode_own(deck, state, own, at, out)
        at += (_PLACES + _GAPS) * deck.cards
    if table.chooser(state) >= 0:
        for i in range(deck.players):
            set_bit(out, at + i * deck.cards + table.committed_card(state, (viewer + i) % deck.players))


@compiled
def _encode_rows(deck: Deck, state: State, rich: bool, at: int, out: np.ndarray) -> int:
    """Write ends, card counts and points of the rows from bit `at`; return the next bit."""
    for row in range(deck.rows):
        if rich:
            set_ones(out, at + row * deck.cards, table.row_end(state, row))
        else:
            set_bit(out, at + row * deck.cards + table.row_end(state, row))
    at += deck.rows * deck.cards
    for row in range(deck.rows):
        set_bit(out, at + table.FULL_ROW * row + table.row_count(state, row) - 1)
    at += table.FULL_ROW * deck.rows
    for row in range(deck.rows):
        points = table.row_points(deck, state, row)
        if rich:
            set_ones(out, at, points)
            at += _MOST_ROW_POINTS
        else:
            set_bit(out, at + _bin(_ROW_BINS, points))
            at += _ROW_BINS.size + 1
    return at


@compiled
def _encode_own(deck: Deck, state: State, own: int, at: int, out: np.ndarray) -> None:
    """Write where each own card would land and how contested that place is."""
    card = cards.next_card(state, own, 0)
    while card >= 0:
        row = table.landing_row(deck, state, card)
        end, place = -1, 0
        if row >= 0:
            end, place = table.row_end(state, row), table.row_count(state, row)
        set_bit(out, at + place * deck.cards + card)
        between = 0
        for other in range(end + 1, card):
            if not cards.has(state, table.SEEN, other) and not cards.has(state, own, other):
                between += 1
        for i in range(_GAPS):
            if between >= 1 << i:
                set_bit(out, at + (_PLACES + i) * deck.cards + card)
        card = cards.next_card(state, own, card + 1)


@compiled
def _set_cards(state: State, which: int, at: int, out: np.ndarray) -> None:
    card = cards.next_card(state, which, 0)
    while card >= 0:
        set_bit(out, at + card)
        card = cards.next_card(state, which, card + 1)


@compiled
def set_ones(out: np.ndarray, at: int, count: int) -> None:
    """Set `count` >= 0 bits from bit `at`."""
    if count > 0:
        set_range(out, at, at + count)


@compiled
def _bin(highest: np.ndarray, points: int) -> int:
    """Return the index of the bin that contains `points`."""
    i = 0
    while i < highest.size and points > highest[i]:
        i += 1
    return i
