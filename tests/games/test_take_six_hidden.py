"""Take 6!: what is hidden stays hidden, from planes, keys, deals, foreseen plays and pictures."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import games
from games import core
from games.take_six import TakeSix, cards, table
from games.take_six.rules import deck_of

ROW_CHOICES = ["before", "needed", "after"]


def set_at(state: core.State, at: int) -> set[int]:
    """The set of cards that two words of the state hold."""
    both = int(state[at]) | int(state[at + 1]) << 64
    return {card for card in range(104) if both >> card & 1}


def hand(game: TakeSix, state: core.State, seat: int) -> set[int]:
    return set_at(state, table.ROWS + game.rows + 2 * seat)


def unseen(game: TakeSix, state: core.State, viewer: int) -> list[int]:
    return sorted({*range(game.cards)} - hand(game, state, viewer) - set_at(state, table.SEEN))


def with_other_hands(game: TakeSix, state: core.State, viewer: int, rng: np.random.Generator) -> core.State:
    """The position with all that `viewer` has not seen dealt in another way, card by card."""
    other, hidden = state.copy(), unseen(game, state, viewer)
    rng.shuffle(hidden)
    for seat in range(game.players):
        if seat != viewer:
            size = len(hand(game, state, seat))
            cards.clear(other, table.hand(deck_of(game), seat))
            for _ in range(size):
                cards.put(other, table.hand(deck_of(game), seat), hidden.pop())
    return other


def positions(game: TakeSix, seed: int) -> Iterator[core.State]:
    """The positions of a random game in which somebody is to move."""
    rng = np.random.default_rng(seed)
    state = games.new_state(game, seed)
    while not core.is_over(game, state):
        yield state
        core.play(game, state, int(rng.choice(games.legal(game, state))))


def determinised(game: TakeSix, state: core.State, viewer: int, seed: int) -> core.State:
    out = np.full_like(state, 99)
    core.determinise(game, state, viewer, seed, out)
    return out


@pytest.mark.slow
@settings(deadline=None, max_examples=3)
@given(seed=st.integers(0, 2**31), players=st.integers(2, 5), row_choice=st.sampled_from(ROW_CHOICES))
@pytest.mark.parametrize("encoding", ["rich", "document"])
def test_permuted_hidden_hands_leave_every_view_unchanged(encoding: str, seed: int, players: int, row_choice: str) -> None:
    game = TakeSix(players=players, row_choice=row_choice, encoding=encoding)
    rng = np.random.default_rng(seed)
    for state in map(np.copy, positions(game, seed)):
        viewer = int(rng.integers(players))
        if table.chooser(state) < 0:  # those who have committed hold their card still; another hand needs another card
            table.clear_round(state)
            table.set_first_seat(state, viewer)
        other = with_other_hands(game, state, viewer, rng)
        assert np.array_equal(games.encode_for(game, other, viewer), games.encode_for(game, state, viewer))
        assert game.draw_for(other, viewer) == game.draw_for(state, viewer)
        assert np.array_equal(determinised(game, other, viewer, 5), determinised(game, state, viewer, 5))
        if core.to_move(game, state) == viewer:
            assert core.key(game, other) == core.key(game, state)
            assert games.legal(game, other) == games.legal(game, state)


@pytest.mark.parametrize("row_choice", ROW_CHOICES)
def test_a_committed_card_is_hidden_until_the_round_ends(row_choice: str) -> None:
    game = TakeSix(row_choice=row_choice)
    start = games.new_state(game, 3)
    looks = []
    for action in games.legal(game, start):
        state = start.copy()
        core.play(game, state, action)
        looks.append(
            (
                [games.encode_for(game, state, viewer).tobytes() for viewer in range(3)],
                [game.draw_for(state, viewer) for viewer in (1, 2)],
                [determinised(game, state, viewer, 8).tobytes() for viewer in range(3)],
                (int(core.key(game, state)), games.legal(game, state), core.round_of(game, state)),
            )
        )
    assert all(look == looks[0] for look in looks)
    assert looks[0][0] == [games.encode_for(game, start, viewer).tobytes() for viewer in range(3)]


@pytest.mark.parametrize("row_choice", ROW_CHOICES)
def test_determinise_lets_the_viewer_commit_first_and_preserves_seen_cards(row_choice: str) -> None:
    game = TakeSix(players=4, row_choice=row_choice)
    for ply, state in enumerate(positions(game, 11)):
        viewer = core.to_move(game, state)
        dealt = determinised(game, state, viewer, ply)
        assert core.to_move(game, dealt) == viewer
        assert table.committed(dealt) == (4 if table.chooser(state) >= 0 else 0)
        assert [len(hand(game, dealt, seat)) for seat in range(4)] == [len(hand(game, state, seat)) for seat in range(4)]
        hands = [card for seat in range(4) for card in hand(game, dealt, seat)]
        assert len(hands) == len(set(hands))
        assert {*hands} - hand(game, state, viewer) <= {*unseen(game, state, viewer)}


def test_every_unseen_card_is_equally_likely_in_every_other_hand() -> None:
    game, deals = TakeSix(cards=61, rows=3, first_card=0), 1500
    state = games.new_state(game, 5)
    for _ in range(12):
        core.play(game, state, games.legal(game, state)[0])
    counts = np.zeros((3, 61))
    together = 0
    hidden = unseen(game, state, 1)
    for seed in range(deals):
        dealt = determinised(game, state, 1, seed)
        for seat in range(3):
            counts[seat, list(hand(game, dealt, seat))] += 1
        together += {hidden[0], hidden[1]} <= hand(game, dealt, 0)
    expected = deals * 6 / len(hidden)
    assert (np.abs(counts[[0, 2]][:, hidden] - expected) < 5 * expected**0.5).all()
    assert counts[0].sum() == counts[2].sum() == 6 * deals
    pairs = deals * 6 * 5 / (len(hidden) * (len(hidden) - 1))
    assert abs(together - pairs) < 5 * pairs**0.5


@pytest.mark.parametrize("row_choice", ROW_CHOICES)
def test_foreseen_plays_are_the_likeliest_unseen_cards_with_their_likeliest_row(row_choice: str) -> None:
    game = TakeSix(players=4, row_choice=row_choice)
    rng = np.random.default_rng(4)
    rows = 1 if row_choice == "after" else 4
    for state in positions(game, 6):
        viewer = core.to_move(game, state)
        likelihood = rng.random(game.spec().num_actions, dtype=np.float32)
        plays = np.full(3, 99, dtype=np.int16)
        core.foresee(game, state, viewer, likelihood, plays)
        if table.chooser(state) >= 0:
            assert plays.tolist() == [-1, -1, -1]
            continue
        best = {}
        for card in unseen(game, state, viewer):
            fixed = row_choice == "needed" and table.landing_row(deck_of(game), state, card) >= 0
            best[card] = max(range(card * rows, card * rows + (1 if fixed else rows)), key=lambda action: likelihood[action])
        assert plays.tolist() == sorted(best.values(), key=lambda action: -likelihood[action])[:3]


@pytest.mark.parametrize("row_choice", ROW_CHOICES)
def test_a_foreseen_round_plays_exactly_those_cards_and_loses_none(row_choice: str) -> None:
    game = TakeSix(players=4, cards=50, row_choice=row_choice)
    rng = np.random.default_rng(9)
    rows = 1 if row_choice == "after" else 4
    chosen_rows = 0
    for state in [state.copy() for seed in range(6) for state in positions(game, seed)]:
        viewer = core.to_move(game, state)
        plays = np.full(3, -1, dtype=np.int16)
        choosing = table.chooser(state) >= 0
        core.foresee(game, state, viewer, rng.random(game.spec().num_actions, dtype=np.float32), plays)
        action = int(rng.choice(games.legal(game, state)))
        before = set_at(state, table.SEEN)
        unseen_before = {*unseen(game, state, viewer)} | hand(game, state, viewer)
        core.play_foreseen(game, state, action, plays)
        after = set_at(state, table.SEEN)
        assert after - before == (set() if choosing else {action // rows, *(plays // rows).tolist()})
        left = [hand(game, state, seat) for seat in range(4)]
        assert len({len(cards_left) for cards_left in left}) == 1
        assert sum(map(len, left)) == len(set().union(*left))
        assert set().union(*left) <= unseen_before - after
        assert core.is_over(game, state) or core.to_move(game, state) == viewer
        if table.chooser(state) < 0:
            assert table.committed(state) == 0
        chosen_rows += table.chooser(state) == viewer
    assert (chosen_rows > 0) == (row_choice == "after")


def test_an_opponent_who_must_choose_takes_the_cheapest_row() -> None:
    game = TakeSix(players=2, row_choice="after")
    state = game.deal(rows=[55, 44, 31, 90], hands=[[*range(60, 70)], [*range(1, 11)]])
    core.play_foreseen(game, state, 60 - 1, np.array([13 - 1], dtype=np.int16))  # 13 is in no hand: it is given to player 1
    assert [table.row_end(state, row) + 1 for row in range(4)] == [60, 44, 13, 90]
    assert [table.taken(state, seat) for seat in range(2)] == [0, 1]
    assert hand(game, state, 1) == {*range(1, 10)}  # for their lowest card, which is 0 from 0


def test_round_of_is_the_number_of_the_round() -> None:
    game = TakeSix()
    rounds = [core.round_of(game, state) for state in positions(game, 1)]
    assert rounds == [number for number in range(10) for _ in range(3)]
