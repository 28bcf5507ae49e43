"""A small game of hidden hands and secret rounds: the highest card of a round takes its points.

Everybody is dealt a hand. In each round all choose a card in secret, one seat after another; the highest card wins as many
points as the round's number, counted from 1. Points map to scores in [-1, 1]: a share of all points, doubled, less 1.

State (int64): first seat, round, cards laid open (bits), then for each seat: card committed + 1, points, hand (bits). A
committed card stays in the hand until the round ends, so that nothing tells of it.

Planes (bits x 1 x 1): the viewer's hand, the cards laid open, and points one-hot for each player, the viewer first.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from games import notation
from games.compiled import compiled
from games.core import GameSpec, State, register, rule
from games.kit.bits import set_bit
from games.kit.randomness import mix64

FIRST, ROUND, OPEN, COMMITS = range(4)


@register("sealed_bids")
class SealedBids(NamedTuple):
    """Parameters: players, cards in the deck, cards in a hand."""

    players: int = 3
    cards: int = 11
    hand: int = 3

    def spec(self) -> GameSpec:
        """See `games.core.Game`."""
        return GameSpec(
            name="sealed_bids",
            rules_version=1,
            num_players=self.players,
            num_actions=self.cards,
            max_legal=self.hand,
            state_dtype=np.dtype(np.int64),
            state_size=COMMITS + 3 * self.players,
            planes=(2 * self.cards + self.players * (total_points(self) + 1), 1, 1),
            max_plies=self.players * self.hand,
            information="hidden",
        )

    def action_name(self, state: State, action: int) -> str:
        """See `games.core.Game`."""
        return str(action)

    def parse_action(self, state: State, text: str) -> int:
        """See `games.core.Game`."""
        return notation.parse_listed(self, state, text)

    def draw(self, state: State) -> str:
        """See `games.core.Game`."""
        return f"round {state[ROUND] + 1}: {state[COMMITS:].reshape(3, -1).tolist()}"


@compiled
def total_points(game: SealedBids) -> int:
    """Points of all rounds."""
    return game.hand * (game.hand + 1) // 2


@compiled
def points_at(game: SealedBids, seat: int) -> int:
    """Where the state has a seat's points."""
    return COMMITS + game.players + seat


@compiled
def hand_at(game: SealedBids, seat: int) -> int:
    """Where the state has a seat's hand."""
    return COMMITS + 2 * game.players + seat


@compiled
def deal_to(game: SealedBids, state: State, taken: int, skipped: int, seed: int) -> None:
    """Give every seat but one as many cards as the round leaves, from those that are not `taken`."""
    word = mix64(np.uint64(seed) + np.uint64(1))
    for seat in range(game.players):
        if seat == skipped:
            continue
        state[hand_at(game, seat)] = 0
        for _ in range(game.hand - state[ROUND]):
            while True:
                word = mix64(word + np.uint64(0x9E3779B97F4A7C15))
                card = np.int64(word >> np.uint64(33)) % game.cards
                if not taken >> card & 1:
                    break
            taken |= 1 << card
            state[hand_at(game, seat)] |= 1 << card


@compiled
def begin_round(game: SealedBids, state: State, first: int) -> None:
    """Take back what was committed; `first` commits first."""
    state[FIRST] = first
    for seat in range(game.players):
        state[COMMITS + seat] = 0


@rule(SealedBids)
def reset(game: SealedBids, state: State, seed: int) -> None:
    """Deal; the seed says who begins."""
    state[:] = 0
    begin_round(game, state, seed % game.players)
    deal_to(game, state, 0, -1, seed)


@rule(SealedBids)
def to_move(game: SealedBids, state: State) -> int:
    """Seats commit in turn."""
    committed = 0
    for seat in range(game.players):
        committed += state[COMMITS + seat] > 0
    return (state[FIRST] + committed) % game.players


