"""Compiled steps of a block without a tree: list the afterstates of every position; choose and play a move in each.

Axes: K slots, L maximum legal actions, S state entries, n maximum plies, P players, B rows of a request (at most K L),
M actions of a pool.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from games import core
from games.compiled import lean
from games.core import GameSpec
from zerofleet.search.afterstates.choice import Policy, choose
from zerofleet.search.afterstates.pool import best_first

__all__ = ["FINISHED", "IDLE", "PLAYING", "Arena", "allocate", "commit", "expand"]

IDLE, PLAYING, FINISHED = 0, 1, 2
_BY_RULES = -1  # row of an afterstate that ends the game


class Arena(NamedTuple):
    """Arrays of a block."""

    status: np.ndarray  # int8 [K]
    states: np.ndarray  # spec.state_dtype [K, S]
    words: np.ndarray  # uint64 [K, 1], generator of each game
    plies: np.ndarray  # int32 [K]
    versions: np.ndarray  # int64 [K, P], model version of each seat
    scores: np.ndarray  # float32 [K, P], set when the game is over
    moves: np.ndarray  # int32 [K, n]
    move_versions: np.ndarray  # int64 [K, n], version that valued the move
    values: np.ndarray  # float32 [K, n, P], value of the afterstate for each player, in [-1, 1]
    behaviour: np.ndarray  # float32 [K, n], probability of the move
    exploratory: np.ndarray  # bool [K, n]
    pool: np.ndarray  # int16 [K, n, M], actions to choose from, best first, padded with -1; M is 0 without a pool
    pool_scores: np.ndarray  # float32 [K, n, M], their values for the mover, in [-1, 1]
    counts: np.ndarray  # int32 [K], legal moves of the position
    actions: np.ndarray  # int16 [K, L]
    rows: np.ndarray  # int32 [K, L], row of each afterstate in the request, or _BY_RULES
    chances: np.ndarray  # float64 [K, L], chance of winning for the mover, set where the rules decide
    movers: np.ndarray  # int64 [K L], player to move in the afterstate of a row
    packed: np.ndarray  # uint8 [K L, packed_bytes]
    legal: np.ndarray  # int16 [K L, L], padded with -1
    row_versions: np.ndarray  # int64 [K L]
    state: np.ndarray  # spec.state_dtype [S], scratch
    ended: np.ndarray  # float32 [P], scratch
    moves_played: np.ndarray  # int64 [1]


def allocate(spec: GameSpec, slots: int, pool: int = 0) -> Arena:
    """Return the arrays of an idle block whose moves are chosen from the `pool` best; 0: from all."""
    plies, most, players = spec.max_plies, spec.max_legal, spec.num_players
    return Arena(
        status=np.zeros(slots, np.int8),
        states=np.zeros((slots, spec.state_size), spec.state_dtype),
        words=np.zeros((slots, 1), np.uint64),
        plies=np.zeros(slots, np.int32),
        versions=np.zeros((slots, players), np.int64),
        scores=np.zeros((slots, players), np.float32),
        moves=np.zeros((slots, plies), np.int32),
        move_versions=np.zeros((slots, plies), np.int64),
        values=np.zeros((slots, plies, players), np.float32),
        behaviour=np.zeros((slots, plies), np.float32),
        exploratory=np.zeros((slots, plies), np.bool_),
        pool=np.full((slots, plies, pool), -1, np.int16),
        pool_scores=np.zeros((slots, plies, pool), np.float32),
        counts=np.zeros(slots, np.int32),
        actions=np.zeros((slots, most), np.int16),
        rows=np.zeros((slots, most), np.int32),
        chances=np.zeros((slots, most), np.float64),
        movers=np.zeros(slots * most, np.int64),
        packed=np.zeros((slots * most, spec.packed_bytes), np.uint8),
        legal=np.full((slots * most, most), -1, np.int16),
        row_versions=np.zeros(slots * most, np.int64),
        state=np.zeros(spec.state_size, spec.state_dtype),
        ended=np.zeros(players, np.float32),
        moves_played=np.zeros(1, np.int64),
    )


@lean
def expand(game: Any, arena: Arena, policy: Policy) -> int:
    """List the afterstates of every running game, and return the number of rows to evaluate.

    A game whose every move ends it is played to its end.
    """
    used = 0
    for slot in range(arena.status.shape[0]):
        if arena.status[slot] != PLAYING:
            continue
        first = used
        used = _list_afterstates(game, arena, policy, slot, used)
        if used == first:
            _play(game, arena, policy, slot)
    return used


@lean
def _list_afterstates(game: Any, arena: Arena, policy: Policy, slot: int, used: int) -> int:
    state, actions = arena.states[slot], arena.actions[slot]
    mover = int(np.int64(core.to_move(game, state)))
    arena.counts[slot] = core.legal_actions(game, state, actions)
    for i in range(arena.counts[slot]):
        for k in range(state.shape[0]):
            arena.state[k] = state[k]
        core.play(game, arena.state, actions[i])
        if core.is_over(game, arena.state):
            core.scores(game, arena.state, arena.ended)
            score = arena.ended[mover]
            arena.chances[slot, i] = 1.0 if score > 0.0 else (policy.draw_value if score == 0.0 else 0.0)
            arena.rows[slot, i] = _BY_RULES
            continue
        to_move = int(np.int64(core.to_move(game, arena.state)))
        core.encode(game, arena.state, to_move, arena.packed[used])
        legal = arena.legal[used]
        for k in range(core.legal_actions(game, arena.state, legal), legal.shape[0]):
            legal[k] = -1
        arena.movers[used] = to_move
        arena.row_versions[used] = arena.versions[slot, mover]
        arena.rows[slot, i] = used
        used += 1
    return used


@lean
def commit(game: Any, arena: Arena, policy: Policy, value: np.ndarray) -> None:
    """Value the listed afterstates by `value` (float32 [B, 2], player to move first) and play a move in every running game."""
    for slot in range(arena.status.shape[0]):
        if arena.status[slot] != PLAYING:
            continue
        mover = int(np.int64(core.to_move(game, arena.states[slot])))
        for i in range(arena.counts[slot]):
            row = arena.rows[slot, i]
            if row != _BY_RULES:
                mine = value[row, 0 if arena.movers[row] == mover else 1]
                arena.chances[slot, i] = min(max((mine + 1.0) / 2.0, 0.0), 1.0)
        _play(game, arena, policy, slot)


@lean
def _play(game: Any, arena: Arena, policy: Policy, slot: int) -> None:
    """Choose among the valued moves of a slot and play one."""
    state, ply = arena.states[slot], arena.plies[slot]
    mover = int(np.int64(core.to_move(game, state)))
    count = _keep_pool(arena, slot, ply)
    chosen, probability, is_exploratory = choose(arena.chances[slot], count, policy, arena.words[slot])
    arena.moves[slot, ply] = arena.actions[slot, chosen]
    arena.move_versions[slot, ply] = arena.versions[slot, mover]
    arena.behaviour[slot, ply] = probability
    arena.exploratory[slot, ply] = is_exploratory
    mine = np.float32(2.0 * arena.chances[slot, chosen] - 1.0)
    arena.values[slot, ply, mover] = mine
    arena.values[slot, ply, 1 - mover] = -mine
    core.play(game, state, arena.actions[slot, chosen])
    arena.plies[slot] = ply + 1
    arena.moves_played[0] += 1
    if core.is_over(game, state):
        core.scores(game, state, arena.scores[slot])
        arena.status[slot] = FINISHED


@lean
def _keep_pool(arena: Arena, slot: int, ply: int) -> int:
    """Return the number of moves to choose from: all, or those of the pool, which are brought to the front and noted."""
    size = arena.pool.shape[2]
    if size == 0:
        return arena.counts[slot]  # type: ignore[no-any-return]
    actions, chances = arena.actions[slot], arena.chances[slot]
    kept = best_first(actions, chances, arena.counts[slot], size)
    for rank in range(size):
        arena.pool[slot, ply, rank] = actions[rank] if rank < kept else -1
        arena.pool_scores[slot, ply, rank] = np.float32(2.0 * chances[rank] - 1.0) if rank < kept else np.float32(0.0)
    return kept
