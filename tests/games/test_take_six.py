"""Take 6!: dealing, rounds, penalties, notation; every rule against a slow version of the game on lists."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import games
from games import core
from games.kit import bits
from games.notation import legal_names
from games.take_six import TakeSix, table
from games.take_six.rules import deck_of

SVG = "{http://www.w3.org/2000/svg}"
WIDEST = 0.602  # of the font size: a character of DejaVu Sans Mono, the first font of the pictures

REDUCED = TakeSix(cards=61, rows=3, first_card=0)
VARIANTS = [
    TakeSix(),
    TakeSix(row_choice="after"),
    TakeSix(row_choice="needed", points_of_55=7),
    TakeSix(players=2, encoding="document", ties="strict"),
    TakeSix(players=4, encoding="document", row_choice="after"),
    TakeSix(players=5, rows=2, encoding="document"),
    TakeSix(players=5, cards=53, rows=2, row_choice="after", ties="strict"),
    REDUCED,
    REDUCED._replace(encoding="document", row_choice="needed"),
    TakeSix(players=2, cards=22, rows=1, row_choice="after"),
]

# What three players laid down in ten rounds, and the rows and penalties before each; the printed record of a game.
HUMAN_GAME = """
46  1 52 | 42             | 11           | 51             | 0 0 0
 4 56 43 | 1              | 11 46        | 51 52          | 0 1 0
48  6 50 | 1 4 43         | 11 46        | 51 52 56       | 0 1 0
60  2 58 | 1 4 43 48 50   | 6            | 51 52 56       | 0 7 0
23 14 59 | 58 60          | 6            | 2              | 0 10 7
13 19 22 | 58 60          | 6 14 23 59   | 2              | 0 10 7
30 24 49 | 58 60          | 6 14 23 59   | 2 13 19 22     | 0 10 7
37 41 29 | 58 60          | 6 14 23 59   | 30 49          | 9 10 7
33 44  0 | 58 60          | 29 37 41     | 30 49          | 9 10 11
18 57 20 | 58 60          | 29 37 41 44  | 0 33           | 9 10 15
         | 18 20          | 29 37 41 44 57 | 0 33         | 13 10 15