@rule(SealedBids)
def legal_actions(game: SealedBids, state: State, out: np.ndarray) -> int:
    """Any card of the hand."""
    if is_over(game, state):
        return 0
    count = 0
    own = state[hand_at(game, to_move(game, state))]
    for card in range(game.cards):
        if own >> card & 1:
            out[count] = card
            count += 1
    return count


@rule(SealedBids)
def play(game: SealedBids, state: State, action: int) -> None:
    """Commit a card; the last one ends the round."""
    state[COMMITS + to_move(game, state)] = action + 1
    best = 0
    for seat in range(game.players):
        if state[COMMITS + seat] == 0:
            return
        if state[COMMITS + seat] > state[COMMITS + best]:
            best = seat
    state[ROUND] += 1
    state[points_at(game, best)] += state[ROUND]
    for seat in range(game.players):
        card = state[COMMITS + seat] - 1
        state[OPEN] |= 1 << card
        state[hand_at(game, seat)] &= ~(1 << card)
    begin_round(game, state, state[FIRST])


@rule(SealedBids)
def is_over(game: SealedBids, state: State) -> bool:
    """The hands are empty."""
    return bool(state[ROUND] == game.hand)


@rule(SealedBids)
def scores(game: SealedBids, state: State, out: np.ndarray) -> None:
    """Shares of the points."""
    for seat in range(game.players):
        out[seat] = 2.0 * state[points_at(game, seat)] / total_points(game) - 1.0


@rule(SealedBids)
def encode(game: SealedBids, state: State, viewer: int, out: np.ndarray) -> None:
    """Own hand, open cards, points."""
    out[:] = 0
    for card in range(game.cards):
        if state[hand_at(game, viewer)] >> card & 1:
            set_bit(out, card)
        if state[OPEN] >> card & 1:
            set_bit(out, game.cards + card)
    for i in range(game.players):
        points = state[points_at(game, (viewer + i) % game.players)]
        set_bit(out, 2 * game.cards + i * (total_points(game) + 1) + points)


@rule(SealedBids)
def key(game: SealedBids, state: State) -> Any:
    """The whole truth, mixed: a search that told nodes apart by it would cheat."""
    mixed = np.uint64(17)
    for i in range(state.size):
        mixed = mix64(mixed ^ np.uint64(state[i]))
    return mixed


@rule(SealedBids)
def round_of(game: SealedBids, state: State) -> int:
    """Rounds played."""
    return state[ROUND]


@rule(SealedBids)
def determinise(game: SealedBids, state: State, viewer: int, seed: int, out: State) -> None:
    """Deal the other hands anew; the viewer commits first."""
    for i in range(state.size):
        out[i] = state[i]
    begin_round(game, out, viewer)
    deal_to(game, out, state[OPEN] | state[hand_at(game, viewer)], viewer, seed)


@rule(SealedBids)
def foresee(game: SealedBids, state: State, viewer: int, likelihood: np.ndarray, plays: np.ndarray) -> None:
    """The likeliest cards that the viewer does not see."""
    known = state[OPEN] | state[hand_at(game, viewer)]
    for i in range(plays.size):
        best = -1
        for card in range(game.cards):
            if not known >> card & 1 and (best < 0 or likelihood[card] > likelihood[best]):
                best = card
        plays[i] = best
        known |= 1 << best


@rule(SealedBids)
def play_foreseen(game: SealedBids, state: State, action: int, plays: np.ndarray) -> None:
    """Give the others the cards they are to play, and play the round."""
    viewer = to_move(game, state)
    begin_round(game, state, viewer)
    for i in range(plays.size):
        seat = (viewer + 1 + i) % game.players
        wanted = 1 << np.int64(plays[i])
        own = state[hand_at(game, seat)]
        if own & wanted:
            continue
        given = own & -own
        for other in range(game.players):
            if state[hand_at(game, other)] & wanted:
                state[hand_at(game, other)] ^= wanted | given
        state[hand_at(game, seat)] = own ^ given | wanted
    play(game, state, action)
    for i in range(plays.size):
        play(game, state, np.int64(plays[i]))
