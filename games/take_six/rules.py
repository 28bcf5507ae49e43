"""Take 6! (6 nimmt!): all players reveal a card at once; a player who would add the sixth card to a row takes the five.

Each round all players choose a card in secret, one seat after another, and, depending on `row_choice`, the row they take
should their card be lower than every row. Then the cards are laid down in ascending order. Card n with row r is action
n * rows + r, both counted from 0, written as the printed number and the row counted from 1: `46@2`.

`games.take_six.table` defines the state layout and the course of a round, `games.take_six.hidden` determinisation,
`games.take_six.encoding` the planes, `games.take_six.drawing` the pictures.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from games import notation
from games.compiled import compiled
from games.core import GameSpec, State, register, rule
from games.errors import GameError, IllegalMove, InvalidParameters
from games.kit.cells import Cell
from games.kit.randomness import mix64
from games.take_six import cards, drawing, hidden, table
from games.take_six.encoding import encode_position, num_bits
from games.take_six.table import HAND, PILES, SEEN, Deck

__all__ = ["TakeSix", "deck_of"]

_CHOICES = {
    "row_choice": ("before", "needed", "after"),
    "ties": ("shared", "strict"),
    "encoding": ("rich", "document"),
}


@register("take_six")
class TakeSix(NamedTuple):
    """Take 6! for two to five players, one deal per game."""

    players: int = 3
    cards: int = 104
    first_card: int = 1
    rows: int = 4
    row_choice: str = "before"
    ties: str = "shared"
    encoding: str = "rich"
    points_of_55: int = 6

    def spec(self) -> GameSpec:
        """See `games.core.Game`."""
        return _spec(self)

    def action_name(self, state: State, action: int) -> str:
        """See `games.core.Game`."""
        if self.row_choice == "after":
            return str(action + self.first_card) if action < self.cards else f"@{action - self.cards + 1}"
        card, row = divmod(action, self.rows)
        number = str(card + self.first_card)
        if self.row_choice == "needed" and table.landing_row(deck_of(self), state, card) >= 0:
            return number
        return f"{number}@{row + 1}"

    def parse_action(self, state: State, text: str) -> int:
        """Parse `46@2`, or `46` alone if no row can be needed; raises `IllegalMove`."""
        named = notation.legal_names(self, state)
        wanted = text.strip().lower()
        if wanted in named:
            return named[wanted]
        reason = ""
        action = named.get(f"{wanted}@1")
        if action is not None:
            if table.landing_row(deck_of(self), state, action // self.rows) >= 0:
                return action
            reason = f" (it is lower than every row: name the row to take, such as {wanted}@1)"
        listed = " ".join(named) or "none, the game is over"
        raise IllegalMove(f"{text.strip()!r} is not a legal move here{reason}; legal: {listed}")

    def deal(self, rows: Sequence[int], hands: Sequence[Sequence[int]]) -> State:
        """Return the start of a game with the given cards, by printed number: one per row, ten per player.

        Raises `GameError` if a card is missing from the deck or repeated, or if their number is wrong.
        """
        dealt = [*rows, *(card for hand in hands for card in hand)]
        lowest, highest = self.first_card, self.first_card + self.cards - 1
        if len(rows) != self.rows or [len(hand) for hand in hands] != [HAND] * self.players:
            raise GameError(f"{self} needs {self.rows} cards in rows and {self.players} hands of {HAND}")
        if len(set(dealt)) < len(dealt) or not all(lowest <= card <= highest for card in dealt):
            raise GameError(f"cards must be different and between {lowest} and {highest}; got {dealt}")
        state = np.zeros(self.spec().state_size, dtype=np.uint64)
        table.start(state, _switches(self))
        for row, card in enumerate(rows):
            _open_row(state, row, card - lowest)
        for seat, hand in enumerate(hands):
            for card in hand:
                cards.put(state, table.hand(deck_of(self), seat), card - lowest)
        return state

    def draw(self, state: State) -> str:
        """See `games.core.Game`."""
        return drawing.draw(deck_of(self), state, None)

    def draw_for(self, state: State, viewer: int) -> str:
        """Return a text drawing in the view of `viewer`, without other hands or committed cards."""
        return drawing.draw(deck_of(self), state, viewer)

    def draw_svg(self, state: State) -> str:
        """Return an SVG picture of the rows, with all hands visible."""
        return drawing.draw_svg(deck_of(self), state)

    def draw_svg_for(self, state: State, viewer: int) -> str:
        """Return an SVG picture in the view of `viewer`: other hands are face down, as in `draw_for`."""
        return drawing.draw_svg(deck_of(self), state, viewer)

    def draw_svg_undealt(self) -> str:
        """Return an SVG picture of the table before the deal: empty rows, and hands face down."""
        return drawing.draw_svg_undealt(deck_of(self))

    def outcome_name(self, before: State, after: State, viewer: int) -> str:
        """Return the points that `viewer` takes between two positions, or that a row is to be chosen: both are public."""
        if table.chooser(before) < 0 and table.chooser(after) == viewer:
            return "must choose a row"
        points = int(table.taken(after, viewer)) - int(table.taken(before, viewer))
        return drawing.takes(points)

    def cells(self, state: State) -> tuple[Cell, ...]:
        """Return the rows, and the cards of the player to move, for that player's clicks; no other hand."""
        return drawing.cells(deck_of(self), state)

    def action_path(self, state: State, action: int) -> tuple[str, ...]:
        """Return the card to click for an action, and the row, where the action has one."""
        card, _, row = self.action_name(state, action).partition("@")
        return tuple(part for part in (card, row and f"row {row}") if part)


