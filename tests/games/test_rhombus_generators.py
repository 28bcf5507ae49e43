"""Chinese Checkers on the rhombus: the compiled moves against plain ones, counts, invariants of jumps, figures of games."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import games
from games import core
from games.chinese_checkers.rhombus import ChineseCheckersRhombus
from games.compiled import compiled
from games.kit.randomness import mix64, uniform, uniform_int
from games.tools.perft import perft

Cell = tuple[int, int]
AXES = ((1, 0), (0, 1), (1, -1))
DIRECTIONS = [*AXES, *((-down, -right) for down, right in AXES)]
CELLS = [(row, column) for row in range(9) for column in range(9)]
ON_BOARD = set(CELLS)


class PlainBoard:
    """The game on a dictionary of cells, in which player 1 walks the other way instead of turning the board."""

    def __init__(self, owners: dict[Cell, int] | None = None, mover: int = 0, *, long_hops: bool = False) -> None:
        start = {cell: int(sum(cell) > 8) for cell in CELLS if not 3 < sum(cell) < 13}
        self.owners = start if owners is None else owners
        self.mover = mover
        self.long_hops = long_hops

    def targets(self, start: Cell) -> set[Cell]:
        lifted = {cell for cell in self.owners if cell != start}
        steps = {(start[0] + down, start[1] + right) for down, right in DIRECTIONS}
        found = {cell for cell in steps if cell in ON_BOARD and cell not in lifted}
        found.update(self.chains(start, lifted, {start}))
        return found - {start}

    def chains(self, cell: Cell, taken: set[Cell], seen: set[Cell]) -> set[Cell]:
        for after in self.hops(cell, taken):
            if after not in seen:
                seen.add(after)
                self.chains(after, taken, seen)
        return seen

    def hops(self, cell: Cell, taken: set[Cell]) -> Iterator[Cell]:
        for down, right in DIRECTIONS:
            for reach in range(1, 5 if self.long_hops else 2):
                way = [(cell[0] + i * down, cell[1] + i * right) for i in range(1, 2 * reach + 1)]
                if way[-1] in ON_BOARD and [i + 1 for i, passed in enumerate(way) if passed in taken] == [reach]:
                    yield way[-1]

    def moves(self) -> list[tuple[Cell, Cell]]:
        pieces = [cell for cell, owner in self.owners.items() if owner == self.mover]
        return [(start, target) for start in pieces for target in self.targets(start)]

    def actions(self) -> list[int]:
        numbers = [81 * (9 * a + b) + 9 * c + d for (a, b), (c, d) in self.moves()]
        return sorted(numbers if self.mover == 0 else [6560 - number for number in numbers])

    def after(self, start: Cell, target: Cell) -> PlainBoard:
        owners = {cell: owner for cell, owner in self.owners.items() if cell != start} | {target: self.mover}
        return PlainBoard(owners, 1 - self.mover, long_hops=self.long_hops)

    def count(self, depth: int) -> int:
        """Sequences of `depth` moves; nobody can have won by then."""
        moves = self.moves()
        return len(moves) if depth == 1 else sum(self.after(*move).count(depth - 1) for move in moves)

    def state(self) -> np.ndarray:
        words = np.zeros(5, dtype=np.uint64)
        words[0] = self.mover
        for (row, column), owner in self.owners.items():
            cell = 9 * row + column
            words[1 + 2 * owner + cell % 2] |= np.uint64(1 << cell // 2)
        return words


def scattered(rng: np.random.Generator, *, long_hops: bool = False) -> PlainBoard:
    """Twenty pieces anywhere."""
    order = rng.permutation(81)[:20].tolist()
    return PlainBoard({CELLS[cell]: i % 2 for i, cell in enumerate(order)}, int(rng.integers(2)), long_hops=long_hops)


def read_back(state: np.ndarray) -> PlainBoard:
    marks = ChineseCheckersRhombus().marks(state)
    return PlainBoard(
        {cell: "XO".index(mark) for cell, mark in zip(CELLS, marks, strict=True) if mark != "."}, int(state[0]) & 1
    )


@pytest.mark.slow
def test_both_generators_count_the_same_sequences() -> None:
    counts = [14, 196, 4648, 110_224]
    assert perft(ChineseCheckersRhombus(), 4) == counts
    assert [PlainBoard().count(depth) for depth in range(1, 5)] == counts


@pytest.mark.slow
def test_longer_sequence_counts_match_known_values() -> None:
    assert perft(ChineseCheckersRhombus(), 6)[4:] == [2_945_504, 78_712_384]


@pytest.mark.slow
def test_both_generators_count_the_same_sequences_with_long_hops() -> None:
    wanted = [PlainBoard(long_hops=True).count(depth) for depth in range(1, 4)]
    assert perft(ChineseCheckersRhombus(long_hops=True), 3) == wanted


@pytest.mark.slow
def test_both_generators_agree_on_2000_positions_of_scattered_pieces() -> None:
    game, rng = ChineseCheckersRhombus(), np.random.default_rng(1)
    for _ in range(2000):
        board = scattered(rng)
        assert games.legal(game, board.state()) == board.actions(), game.draw(board.state())


@pytest.mark.slow
def test_both_generators_agree_on_2000_positions_of_random_games() -> None:
    game, rng = ChineseCheckersRhombus(anti_spoiling=False), np.random.default_rng(2)
    checked = 0
    while checked < 2000:
        state = games.new_state(game)
        while legal := games.legal(game, state):
            core.play(game, state, int(rng.choice(legal)))
            board = read_back(state)
            if not core.is_over(game, state):
                assert games.legal(game, state) == board.actions(), game.draw(state)
                checked += 1


@pytest.mark.slow
def test_both_generators_agree_with_long_hops() -> None:
    game, rng = ChineseCheckersRhombus(long_hops=True), np.random.default_rng(3)
    for _ in range(1000):
        board = scattered(rng, long_hops=True)
        assert games.legal(game, board.state()) == board.actions(), game.draw(board.state())


@given(st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_a_piece_never_hops_over_the_cell_it_has_left(seed: int) -> None:
    board = scattered(np.random.default_rng(seed))
    taken = set(board.owners)
    for start in board.owners:
        lifted = board.chains(start, taken - {start}, {start})
        assert lifted == board.chains(start, taken, {start})


@given(st.integers(0, 2**32), st.sampled_from(CELLS))
@settings(max_examples=30, deadline=None)
def test_the_jump_graphs_of_the_zones_are_independent(seed: int, cell: Cell) -> None:
    """Whether a hop has its middle taken depends on the three other zones alone; a piece is the middle of three at most."""

    def graph(taken: set[Cell]) -> set[tuple[Cell, Cell]]:
        hops = {((r, c), (r + 2 * d, c + 2 * e)) for r, c in CELLS for d, e in DIRECTIONS if (r + d, c + e) in taken}
        return {(start, target) for start, target in hops if target in ON_BOARD}

    board = scattered(np.random.default_rng(seed))
    changed = graph(set(board.owners) | {cell}) ^ graph(set(board.owners) - {cell})
    zones = [(start[0] % 2, start[1] % 2) for start, _ in changed]
    own = (cell[0] % 2, cell[1] % 2)
    assert own not in zones
    assert all(zones.count(zone) == 2 for zone in set(zones))  # one hop along each axis, there and back
    assert all((start[0] - target[0]) % 2 == (start[1] - target[1]) % 2 == 0 for start, target in changed)


def spread(pieces: int, zones: int = 4) -> Iterator[tuple[int, ...]]:
    """All ways to spread pieces over zones."""
    if zones == 1:
        yield (pieces,)
        return
    for here in range(pieces + 1):
        yield from ((here, *others) for others in spread(pieces - here, zones - 1))


def most_moves(size: int, mine: int, other: int) -> int:
    """A bound on the moves of `mine` pieces in a zone of `size` cells with `other` pieces; `hopping` of them hop."""
    taken = mine + other
    return max(
        min(hopping * (size - taken), max(a * (21 - taken - a) for a in range(hopping + 1))) + 6 * mine - hopping
        for hopping in range(mine + 1)
    )


@pytest.mark.slow
def test_the_bounds_on_legal_moves_follow_from_the_zones() -> None:
    sizes = (25, 20, 20, 16)
    table = [[[most_moves(size, q, o) for o in range(11)] for q in range(11)] for size in sizes]
    fits = [[[q + o <= size for o in range(11)] for q in range(11)] for size in sizes]
    ways = list(spread(10))
    found = max(
        sum(zone[q][o] for zone, q, o in zip(table, mine, other, strict=True))
        for mine in ways
        for other in ways
        if all(zone[q][o] for zone, q, o in zip(fits, mine, other, strict=True))
    )
    assert found == ChineseCheckersRhombus().spec().max_legal == 192
    far = max(sum(q * (size - q) for size, q in zip(sizes, mine, strict=True)) for mine in ways) + 60
    assert far == ChineseCheckersRhombus(long_hops=True).spec().max_legal == 247


@compiled
def crowd(game: ChineseCheckersRhombus, seed: int, order: np.ndarray, state: np.ndarray, listed: np.ndarray) -> int:
    """Exchange cells (`order`: ten of player 0, ten of player 1, the others) so that player 0 gets many moves; return them."""
    word = np.array([seed], dtype=np.uint64)
    current, most, trials = 0, 0, 200_000
    for trial in range(trials):
        i, j = uniform_int(word, 20), uniform_int(word, 81)
        order[i], order[j] = order[j], order[i]
        state[:] = 0
        for k in range(20):
            state[1 + 2 * (k // 10) + (order[k] & 1)] |= np.uint64(1) << np.uint64(order[k] >> 1)
        count = core.legal_actions(game, state, listed)
        heat = 3 * (1 - trial / trials) + 0.05
        if count >= current or uniform(word) < np.exp((count - current) / heat):
            current = count
            most = max(most, count)
        else:
            order[i], order[j] = order[j], order[i]
    return most


@pytest.mark.slow
@pytest.mark.parametrize(("long_hops", "found"), [(False, 180), (True, 228)])
def test_crowded_positions_approach_the_bounds(long_hops: bool, found: int) -> None:
    game = ChineseCheckersRhombus(long_hops=long_hops)
    order = np.random.default_rng(1).permutation(81)
    most = crowd(game, 1, order, games.new_state(game), np.empty(300, dtype=np.int16))
    assert found <= most <= game.spec().max_legal


@compiled
def play_out(game: ChineseCheckersRhombus, seed: int, noise: float, aside: float, state: np.ndarray, tally: np.ndarray) -> int:
    """Play a game and return its plies. Moves are valued by the levels climbed, less `aside` for each line away from the
    middle, plus noise below `noise`; without noise they are random. tally (int64 [4]): moves listed, plies, most moves at
    once, moves that do not go back.
    """
    word = np.array([mix64(np.uint64(seed))], dtype=np.uint64)
    listed = np.empty(247, dtype=np.int16)
    core.reset(game, state, 0)
    plies = 0
    while not core.is_over(game, state):
        count = core.legal_actions(game, state, listed)
        tally[0] += count
        tally[2] = max(tally[2], count)
        best, chosen = -1e9, listed[uniform_int(word, count)]
        for i in range(count):
            start, target = listed[i] // 81, listed[i] % 81
            worth = core.move_value(game, state, listed[i])
            tally[3] += worth >= 0
            worth -= aside * (abs(target // 9 - target % 9) - abs(start // 9 - start % 9)) - noise * uniform(word)
            if noise > 0 and worth > best:
                best, chosen = worth, listed[i]
        core.play(game, state, chosen)
        plies += 1
    tally[1] += plies
    return plies


def lengths(game: ChineseCheckersRhombus, count: int, *, noise: float, aside: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """The plies of games from seed 0 on, and their tally."""
    tally = np.zeros(4, dtype=np.int64)
    state = games.new_state(game)
    return np.array([play_out(game, seed, noise, aside, state, tally) for seed in range(count)]), tally


@pytest.mark.slow
def test_games_of_noisy_greedy_players_match_known_statistics() -> None:
    plies, tally = lengths(ChineseCheckersRhombus(anti_spoiling=False), 2000, noise=0.5, aside=0.2)
    assert plies[plies < 400].mean() == pytest.approx(118, abs=2)
    assert plies.min() == pytest.approx(84, abs=8)
    assert (plies == 400).mean() == pytest.approx(11 / 200, abs=0.02)
    assert tally[0] / tally[1] == pytest.approx(41.7, abs=1)
    assert tally[3] / tally[1] == pytest.approx(22.2, abs=1)


@pytest.mark.slow
def test_the_rule_against_spoiling_ends_all_greedy_games() -> None:
    plies, _ = lengths(ChineseCheckersRhombus(), 2000, noise=0.5, aside=0.2)
    assert plies.max() < 400
    assert plies.mean() == pytest.approx(115, abs=1.5)


@pytest.mark.slow
def test_random_players_always_reach_the_ply_cap() -> None:
    plies, tally = lengths(ChineseCheckersRhombus(), 1000, noise=0.0)
    assert (plies == 400).all()
    assert tally[2] <= ChineseCheckersRhombus().spec().max_legal
