"""Hidden information of Take 6!: determinisation of the other hands, and prediction of the others' plays."""

from __future__ import annotations

import numpy as np

from games.compiled import compiled
from games.core import State
from games.kit.randomness import mix64
from games.take_six import cards, table
from games.take_six.table import SEEN, Deck

__all__ = ["deal_hidden", "draw_below", "likeliest_plays", "play_round"]

_STRIDE = np.uint64(0x9E3779B97F4A7C15)  # increment of SplitMix64, as in games.kit.randomness
_SHARE = 1.0 / 9007199254740992.0  # 2**-53


@compiled
def draw_below(seed: int, draw: int, bound: int) -> int:
    """Return the `draw`-th integer in [0, bound) of a seed (SplitMix64 by index)."""
    bits = mix64(mix64(np.uint64(seed)) + np.uint64(draw) * _STRIDE)
    return int((bits >> np.uint64(11)) * _SHARE * bound)


@compiled
def deal_hidden(deck: Deck, state: State, viewer: int, seed: int) -> None:
    """Redeal the other hands from the cards that `viewer` has not seen.

    Each unseen card, in ascending order, goes to a hand or stays out with probability proportional to the free places, so
    the result depends only on the view and on `seed`, not on the true hands.
    """
    own = table.hand(deck, viewer)
    size = cards.size(state, own)
    unseen = deck.cards - cards.size(state, SEEN) - size
    for seat in range(deck.players):
        if seat != viewer:
            cards.clear(state, table.hand(deck, seat))
    for card in range(deck.cards):
        if cards.has(state, SEEN, card) or cards.has(state, own, card):
            continue
        place = draw_below(seed, card, unseen)
        unseen -= 1
        for seat in range(deck.players):
            if seat != viewer and place >= 0:
                free = size - cards.size(state, table.hand(deck, seat))
                if place < free:
                    cards.put(state, table.hand(deck, seat), card)
                place -= free


@compiled
def likeliest_plays(deck: Deck, state: State, viewer: int, likelihood: np.ndarray, plays: np.ndarray) -> None:
    """Write the likeliest actions with cards that `viewer` has not seen into `plays`, one per card, likeliest first."""
    plays[:] = -1
    own = table.hand(deck, viewer)
    for card in range(deck.cards):
        if cards.has(state, SEEN, card) or cards.has(state, own, card):
            continue
        offered = table.rows_on_offer(deck, state, card)
        best = card if table.switch(state, table.AFTER) else card * deck.rows
        for action in range(best + 1, best + offered):
            if likelihood[action] > likelihood[best]:
                best = action
        place = plays.size
        while place > 0 and (plays[place - 1] < 0 or likelihood[best] > likelihood[plays[place - 1]]):
            if place < plays.size:
                plays[place] = plays[place - 1]
            place -= 1
        if place < plays.size:
            plays[place] = best


@compiled
def play_round(deck: Deck, state: State, action: int, plays: np.ndarray) -> None:
    """Play the round with the given actions of the others; an opponent who must choose a row takes the cheapest.

    An opponent without the card swaps the lowest card of the hand for it, with its holder or the undealt cards.
    """
    viewer = table.mover(deck, state)
    table.set_first_seat(state, viewer)
    if table.chooser(state) >= 0:
        table.play_action(deck, state, action)
        return
    table.clear_round(state)
    for i in range(plays.size):
        _hand_over(deck, state, (viewer + 1 + i) % deck.players, table.card_of(deck, state, plays[i]))
    table.play_action(deck, state, action)
    for i in range(plays.size):
        table.play_action(deck, state, plays[i])
    if table.chooser(state) >= 0 and table.chooser(state) != viewer:
        table.play_action(deck, state, deck.cards + table.cheapest_row(deck, state))


@compiled
def _hand_over(deck: Deck, state: State, seat: int, card: int) -> None:
    """Give `seat` an unseen card in exchange for its lowest, which is not yet reserved: cards are handed over in seat order."""
    own = table.hand(deck, seat)
    if cards.has(state, own, card):
        return
    given = cards.next_card(state, own, 0)
    for other in range(deck.players):
        if cards.has(state, table.hand(deck, other), card):
            cards.remove(state, table.hand(deck, other), card)
            cards.put(state, table.hand(deck, other), given)
    cards.remove(state, own, given)
    cards.put(state, own, card)
