"""Generators of hops: all agree with a plain one, in every mode, and channels that are kept with those found anew."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from generator_trials import compare_generators

import games
from games import core
from games.chinese_checkers.rhombus import ChineseCheckersRhombus
from zerofleet.agents.by_game.rhombus.generation import fill
from zerofleet.agents.by_game.rhombus.listing import action_of, list_moves
from zerofleet.agents.by_game.rhombus.root import set_frame
from zerofleet.agents.by_game.rhombus.search import play_child
from zerofleet.agents.by_game.rhombus.work import Work
from zerofleet.cli.bench.rhombus_trials import count_replies

GAME = ChineseCheckersRhombus()
GENERATORS = ("flood", "fresh", "upward", "channels")
MODES = ("full", "net", "mono")
FORWARD = [(1, 0), (0, 1)]
SIDEWAYS = [(1, -1), (-1, 1)]
BACKWARD = [(-1, 0), (0, -1)]
NAMES = [f"{'abcdefghi'[cell % 9]}{cell // 9 + 1}" for cell in range(81)]

Room = Callable[..., Work]
Place = Callable[..., np.ndarray]


def turned(state: np.ndarray) -> dict[tuple[int, int], str]:
    """Who stands where, as the player to move sees it."""
    marks = GAME.marks(state)
    seen = marks if core.to_move(GAME, state) == 0 else marks[::-1]
    return {divmod(cell, 9): mark for cell, mark in enumerate(seen)}


def plain_moves(state: np.ndarray, mode: str) -> list[int]:
    """The actions of a mode, by recursion over a dictionary; all if the mode leaves none."""
    marks, mover = turned(state), "XO"[core.to_move(GAME, state)]
    hops = FORWARD + SIDEWAYS + (BACKWARD if mode != "mono" else [])

    def walk(cell: tuple[int, int], seen: set[tuple[int, int]]) -> set[tuple[int, int]]:
        for down, right in hops:
            middle, there = (cell[0] + down, cell[1] + right), (cell[0] + 2 * down, cell[1] + 2 * right)
            if marks.get(middle, ".") != "." and marks.get(there) == "." and there not in seen:
                seen.add(there)
                walk(there, seen)
        return seen

    found = []
    for start in [cell for cell, mark in marks.items() if mark == mover]:
        steps = {(start[0] + down, start[1] + right) for down, right in FORWARD + SIDEWAYS + BACKWARD}
        targets = {cell for cell in steps if marks.get(cell) == "."} | walk(start, set())
        found += [
            81 * (9 * start[0] + start[1]) + 9 * there[0] + there[1]
            for there in targets
            if mode == "full" or sum(there) >= sum(start)
        ]
    return sorted(found) if found or mode == "full" else plain_moves(state, "full")


def listed(work: Work, state: np.ndarray) -> list[int]:
    """The actions a room lists, in its order."""
    work.stack[0] = state
    set_frame(work, core.to_move(GAME, state))
    count = list_moves(work, 0, int(work.frames[0].side))
    return [action_of(int(packed)) for packed in work.moves[0, :count]]


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_every_generator_lists_the_moves_of_the_plain_generator(mode: str, room: Room, positions: np.ndarray) -> None:
    rooms = [room(generation=name, moves=mode) for name in GENERATORS]
    rng = np.random.default_rng(2)
    scattered = []
    for _ in range(300):
        order = rng.permutation(81)
        words = np.zeros((2, 2), dtype=np.uint64)
        for i, cell in enumerate(order[:20].tolist()):
            words[i % 2, cell % 2] |= np.uint64(1 << cell // 2)
        scattered.append(np.array([rng.integers(2), *words.ravel()], dtype=np.uint64))
    for state in [*positions[:200], *scattered]:
        wanted = plain_moves(state, mode)
        orders = [listed(work, state) for work in rooms]
        assert sorted(orders[0]) == wanted, GAME.draw(state)
        assert all(order == orders[0] for order in orders)
        if mode == "full":
            assert wanted == games.legal(GAME, state)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("generation", "count"), [("channels", 1000), ("upward", 100), ("fresh", 100)])
def test_incremental_channels_equal_recomputed_ones_in_games_and_retracted_lines(
    mode: str, generation: str, count: int, room: Room
) -> None:
    trial = compare_generators(GAME, room(generation=generation, moves=mode), room(moves=mode), count=count, seed=3)
    assert trial.wrong == 0
    assert trial.plies > 80 * count
    assert (trial.kept > trial.compared / 4) == (generation == "channels")


def test_every_generator_counts_replies_like_the_rules(room: Room, positions: np.ndarray) -> None:
    few = np.ascontiguousarray(positions[:40])
    wanted = 0
    for state in few:
        for action in games.legal(GAME, state):
            child = state.copy()
            core.play(GAME, child, action)
            wanted += len(games.legal(GAME, child))
    assert [count_replies(GAME, room(generation=name), few) for name in GENERATORS] == [wanted] * 4


def after(work: Work, state: np.ndarray, move: str) -> tuple[dict[str, set[str]], dict[str, set[str]], set[str]]:
    """Play a move with all channels known; return the other side's channels before it and after it, and which were kept."""
    work.stack[0] = state
    set_frame(work, core.to_move(GAME, state))
    for side in range(2):
        fill(work, 0, side)
    side = int(work.frames[0].side)
    before = channels(work, 0, 1 - side)
    action = GAME.parse_action(state, move)
    count = list_moves(work, 0, side)
    packed = next(int(move) for move in work.moves[0, :count] if action_of(int(move)) == action)
    play_child(GAME, work, 0, packed)
    kept = {NAMES[cell] for i, cell in enumerate(work.frames[1].cells[1 - side]) if work.frames[1].known[1 - side] >> i & 1}
    fill(work, 1, 1 - side)
    return before, channels(work, 1, 1 - side), kept


