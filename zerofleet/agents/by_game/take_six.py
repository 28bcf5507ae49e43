"""Rule-based players of Take 6!: the baselines for its networks.

Both use only the cards in their own hand and the rows. They take the row with the fewest penalty points, the first of
several, whether the rules require this choice before the reveal or after it.
"""

from __future__ import annotations

import numpy as np

from games import core
from games.compiled import compiled
from games.core import Game, State
from games.positions import legal
from games.take_six import TakeSix, cards, table
from games.take_six.rules import deck_of
from games.take_six.table import Deck
from zerofleet.agents.base import Choice, Evaluate
from zerofleet.agents.spelling import Spelling
from zerofleet.errors import InvalidRequest

__all__ = ["TakeSixComparisonAgent", "from_spelling"]

_FAR = 1 << 30


class TakeSixComparisonAgent:
    """Plays the card closest above the end of a row.

    The plain variant minimises the difference between a card and a lower end of one of the rows with the fewest cards, even
    if the card would land on another row. The plus variant minimises the difference between a card and the end of the row
    where it would land, over rows that are not full. Ties go to the lowest card; the lowest card of the hand is also played
    if no card qualifies.
    """

    def __init__(self, game: Game, *, plus: bool = False) -> None:
        """Create the plain or the plus variant; raises `InvalidRequest` for another game."""
        self.name = "take_six_comparison_plus" if plus else "take_six_comparison"
        self._plus = plus
        if not isinstance(game, TakeSix):
            raise InvalidRequest(f"{self.name} plays take_six, not {game.spec().name}; `random` plays every game")

    def choose(self, game: Game, state: State, rng: np.random.Generator) -> Choice:
        """See `zerofleet.agents.Agent`."""
        if not isinstance(game, TakeSix):
            raise InvalidRequest(f"{self.name} plays take_six, not {game.spec().name}")
        deck = deck_of(game)
        row = table.cheapest_row(deck, state)
        if core.round_of(game, state) < 0:
            return Choice(game.cards + row)
        card = _closest_card(deck, state, core.to_move(game, state), self._plus)
        if game.row_choice == "after":
            return Choice(card)
        action = card * game.rows + row
        return Choice(action if action in legal(game, state) else card * game.rows)


def from_spelling(spelling: Spelling, game: Game, evaluate: Evaluate | None) -> TakeSixComparisonAgent:
    """Return the agent written `take_six_comparison` or `take_six_comparison_plus`."""
    spelling.refuse_argument()
    spelling.refuse_options()
    return TakeSixComparisonAgent(game, plus=spelling.name.endswith("_plus"))


@compiled
def _closest_card(deck: Deck, state: State, seat: int, plus: bool) -> int:
    """Return the card of the seat's hand that the agent plays."""
    own = table.hand(deck, seat)
    lowest = card = cards.next_card(state, own, 0)
    best, smallest = lowest, _FAR
    while card >= 0:
        gap = _gap_where_it_lands(deck, state, card) if plus else _gap_to_shortest(deck, state, card)
        if gap < smallest:
            best, smallest = card, gap
        card = cards.next_card(state, own, card + 1)
    return best


@compiled
def _gap_where_it_lands(deck: Deck, state: State, card: int) -> int:
    """Return the gap between the card and the end of the row where it would land; `_FAR` if the row is full or absent."""
    row = table.landing_row(deck, state, card)
    if row < 0 or table.row_count(state, row) == table.FULL_ROW:
        return _FAR
    return card - table.row_end(state, row)


@compiled
def _gap_to_shortest(deck: Deck, state: State, card: int) -> int:
    """Return the gap between the card and the nearest lower end of the rows with the fewest cards, or `_FAR`."""
    fewest = table.FULL_ROW
    for row in range(deck.rows):
        fewest = min(fewest, table.row_count(state, row))
    smallest = _FAR
    for row in range(deck.rows):
        gap = card - table.row_end(state, row)
        if table.row_count(state, row) == fewest and gap > 0:
            smallest = min(smallest, gap)
    return smallest