@functools.lru_cache(maxsize=64)
def _spec(game: TakeSix) -> GameSpec:
    notation.require_range("take_six", "players", game.players, 2, 5)
    notation.require_range("take_six", "rows", game.rows, 1, 8)
    dealt = HAND * game.players + game.rows
    notation.require_range("take_six", "cards", game.cards, dealt + 1, 104)  # else a player of two could infer the other hand
    notation.require_range("take_six", "first_card", game.first_card, 0, 1)
    notation.require_range("take_six", "points_of_55", game.points_of_55, 6, 7)
    for name, choices in _CHOICES.items():
        if (value := getattr(game, name)) not in choices:
            raise InvalidParameters(f"take_six: {name}={value!r} is unknown; it must be one of {', '.join(choices)}")
    deck, after = deck_of(game), game.row_choice == "after"
    return GameSpec(
        name="take_six",
        rules_version=1,
        num_players=game.players,
        num_actions=game.cards + game.rows if after else game.cards * game.rows,
        max_legal=max(HAND, game.rows) if after else HAND * game.rows,  # a full hand, each card with each row
        state_dtype=np.dtype(np.uint64),
        state_size=table.hand(deck, game.players),
        planes=(num_bits(deck, rich=game.encoding == "rich", after=after), 1, 1),
        max_plies=HAND * (game.players + 1) if after else HAND * game.players,  # at most one row choice per round
        information="hidden",
    )


@compiled
def deck_of(game: TakeSix) -> Deck:
    """Return the numeric parameters."""
    return Deck(game.players, game.cards, game.first_card, game.rows, game.points_of_55)


@compiled
def _switches(game: TakeSix) -> int:
    switches = 0
    if game.row_choice == "after":
        switches |= table.AFTER
    if game.row_choice == "needed":
        switches |= table.NEEDED
    if game.ties == "strict":
        switches |= table.STRICT
    if game.encoding == "document":
        switches |= table.DOCUMENT
    return switches


@compiled
def _open_row(state: State, row: int, card: int) -> None:
    """Lay the first card of a row."""
    table.start_row(state, row, card)
    cards.put(state, SEEN, card)


@rule(TakeSix)
def reset(game: TakeSix, state: State, seed: int) -> None:
    """Deal each card, in ascending order, to a row, a hand or neither, with probability proportional to the free places."""
    deck = deck_of(game)
    table.start(state, _switches(game))
    for card in range(deck.cards):
        place = hidden.draw_below(seed, card, deck.cards - card)
        for row in range(deck.rows):
            if state[table.ROWS + row] == np.uint64(0):
                if place == 0:
                    _open_row(state, row, card)
                place -= 1
        for seat in range(deck.players):
            if place >= 0:
                free = HAND - cards.size(state, table.hand(deck, seat))
                if place < free:
                    cards.put(state, table.hand(deck, seat), card)
                place -= free


@rule(TakeSix)
def to_move(game: TakeSix, state: State) -> int:
    """Return the player who must choose a row, else the next seat to commit, from the first seat on."""
    return table.mover(deck_of(game), state)