def channels(work: Work, ply: int, side: int) -> dict[str, set[str]]:
    """The cells hops lead to, by piece, in names."""
    frame = work.frames[ply]
    return {
        NAMES[cell]: {NAMES[2 * bit + cell % 2] for bit in range(41) if int(frame.jumps[side, i]) >> bit & 1}
        for i, cell in enumerate(frame.cells[side])
    }


MINE = "d4 e4 d5 e5 f5 e6 f6 g6 f7 h8"  # level 6 and more
OTHER = "a1 c1 b2 g7 i9 h9 i8 g9 h7 i7"


def test_without_backward_hops_a_move_behind_the_rearmost_piece_keeps_every_channel(room: Room, place: Place) -> None:
    state = place(MINE, OTHER.replace("c1", "c4"), mover=1)
    before, found, kept = after(room(generation="channels", moves="mono"), state, "c4-d3")
    assert kept == set(MINE.split())
    assert found == before == after(room(moves="mono"), state, "c4-d3")[1]


@pytest.mark.parametrize("mode", ["net", "full"])
def test_with_backward_hops_a_move_behind_the_rearmost_piece_may_change_channels(mode: str, room: Room, place: Place) -> None:
    # d4 hops back over d3 once a piece stands there, though d3 lies behind every piece of the side
    state = place(MINE, OTHER.replace("c1", "c4"), mover=1)
    before, found, kept = after(room(generation="channels", moves=mode), state, "c4-d3")
    assert "d2" in found["d4"] - before["d4"]
    assert "d4" not in kept
    assert found == after(room(moves=mode), state, "c4-d3")[1]


def test_a_move_level_with_the_rearmost_piece_may_change_its_channel_without_backward_hops(room: Room, place: Place) -> None:
    # c5 stands level with d4, which hops sideways over it
    state = place(MINE, OTHER.replace("c1", "c6"), mover=1)
    before, found, kept = after(room(generation="channels", moves="mono"), state, "c6-c5")
    assert "b6" in found["d4"] - before["d4"]
    assert "d4" not in kept
    assert "h8" in kept  # far from both cells
    assert found == after(room(moves="mono"), state, "c6-c5")[1]


@pytest.mark.parametrize("mode", ["net", "full"])
def test_a_hop_keeps_its_own_channel_except_two_cells_and_a_step_keeps_none(mode: str, room: Room, place: Place) -> None:
    state = place("a1 b1 d1 e3 a9 b8 b9 c7 a7 d9", "i1 i2 h1 g1 i5 h3 g3 i9 i8 h9")
    work = room(generation="channels", moves=mode)
    after(work, state, "a1-c1")
    before, slot = channels(work, 0, 0), [NAMES[cell] for cell in work.frames[1].cells[0]].index("c1")
    assert work.frames[1].known[0] >> slot & 1
    fill(work, 1, 0)
    assert channels(work, 1, 0)["c1"] == (before["a1"] | {"a1"}) - {"c1"}
    after(work, state, "a1-a2")
    slot = [NAMES[cell] for cell in work.frames[1].cells[0]].index("a2")
    assert not work.frames[1].known[0] >> slot & 1
