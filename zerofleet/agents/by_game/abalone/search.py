"""Compiled search of the Abalone players: fail-soft alpha-beta in negamax form, on bitboards.

Each component can be switched off; only quiescence changes values, the others the number of nodes:

    static     three or more plies from the horizon, moves are ordered by their static value
    history    moves that often caused cutoffs are searched earlier (Schaeffer 1983)
    killers    the last two cutoff moves of the same ply are searched first (Akl and Newborn 1977)
    table      transposition table, see `table`
    quiet      quiescence: at the horizon captures are played out, or declined for the static value (Beal 1990)

Values are for the player to move. A win by captures scores `WON` plus one for each ply left before the horizon, so that
quicker wins score higher; a game ended by the ply cap or a lack of moves scores the lead in marbles alone, as in its scores.
The cost of a ply (`ply_cost`) is ignored.

Repetitions are ignored: the search does not use the history of the game.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from games import core
from games.abalone import Abalone
from games.abalone.rules import MARBLES
from games.compiled import lean
from games.core import State
from games.kit.bits import count_bits
from games.kit.randomness import mix64
from games.positions import copy_state
from zerofleet.agents.by_game.abalone.evaluation import MARBLE_FEATURE, evaluate
from zerofleet.agents.by_game.abalone.features import endangered
from zerofleet.agents.by_game.abalone.table import EXACT, LOWER, NOTHING, UPPER, Table, move_of, recall, remember

__all__ = [
    "CAPTURES",
    "EVALUATED",
    "HIGHEST",
    "KEY_SALT",
    "LIMIT",
    "NODES",
    "STOPPED",
    "WITH_PLIES",
    "WON",
    "Orders",
    "Room",
    "Switches",
    "search_root",
    "values_at_sight",
]

WON = 1 << 50
"""Value of a win, above all sums of features."""
HIGHEST = 1 << 60
CAPTURES = 2 * MARBLES
"""Maximal number of plies of quiescence: each capture removes a marble."""
NODES, EVALUATED, LIMIT, STOPPED, KEY_SALT, WITH_PLIES = range(6)
"""Entries of `Room.counts`: positions searched; positions evaluated; limit of searched positions; whether the search was
stopped; salt of keys; whether keys include the number of plies."""
_TABLE_MOVE = 1 << 58  # move ordering: table move, killers, then history or static value
_KILLER = 1 << 56
_STATIC_DEPTH = 3  # nearer to the horizon static ordering costs more than it saves: a third of the time at 5 plies
_PLIES = np.uint64(0xFFFFFFFF)
_OPEN = NOTHING
"""No value yet: the position needs a search."""


class Switches(NamedTuple):
    """Switches of the search, as numbers for compiled code."""

    static: int
    history: int
    killers: int
    table: int
    quiet: int


class Orders(NamedTuple):
    """Statistics of cutoff moves. D plies, A actions."""

    killers: np.ndarray  # int64 [D, 2]
    history: np.ndarray  # int64 [2, A], by player


class Room(NamedTuple):
    """Buffers of a search. R positions on the path, L moves, F features."""

    switches: Switches
    weights: np.ndarray  # int64 [F]
    stack: np.ndarray  # uint64 [R, 3]; row 0 is the root
    listed: np.ndarray  # int16 [R, L]
    merits: np.ndarray  # int64 [R, L]: ranks of moves, the largest searched first; row 0: values of the root's moves
    orders: Orders
    table: Table
    counts: np.ndarray  # int64 [6]
    interrupt: np.ndarray  # int64 [1], set by a timer thread


@lean
def search_root(game: Abalone, room: Room, count: int, depth: int, alpha: int, beta: int) -> int:
    """Search the first `count` moves in `listed[0]`, in that order, and return the best value.

    It is exact if it is between `alpha` and `beta`; then the values of all tied moves in `merits[0]` are exact too, and those
    of the others are upper bounds. The result is invalid if `counts[STOPPED]` is set.
    """
    best, ply = -HIGHEST, int(np.int64(1))  # a literal would make numba compile the recursion for two types, in a cycle
    for i in range(count):
        copy_state(room.stack[0], room.stack[ply])
        core.play(game, room.stack[ply], room.listed[0, i])
        floor = max(alpha, best - 1)  # ties with the best move need exact values
        value = _settled(game, room, ply, depth - 1, -beta, -floor)
        if value == _OPEN:
            value = _searched(game, room, ply, depth - 1, -beta, -floor)
        if room.counts[STOPPED]:
            return 0
        room.merits[0, i] = -value
        best = max(best, -value)
    return best


@lean
def _searched(game: Abalone, room: Room, ply: int, depth: int, alpha: int, beta: int) -> int:
    """Return the value of `stack[ply]`, `depth` >= 1 plies from the horizon; exact between `alpha` and `beta`, else a bound."""
    stack, counts = room.stack, room.counts
    key, first = np.uint64(0), -1
    if room.switches.table:
        key = _key(game, room, stack[ply])
        known = recall(room.table, key, depth, alpha, beta)
        if known != NOTHING:
            return known
        first = move_of(room.table, key)
    count = core.legal_actions(game, stack[ply], room.listed[ply])
    _rank(game, room, ply, depth, count, first)
    best, chosen, floor = NOTHING, -1, alpha
    for i in range(count):
        action = _next(room.listed[ply], room.merits[ply], i, count)
        copy_state(stack[ply], stack[ply + 1])
        core.play(game, stack[ply + 1], action)
        value = _settled(game, room, ply + 1, depth - 1, -beta, -floor)
        if value == _OPEN:
            value = _searched(game, room, ply + 1, depth - 1, -beta, -floor)
        if counts[STOPPED]:
            return 0
        if -value > best:
            best, chosen = -value, action
            floor = max(floor, best)
            if best >= beta:
                _note_cut(room, ply, depth, action)
                break
    if room.switches.table:
        remember(room.table, key, depth, best, LOWER if best >= beta else EXACT if best > alpha else UPPER, chosen)
    return best


@lean
def _settled(game: Abalone, room: Room, ply: int, depth: int, alpha: int, beta: int) -> int:
    """Return the value of `stack[ply]` if the game or the search ends there, else _OPEN."""
    room.counts[NODES] += 1
    if room.counts[NODES] >= room.counts[LIMIT] or room.interrupt[0]:
        room.counts[STOPPED] = 1
        return 0
    state = room.stack[ply]
    if core.is_over(game, state):
        return _final(game, room.weights, state, depth)
    if depth > 0:
        return _OPEN
    if room.switches.quiet:
        return _quiet(game, room, ply, alpha, beta)
    return _at_sight(room, state)


@lean
def _final(game: Abalone, weights: np.ndarray, state: State, depth: int) -> int:
    """Return the value of a terminal position, `depth` plies before the horizon."""
    mover = np.int64(state[2] & np.uint64(1))
    mine, theirs = count_bits(state[mover]), count_bits(state[1 - mover])
    if mine <= MARBLES - game.captures:
        return -WON - depth
    if theirs <= MARBLES - game.captures:
        return WON + depth
    if game.stalemate_loses and (state[2] & _PLIES) < np.uint64(game.ply_cap):
        return -WON - depth
    return (mine - theirs) * weights[MARBLE_FEATURE]  # type: ignore[no-any-return]


@lean
def _at_sight(room: Room, state: State) -> int:
    """Return the static value of a position that is not over."""
    room.counts[EVALUATED] += 1
    mover = np.int64(state[2] & np.uint64(1))
    return evaluate(room.weights, state[mover], state[1 - mover])


@lean
def _quiet(game: Abalone, room: Room, ply: int, alpha: int, beta: int) -> int:
    """Return the quiescence value of `stack[ply]`: each player captures or stops; exact between `alpha` and `beta`."""
    stack = room.stack
    best = _at_sight(room, stack[ply])
    mover = np.int64(stack[ply, 2] & np.uint64(1))
    if best >= beta or endangered(stack[ply, 1 - mover], stack[ply, mover]) == np.uint64(0):
        return best
    floor = max(alpha, best)
    for i in range(core.legal_actions(game, stack[ply], room.listed[ply])):
        copy_state(stack[ply], stack[ply + 1])
        core.play(game, stack[ply + 1], room.listed[ply, i])
        if count_bits(stack[ply + 1, 1 - mover]) == count_bits(stack[ply, 1 - mover]):
            continue
        room.counts[NODES] += 1
        if core.is_over(game, stack[ply + 1]):
            value = _final(game, room.weights, stack[ply + 1], 0)
        else:
            value = _quiet(game, room, ply + 1, -beta, -floor)
        best = max(best, -value)
        floor = max(floor, best)
        if best >= beta:
            break
    return best


@lean
def _key(game: Abalone, room: Room, state: State) -> np.uint64:
    """Return the table key of a position."""
    key = core.repetition_key(game, state) ^ np.uint64(room.counts[KEY_SALT])
    if room.counts[WITH_PLIES]:
        key = mix64(key + (state[2] & _PLIES))
    return key


@lean
def _rank(game: Abalone, room: Room, ply: int, depth: int, count: int, first: int) -> None:
    """Write the ranks of moves to `merits[ply]`: the move `first`, killers, then by static value or history."""
    orders, merits, switches = room.orders, room.merits, room.switches
    player = np.int64(room.stack[ply, 2] & np.uint64(1))
    sorts = switches.static and depth >= _STATIC_DEPTH
    for i in range(count):
        action = room.listed[ply, i]
        merit = 0
        if sorts:
            merit = _sight_of(game, room, ply, action)
        elif switches.history:
            merit = orders.history[player, action]
        if action == first:
            merit = _TABLE_MOVE
        elif switches.killers and (action == orders.killers[ply, 0] or action == orders.killers[ply, 1]):
            merit += _KILLER
        merits[ply, i] = merit


@lean
def _sight_of(game: Abalone, room: Room, ply: int, action: int) -> int:
    """Return the static value of a move from `stack[ply]`; writes to `stack[ply + 1]`."""
    copy_state(room.stack[ply], room.stack[ply + 1])
    core.play(game, room.stack[ply + 1], action)
    if core.is_over(game, room.stack[ply + 1]):
        return -_final(game, room.weights, room.stack[ply + 1], 0)
    return -_at_sight(room, room.stack[ply + 1])


@lean
def _next(listed: np.ndarray, merits: np.ndarray, at: int, count: int) -> int:
    """Swap the first move of the largest merit in `listed[at:count]` to index `at` and return it."""
    best = at
    for i in range(at + 1, count):
        if merits[i] > merits[best]:
            best = i
    listed[at], listed[best] = listed[best], listed[at]
    merits[at], merits[best] = merits[best], merits[at]
    return listed[at]  # type: ignore[no-any-return]


@lean
def _note_cut(room: Room, ply: int, depth: int, action: int) -> None:
    """Record a cutoff by a move of `stack[ply]`, `depth` plies before the horizon."""
    killers = room.orders.killers
    if killers[ply, 0] != action:
        killers[ply, 1] = killers[ply, 0]
        killers[ply, 0] = action
    player = np.int64(room.stack[ply, 2] & np.uint64(1))
    room.orders.history[player, action] += depth * depth


@lean
def values_at_sight(game: Abalone, room: Room, count: int) -> None:
    """Write the static values of the first `count` moves in `listed[0]` to `merits[0]`."""
    for i in range(count):
        room.merits[0, i] = _sight_of(game, room, int(np.int64(0)), room.listed[0, i])