@rule(TakeSix)
def legal_actions(game: TakeSix, state: State, out: np.ndarray) -> int:
    """List every card of the hand with every row it may be committed with; or every row."""
    deck = deck_of(game)
    if table.chooser(state) >= 0:
        for row in range(deck.rows):
            out[row] = deck.cards + row
        return deck.rows
    own = table.hand(deck, table.mover(deck, state))
    stride = 1 if table.switch(state, table.AFTER) else deck.rows
    count = 0
    card = cards.next_card(state, own, 0)
    while card >= 0:
        for i in range(table.rows_on_offer(deck, state, card)):
            out[count] = card * stride + i
            count += 1
        card = cards.next_card(state, own, card + 1)
    return count


@rule(TakeSix)
def play(game: TakeSix, state: State, action: int) -> None:
    """Commit a card, and settle the round with the last one; or choose a row, and settle it."""
    table.play_action(deck_of(game), state, action)


@rule(TakeSix)
def is_over(game: TakeSix, state: State) -> bool:
    """Return whether all hands are empty and all cards are laid down."""
    return table.turn(state) == HAND


@rule(TakeSix)
def scores(game: TakeSix, state: State, out: np.ndarray) -> None:
    """Score 1 for the fewest points, -1 for the most, 0 between and if all are equal; `ties` scores all tied or none."""
    fewest, most = table.taken(state, 0), table.taken(state, 0)
    for seat in range(game.players):
        fewest = min(fewest, table.taken(state, seat))
        most = max(most, table.taken(state, seat))
    with_fewest, with_most = 0, 0
    for seat in range(game.players):
        with_fewest += table.taken(state, seat) == fewest
        with_most += table.taken(state, seat) == most
    strict = table.switch(state, table.STRICT)
    out[:] = 0.0
    for seat in range(game.players):
        if fewest < most and table.taken(state, seat) == fewest and not (strict and with_fewest > 1):
            out[seat] = 1.0
        if fewest < most and table.taken(state, seat) == most and not (strict and with_most > 1):
            out[seat] = -1.0


@rule(TakeSix)
def encode(game: TakeSix, state: State, viewer: int, out: np.ndarray) -> None:
    """See `games.take_six.encoding`."""
    encode_position(deck_of(game), state, viewer, out)


@rule(TakeSix)
def key(game: TakeSix, state: State) -> np.uint64:
    """Return a hash of the view of the player to move, without other hands and committed cards."""
    deck = deck_of(game)
    mover = table.mover(deck, state)
    own = table.hand(deck, mover)
    choosing = table.chooser(state) >= 0
    mixed = mix64(np.uint64(1 + 2 * mover + choosing))
    if choosing:
        mixed = mix64(mixed ^ state[table.COMMITS])
    for i in range(PILES, table.ROWS + game.rows):
        mixed = mix64(mixed ^ state[i])
    mixed = mix64(mixed ^ state[own])
    return mix64(mixed ^ state[own + 1])


@rule(TakeSix)
def round_of(game: TakeSix, state: State) -> int:
    """Return the number of rounds settled; -1 for the choice of a row after the reveal, which is public."""
    return -1 if table.chooser(state) >= 0 else table.turn(state)


@rule(TakeSix)
def determinise(game: TakeSix, state: State, viewer: int, seed: int, out: State) -> None:
    """Redeal the other hands from the cards `viewer` has not seen, undo commits, and let `viewer` commit first."""
    for i in range(state.size):
        out[i] = state[i]
    table.set_first_seat(out, viewer)
    if table.chooser(out) < 0:
        table.clear_round(out)
    hidden.deal_hidden(deck_of(game), out, viewer, seed)


@rule(TakeSix)
def foresee(game: TakeSix, state: State, viewer: int, likelihood: np.ndarray, plays: np.ndarray) -> None:
    """Write the likeliest cards `viewer` has not seen, each with its likeliest row; -1 while a row is being chosen."""
    plays[:] = -1
    if table.chooser(state) < 0 and table.turn(state) < HAND:
        hidden.likeliest_plays(deck_of(game), state, viewer, likelihood, plays)


@rule(TakeSix)
def play_foreseen(game: TakeSix, state: State, action: int, plays: np.ndarray) -> None:
    """Play the round with the given cards of the others; an opponent who must choose a row takes the cheapest."""
    hidden.play_round(deck_of(game), state, action, plays)