"""
HUMAN_ROWS = {(0, 1): 1, (2, 1): 2, (3, 1): 3, (7, 2): 2, (8, 2): 3, (9, 0): 1}  # (round, seat): the row that was taken


def lines_of_the_human_game() -> Iterator[list[list[int]]]:
    for line in HUMAN_GAME.strip("\n").splitlines():
        yield [[int(number) for number in part.split()] for part in line.split("|")]


def rows_of(game: TakeSix, state: core.State) -> list[list[int]]:
    """The rows by printed numbers."""
    return [
        [table.row_card(state, row, i) + game.first_card for i in range(table.row_count(state, row))]
        for row in range(game.rows)
    ]


def hand_of(game: TakeSix, state: core.State, seat: int) -> list[int]:
    """A hand by printed numbers, ascending."""
    words = [int(word) for word in state[table.hand(deck_of(game), seat) :][:2]]
    return [n + game.first_card for n in range(128) if words[n // 64] >> n % 64 & 1]


def piles_of(game: TakeSix, state: core.State) -> list[int]:
    return [table.taken(state, seat) for seat in range(game.players)]


class Slow:
    """The game on lists of printed numbers, from the words of the rules."""

    def __init__(self, game: TakeSix, state: core.State) -> None:
        self.game = game
        self.rows = rows_of(game, state)
        self.hands = [hand_of(game, state, seat) for seat in range(game.players)]
        self.seen = {card for row in self.rows for card in row}
        self.piles: list[list[int]] = [[] for _ in self.hands]
        self.laid: list[tuple[int, int, int]] = []  # card, seat, row
        self.chooses: int | None = None

    def points(self, cards: list[int]) -> int:
        def of(n: int) -> int:
            if n == 55:
                return self.game.points_of_55
            return 1 + (n % 5 == 0) + (n % 10 == 0) + 4 * (n in (11, 22, 33, 44, 66, 77, 88, 99))

        return sum(map(of, cards))

    def names(self) -> list[str]:
        if self.chooses is not None:
            return [f"@{row + 1}" for row in range(self.game.rows)]
        if not self.hands[0]:
            return []
        names = []
        for card in sorted(self.hands[len(self.laid)]):
            free = self.game.row_choice == "after" or (self.game.row_choice == "needed" and self.home(card) is not None)
            names += [str(card)] if free else [f"{card}@{row + 1}" for row in range(self.game.rows)]
        return names

    def home(self, card: int) -> list[int] | None:
        return max((row for row in self.rows if row[-1] < card), key=lambda row: row[-1], default=None)

    def play(self, name: str) -> None:
        card, _, row = name.partition("@")
        if self.chooses is not None:
            self.settle(int(row) - 1)
            return
        self.laid.append((int(card), len(self.laid), int(row or "1") - 1))
        if len(self.laid) == self.game.players:
            self.laid.sort()
            for number, seat, _ in self.laid:
                self.hands[seat].remove(number)
                self.seen.add(number)
            if self.game.row_choice == "after" and self.home(self.laid[0][0]) is None:
                self.chooses = self.laid[0][1]
            else:
                self.settle(None)

    def settle(self, chosen: int | None) -> None:
        for card, seat, row in self.laid:
            home = self.home(card)
            if home is None:
                home = self.rows[row if chosen is None else chosen]
                self.piles[seat] += home
                home.clear()
            elif len(home) == 5:
                self.piles[seat] += home
                home.clear()
            home.append(card)
        self.laid, self.chooses = [], None

    def scores(self) -> list[float]:
        points = [self.points(pile) for pile in self.piles]
        scores = [0.0] * len(points)
        if min(points) < max(points):
            for extreme, score in ((min(points), 1.0), (max(points), -1.0)):
                if self.game.ties == "shared" or points.count(extreme) == 1:
                    scores = [score if own == extreme else other for own, other in zip(points, scores, strict=True)]
        return scores

    def planes(self, viewer: int) -> list[int]:
        """The planes of `games.take_six.encoding`, block by block."""
        game, own, deck = self.game, self.hands[viewer], range(self.game.first_card, self.game.first_card + self.game.cards)
        piles = [self.points(pile) for pile in [*self.piles[viewer:], *self.piles[:viewer]]]
        rows = [self.points(row) for row in self.rows]
        sizes = [len(row) == n for row in self.rows for n in range(1, 6)]
        known = [*(card in self.seen for card in deck), *(len(own) == n for n in range(1, 11))]
        if game.encoding == "rich":
            seen = [*(card in own for card in deck), *(card < row[-1] for row in self.rows for card in deck), *sizes]
            seen += [points > n for points in rows for n in range(27)] + [points > n for points in piles for n in range(64)]
            seen += known + [card in own and len(self.home(card) or []) == place for place in range(6) for card in deck]
            seen += [card in own and self.between(card, own) >= gap for gap in (1, 2, 4, 8, 16) for card in deck]
        else:
            seen = [*(card in own for card in deck), *(card == row[-1] for row in self.rows for card in deck), *sizes]
            seen += in_bins(rows, (1, 2, 3, 5, 7, 10)) + in_bins(piles, (1, 2, 4, 7, 10, 15, 25, 40)) + known
        if game.row_choice == "after":
            revealed = {seat: card for card, seat, _ in self.laid} if self.chooses is not None else {}
            seen += [revealed.get((viewer + i) % game.players) == card for i in range(game.players) for card in deck]
        return [int(bit) for bit in seen]

    def between(self, card: int, own: list[int]) -> int:
        home = self.home(card)
        lowest = home[-1] + 1 if home else self.game.first_card
        return sum(other not in self.seen and other not in own for other in range(lowest, card))


def in_bins(points: list[int], highest: tuple[int, ...]) -> list[bool]:
    """One-hot bins; the last has no end."""
    bounds = (-1, *highest, 1000)
    return [lower < p <= upper for p in points for lower, upper in itertools.pairwise(bounds)]


@pytest.mark.slow
@pytest.mark.parametrize("game", VARIANTS, ids=str)
def test_every_variant_keeps_the_laws(game: TakeSix) -> None:
    games.check_game(game, games=3)


@pytest.mark.slow
@pytest.mark.parametrize("game", VARIANTS, ids=str)
def test_the_rules_agree_with_the_slow_version(game: TakeSix) -> None:
    rng = np.random.default_rng(20)
    for seed in range(6):
        state = games.new_state(game, seed)
        slow = Slow(game, state)
        while True:
            names = slow.names()
            assert [game.action_name(state, action) for action in games.legal(game, state)] == names
            assert rows_of(game, state) == slow.rows
            assert [hand_of(game, state, seat) for seat in range(game.players)] == [sorted(hand) for hand in slow.hands]
            assert piles_of(game, state) == [slow.points(pile) for pile in slow.piles]
            for viewer in range(game.players):
                planes = bits.unpack(games.encode_for(game, state, viewer), game.spec().planes)
                assert planes.ravel().tolist() == slow.planes(viewer)
            if not names:
                break
            name = str(rng.choice(names))
            core.play(game, state, game.parse_action(state, name))
            slow.play(name)
        assert list(games.final_scores(game, state)) == slow.scores()
        assert game.draw(state).startswith("the game is over\n")


@pytest.mark.parametrize("row_choice", ["before", "needed", "after"])
@pytest.mark.parametrize("encoding", ["rich", "document"])
def test_a_replay_of_the_published_game_of_61_cards_matches_it(row_choice: str, encoding: str) -> None:
    game = REDUCED._replace(row_choice=row_choice, encoding=encoding)
    *rounds, end = lines_of_the_human_game()
    state = game.deal(rows=[row[0] for row in rounds[0][1:4]], hands=[[line[0][seat] for line in rounds] for seat in range(3)])
    for number, (played, *rows, piles) in enumerate(rounds):
        assert rows_of(game, state) == rows
        assert piles_of(game, state) == piles
        for seat, card in enumerate(played):
            written = f"{card}@{HUMAN_ROWS.get((number, seat), 1)}"
            core.play(game, state, game.parse_action(state, written if written in legal_names(game, state) else str(card)))
        for seat in range(3):
            if row_choice == "after" and (number, seat) in HUMAN_ROWS:
                assert core.to_move(game, state) == seat
                core.play(game, state, game.parse_action(state, f"@{HUMAN_ROWS[number, seat]}"))
    assert rows_of(game, state) == end[1:4]
    assert piles_of(game, state) == [13, 10, 15]
    assert games.final_scores(game, state) == (0.0, 1.0, -1.0)


def test_penalty_points_of_the_cards_match_known_values() -> None:
    def points(game: TakeSix) -> list[int]:
        return [table.points(deck_of(game), card) for card in range(game.cards)]

    deck = points(TakeSix())
    assert sum(deck) == 170
    assert [deck[number - 1] for number in (1, 5, 10, 11, 55, 99, 100, 104)] == [1, 2, 3, 5, 6, 5, 3, 1]
    assert np.bincount(deck).tolist() == [0, 76, 9, 10, 0, 8, 1]
    assert sum(sorted(deck)[-5:]) == 26
    assert sum(points(TakeSix(points_of_55=7))) == 171
    assert sum(points(REDUCED)) == 101
    assert points(REDUCED)[0] == 3


@pytest.mark.parametrize(
    ("players", "bits_in_all"), [(2, 700), (3, 709), (4, 718), (5, 727)]
)  # fmt: skip
def test_the_encoding_of_the_document_has_its_length(players: int, bits_in_all: int) -> None:
    spec = TakeSix(players=players, encoding="document").spec()
    assert spec.planes == (bits_in_all, 1, 1)
    assert (spec.num_actions, spec.max_legal, spec.max_plies) == (416, 40, 10 * players)


def test_the_reduced_deck_has_378_bits_and_183_actions() -> None:
    spec = REDUCED._replace(encoding="document").spec()
    assert (spec.planes, spec.num_actions) == ((378, 1, 1), 183)


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**63 - 1), players=st.integers(2, 5), row_choice=st.sampled_from(["before", "needed", "after"]))
def test_cards_are_conserved_and_the_document_has_its_number_of_ones(seed: int, players: int, row_choice: str) -> None:
    game = TakeSix(players=players, row_choice=row_choice, encoding="document")
    state = games.new_state(game, seed)
    rng = np.random.default_rng(seed)
    chosen_rows = 0
    while not core.is_over(game, state):
        hands = [hand_of(game, state, seat) for seat in range(players)]
        rows = rows_of(game, state)
        choosing = table.chooser(state) >= 0
        left = 10 - table.turn(state) - choosing
        seen = 4 + players * (10 - left)
        assert [len(hand) for hand in hands] == [left] * players
        assert len({card for hand in hands for card in hand}) == left * players
        assert not {card for hand in hands for card in hand} & {card for row in rows for card in row}
        assert all(1 <= len(row) <= 5 and row == sorted(set(row)) for row in rows)
        ones = int(np.unpackbits(games.encode_for(game, state, int(rng.integers(players)))).sum())
        assert ones == left + 4 + 4 + 4 + players + seen + (left > 0) + (players if choosing else 0)
        in_rows = sum(table.points(deck_of(game), card - 1) for row in rows for card in row)
        assert in_rows + sum(piles_of(game, state)) <= 170
        chosen_rows += choosing
        core.play(game, state, int(rng.choice(games.legal(game, state))))
    assert chosen_rows <= 10


@pytest.mark.slow
def test_all_cards_are_dealt_with_equal_frequency() -> None:
    game, deals = TakeSix(), 2000
    held = np.zeros((104, 5))
    for seed in range(deals):
        state = games.new_state(game, seed)
        for seat in range(3):
            held[np.array(hand_of(game, state, seat)) - 1, seat] += 1
        held[[row[0] - 1 for row in rows_of(game, state)], 3] += 1
        held[[row[0] - 1 for row in rows_of(game, state)][:1], 4] += 1
    expected = deals * np.array([10, 10, 10, 4, 1]) / 104
    assert (np.abs(held - expected) < 5 * np.sqrt(expected)).all()


def test_a_row_is_chosen_after_the_reveal_by_the_lowest_card() -> None:
    game = TakeSix(row_choice="after")
    state = game.deal(rows=[20, 40, 60, 80], hands=[[*range(1, 11)], [*range(11, 20), 21], [*range(81, 91)]])
    for card in ("7", "11", "81"):
        core.play(game, state, game.parse_action(state, card))
    assert core.to_move(game, state) == 0
    assert core.round_of(game, state) == -1
    assert game.draw_for(state, 2).splitlines()[0] == "round 1 of 10, player 1 chooses a row"
    assert [line.partition("plays ")[2] for line in game.draw_for(state, 2).splitlines()[5:]] == ["7", "11", "81"]
    with pytest.raises(games.IllegalMove, match=r"'@5' is not a legal move here; legal: @1 @2 @3 @4"):
        game.parse_action(state, "@5")
    core.play(game, state, game.parse_action(state, "@3"))
    assert rows_of(game, state) == [[20], [40], [7, 11], [80, 81]]
    assert piles_of(game, state) == [3, 0, 0]
    assert core.round_of(game, state) == 1


@pytest.mark.parametrize(
    ("taken", "shared", "strict"),
    [
        ((3, 5, 9), (1, 0, -1), (1, 0, -1)),
        ((3, 3, 9), (1, 1, -1), (0, 0, -1)),
        ((3, 9, 9), (1, -1, -1), (1, 0, 0)),
        ((4, 4, 4), (0, 0, 0), (0, 0, 0)),
    ],
)
def test_ties_are_shared_or_strict(taken: tuple[int, ...], shared: tuple[int, ...], strict: tuple[int, ...]) -> None:
    for ties, wanted in (("shared", shared), ("strict", strict)):
        game = TakeSix(ties=ties)
        state = games.new_state(game)
        state[table.PILES] = sum(points << 8 * seat for seat, points in enumerate(taken))
        state[0] = (int(state[0]) & ~0xFF) | 10  # all rounds settled
        assert games.final_scores(game, state) == wanted


def test_the_picture_as_svg_shows_every_card() -> None:
    game = TakeSix()
    state = games.replay(game, games.read_moves(game, "16@1 6@1", seed=1), seed=1)
    document = game.draw_svg(state)
    for card in [*hand_of(game, state, 0), *hand_of(game, state, 2), *(row[0] for row in rows_of(game, state))]:
        assert f">{card}</text>" in document
    assert "plays 16@1" in document


@pytest.mark.parametrize("row_choice", ["before", "after"])
def test_a_committed_card_is_written_behind_a_full_hand_and_not_over_it(row_choice: str) -> None:
    game = games.make("take_six", players=5, rows=8, row_choice=row_choice)
    state = games.new_state(game, seed=2)
    for _ in range(game.players - 1):
        core.play(game, state, games.legal(game, state)[-1])
    root = ElementTree.fromstring(game.draw_svg(state))
    edge = max(float(card.get("x")) + float(card.get("width")) for card in root.iter(f"{SVG}rect") if card.get("width") == "44")
    said = [text for text in root.iter(f"{SVG}text") if text.text.startswith("plays ")]
    assert len(said) == game.players - 1
    for text in said:
        assert float(text.get("x")) - WIDEST * float(text.get("font-size")) * len("plays 104@8") > edge
