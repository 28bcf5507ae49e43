"""Block of games searched together: the Python interface of the compiled search.

    block = SearchBlock(game, settings, slots=256)
    for slot in range(256):
        block.begin(slot, seed=slot, versions=[1, 1])
    while True:
        leaves = block.advance()                  # compiled, GIL released
        answer = await evaluator.evaluate(leaves.batch, version=...)
        block.absorb(answer.policy, answer.value, answer.extra_heads)
        for slot in block.finished():
            played = block.take(slot)

`search_on` absorbs and advances in one pass over the trees, for callers that do nothing in between.

Games of a block are independent: each depends on its seed and its evaluations only. A block is not thread-safe.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from games import core, positions
from games.core import Game
from games.errors import IllegalMove
from zerofleet.contracts.played import LAST_SEED, PlayedGame
from zerofleet.evaluators.base import LeafBatch
from zerofleet.search import kernel
from zerofleet.search.arena import FINISHED, IDLE, SEARCHING, WAITING, allocate, memory_refused
from zerofleet.search.cache import EMPTY
from zerofleet.search.compiled_settings import compile_settings
from zerofleet.search.decide import choose_move
from zerofleet.search.gumbel import considered_visits
from zerofleet.search.hidden.world_view import WorldStatistics, view_worlds
from zerofleet.search.history import searched_moves
from zerofleet.search.modes import mode_for
from zerofleet.search.outputs import VALUES, WEIGHTS, checked
from zerofleet.search.root import RootAnalysis, analyse_root
from zerofleet.search.settings import SearchSettings
from zerofleet.search.tree import ROOT
from zerofleet.search.tree_view import TreeNode, view_node

__all__ = ["LAST_SEED", "Leaves", "SearchBlock", "SearchCounters"]

NO_ACTION = -1  # of no game


@dataclass(frozen=True, slots=True)
class Leaves:
    """Leaves of one step. The arrays are views that the next `advance` or `search_on` overwrites."""

    batch: LeafBatch
    versions: np.ndarray  # int64 [B], model version for each leaf


@dataclass(frozen=True, slots=True)
class SearchCounters:
    """Totals of a block since its creation."""

    simulations: int
    cache_hits: int
    moves: int


class SearchBlock:
    """Block of `slots` games, each with its own tree, seed and players."""

    def __init__(self, game: Game, settings: SearchSettings, *, slots: int) -> None:
        """Allocate the block; compiled code is loaded at its first use.

        Raises `ValueError` if `settings.information` does not suit the game, and `ConfigurationError` for too little memory.
        """
        self.game = game
        self.settings = settings
        self._compiled = compile_settings(settings, sees_ends=core.has_rule(type(game), "may_end"))
        with memory_refused(game.spec(), slots):
            self._arena, self._history, self._rows, self._cache = allocate(game, settings, slots, _schedule(game, settings))
        self._mode = mode_for(game, settings, self._rows, self._cache)
        self._worlds = self._mode.worlds
        self._extra_heads = int(self._worlds is not None and settings.information == "predict")
        self._head_width = game.spec().num_actions if self._extra_heads else 0
        self._tags: list[object] = [None] * slots
        self._openings = np.zeros(slots, dtype=np.int32)
        self._seeds = [0] * slots
        self._first_versions: list[tuple[int, ...]] = [()] * slots
        self._used = 0

    def __len__(self) -> int:
        return len(self._arena.slots)

    @property
    def nbytes(self) -> int:
        """Address space of the block's arrays in bytes; untouched pages cost no memory."""
        groups: tuple[tuple[Any, ...], ...] = (self._arena, self._history, *self._mode.batch)
        return sum(array.nbytes for group in groups for array in group)

    @property
    def counters(self) -> SearchCounters:
        """Totals since the creation of the block."""
        simulations, hits, moves = (int(n) for n in self._arena.counters)
        return SearchCounters(simulations, hits, moves)

    def begin(
        self,
        slot: int,
        *,
        seed: int,
        versions: Sequence[int],
        opening: Sequence[int] = (),
        position: core.State | None = None,
        hold: bool = False,
        tag: object = None,
    ) -> None:
        """Begin a game in an idle slot.

        `versions` are the model versions by seat, or `EXTERNAL` for a seat whose moves come through `play`. `opening` is
        played first. A `position` (state_dtype [S]) replaces the start of the game; the moves alone then do not reproduce
        the game. With `hold` the slot also waits for `play` after each search. Raises `IllegalMove` for an opening that is
        illegal or ends the game, `ValueError` for a slot in use, a seed outside [0, 2^63), a wrong number of seats, an invalid
        version or a position of another shape; the slot then stays idle.
        """
        record = self._record(slot)
        if record["status"] != IDLE:
            raise ValueError(f"slot {slot} is in use; take or abandon its game first")
        if not 0 <= seed <= LAST_SEED:
            raise ValueError(f"seed {seed} is not in [0, 2^63)")
        self._check_versions(versions)
        actions = self.game.spec().num_actions
        line = np.array([action if 0 <= action < actions else NO_ACTION for action in opening], dtype=np.int64)
        state = self._arena.states[slot, ROOT]
        replaced = np.array([] if position is None else position, dtype=state.dtype)
        if replaced.size and replaced.shape != state.shape:
            raise ValueError(f"got a position of shape {replaced.shape}; want {state.shape}")
        keeps = self.settings.repetition == "history"
        start = int(seed), np.array(versions, dtype=np.int64), line, replaced, bool(hold), keeps
        illegal = kernel.begin(self.game, self._arena, self._history, slot, self._compiled, start)
        if illegal >= 0:
            legal = positions.legal(self.game, state)
            raise IllegalMove(f"move {illegal + 1} of the opening is {opening[illegal]}; legal: {legal}")
        if record["status"] == FINISHED:
            record["status"] = IDLE
            raise IllegalMove(f"the opening {list(opening)} ends the game")
        self._tags[slot], self._openings[slot] = tag, len(opening)
        self._seeds[slot], self._first_versions[slot] = seed, tuple(versions)

    def _record(self, slot: int) -> Any:
        """Return the record of a slot; raises `IndexError` for an invalid slot."""
        if not 0 <= slot < len(self):
            raise IndexError(f"no slot {slot}; this block has {len(self)} slots, numbered from 0")
        return self._arena.slots[slot]

    def _check_versions(self, versions: Sequence[int]) -> None:
        seats = self.game.spec().num_players
        if len(versions) != seats:
            raise ValueError(f"got {len(versions)} versions for {seats} seats; want one per seat")
        for version in versions:
            if version < 1 and version != kernel.EXTERNAL:
                raise ValueError(f"version {version} is neither a model version (1 and up) nor EXTERNAL ({kernel.EXTERNAL})")

    def advance(self) -> Leaves:
        """Run every slot until it waits for evaluations or a move, or is finished; return the leaves.

        Idempotent until `absorb`: the same leaves are returned.
        """
        if not self._used:
            self._used = self._mode.advance(self.game, self._compiled, self._arena, self._history)
        return self._leaves()

    def _leaves(self) -> Leaves:
        rows = self._rows
        batch = LeafBatch(rows.states[: self._used], rows.legal[: self._used], self._extra_heads, self._head_width)
        return Leaves(batch, rows.versions[: self._used])

    def absorb(self, policy: np.ndarray, value: np.ndarray, extra_heads: Sequence[np.ndarray] = ()) -> None:
        """Absorb the evaluations of the last leaves: policy [B, L], value [B, P] (player to move first).

        `information=predict` also requires the extra head `opponents`, [B, A]; other heads are ignored. Policies are
        normalised; one of zeros counts as uniform. Raises `ValueError` for shapes that differ from the leaves, a policy or
        head with a negative or non-finite number, or a value outside [-1, 1]; the block then still waits for the same
        leaves.
        """
        policy, value = self._checked(policy, value, extra_heads)
        self._mode.absorb(self._arena, self._used, policy, value)
        self._used = 0

    def search_on(self, policy: np.ndarray, value: np.ndarray, extra_heads: Sequence[np.ndarray] = ()) -> Leaves:
        """Absorb the evaluations of the last leaves and advance, with the results of `absorb` and `advance`, in less time.

        Raises as `absorb`.
        """
        answers = self._used, *self._checked(policy, value, extra_heads)
        self._used = self._mode.search_on(self.game, self._compiled, self._arena, self._history, answers)
        return self._leaves()

    def _checked(
        self, policy: np.ndarray, value: np.ndarray, extra_heads: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return policy and value for compiled code, and note the predictions of opponents. Raises as `absorb`."""
        players = self.game.spec().num_players
        if policy.shape != (self._used, self._rows.legal.shape[1]) or value.shape != (self._used, players):
            raise ValueError(f"policy {policy.shape} and value {value.shape} do not fit {self._used} leaves")
        policy, value = checked("policy", policy, WEIGHTS), checked("value", value, VALUES)
        if self._worlds is not None and self._extra_heads:
            _note_prediction(self._worlds.likelihood[: self._used], extra_heads)
        return policy, value

    def finished(self) -> list[int]:
        """Return the slots with a finished game."""
        return self._with_status(FINISHED)

    def waiting(self) -> list[int]:
        """Return the slots that wait for `play`: an external seat is to move, or a held search is complete."""
        return self._with_status(WAITING)

    def idle(self) -> list[int]:
        """Return the slots without a game."""
        return self._with_status(IDLE)

    def searching(self) -> list[int]:
        """Return the slots with a search in progress."""
        return self._with_status(SEARCHING)

    def _with_status(self, status: int) -> list[int]:
        return np.flatnonzero(self._arena.slots["status"] == status).tolist()

    def state(self, slot: int) -> core.State:
        """Return a copy of the slot's current position."""
        self._record(slot)
        state: core.State = self._arena.states[slot, ROOT].copy()
        return state

    def moves(self, slot: int) -> list[int]:
        """Return the moves played so far in a slot, including the opening."""
        return [int(move) for move in self._history.moves[slot, : self._record(slot)["ply"]]]

    def last_values(self, slot: int) -> tuple[float, ...] | None:
        """Return the value of the last move's search for each seat, in [-1, 1]; None without a move, or without its search."""
        ply = int(self._record(slot)["ply"]) - 1
        if ply < 0 or not self._history.versions[slot, ply]:
            return None
        return tuple(self._history.values[slot, ply].tolist())

    def play(self, slot: int, action: int) -> None:
        """Play a move in a waiting slot. Raises `IllegalMove` with the legal moves, `ValueError` for a slot not waiting."""
        record = self._record(slot)
        if record["status"] != WAITING:
            raise ValueError(f"slot {slot} does not wait for a move")
        root = self._arena.nodes[slot, ROOT]
        edges = self._arena.edges[slot, root["edge_start"] : root["edge_start"] + root["edge_count"]]
        found = np.flatnonzero(edges["action"] == action)
        if not len(found):
            raise IllegalMove(f"action {action} is not legal here; legal: {edges['action'].tolist()}")
        if record["searched"]:
            choose_move(self._arena, slot, self._compiled)  # writes the target's weights for the history
        edge = int(root["edge_start"] + found[0])
        kernel.commit(self.game, self._arena, self._history, slot, self._compiled, edge)

    def set_versions(self, slot: int, versions: Sequence[int]) -> None:
        """Set the model versions of a slot's seats from their next move on. Raises `ValueError` like `begin`."""
        self._check_versions(versions)
        self._record(slot)["versions"][:] = versions

    def versions(self, slot: int) -> tuple[int, ...]:
        """Return the model versions of a slot's seats for their next searches."""
        return tuple(self._record(slot)["versions"].tolist())

    def set_resign_threshold(self, threshold: float) -> None:
        """Set the value at which players resign; -1: never. Takes effect at the next move.

        Raises `ValueError` for a threshold outside [-1, 1].
        """
        if not -1.0 <= threshold <= 1.0:
            raise ValueError(f"resignation threshold {threshold} is not in [-1, 1]")
        self._compiled = self._compiled._replace(resign_threshold=float(threshold))

    def abandon(self, slot: int) -> None:
        """Discard a slot's game, between `absorb` and the next `advance`; raises `ValueError` while leaves wait."""
        record = self._record(slot)
        if self._used:
            raise ValueError("leaves of this block wait for evaluations; absorb them first")
        record["status"] = IDLE

    def forget(self, versions: Sequence[int]) -> None:
        """Empty the cache of evaluations by `versions`, between `absorb` and the next `advance`."""
        self._cache.row[np.isin(self._cache.versions, versions)] = EMPTY

    def take(self, slot: int) -> PlayedGame:
        """Return a finished game and free its slot. Raises `ValueError` if it is not finished."""
        record = self._record(slot)
        if record["status"] != FINISHED:
            raise ValueError(f"the game of slot {slot} is not over")
        played = PlayedGame(
            game=self.game,
            seed=self._seeds[slot],
            versions=self._first_versions[slot],
            opening_plies=int(self._openings[slot]),
            moves=self._history.moves[slot, : record["ply"]].copy(),
            searched=searched_moves(self._history, slot, int(record["ply"])),
            scores=tuple(record["scores"].tolist()),
            resigned_seat=int(record["resigned"]) if record["resigned"] >= 0 else None,
            resignation_control=bool(record["control"]),
            tag=self._tags[slot],
        )
        record["status"] = IDLE
        self._tags[slot] = None
        return played

    def analysis(self, slot: int) -> RootAnalysis:
        """Return the searched root of a slot. Raises `ValueError` if its position is not evaluated."""
        record = self._record(slot)
        if self._arena.nodes[slot, ROOT]["visits"] == 0 or record["status"] in (FINISHED, IDLE):
            raise ValueError(f"slot {slot} holds no searched position")
        return analyse_root(self._arena, slot, self._compiled, alternates=self._worlds is None)

    def node(self, slot: int, path: Sequence[int]) -> TreeNode:
        """Return the node that the actions of `path` lead to from a slot's root.

        Raises `ValueError` if it is not expanded, and with hidden information for any node but the root: those below it hold
        invented hands.
        """
        self._record(slot)
        if self._worlds is not None and path:
            raise ValueError("with hidden information the root alone is shown: nodes below it hold invented hands")
        return view_node(self._arena, slot, path)

    def worlds(self, slot: int) -> WorldStatistics | None:
        """Return a slot's root over the worlds of its search; None without hidden information.

        Raises `ValueError` if its position is not evaluated.
        """
        self._record(slot)
        if self._worlds is None:
            return None
        if self._arena.nodes[slot, ROOT]["visits"] == 0:
            raise ValueError(f"slot {slot} holds no searched position")
        return view_worlds(self.game, self._arena, self._worlds, slot)


def _note_prediction(likelihood: np.ndarray, extra_heads: Sequence[np.ndarray]) -> None:
    """Copy the head `opponents` into `likelihood`; raises `ValueError` if it is missing or invalid."""
    if not extra_heads or extra_heads[0].shape != likelihood.shape:
        got = [head.shape for head in extra_heads]
        raise ValueError(f"information=predict needs the head `opponents`, {likelihood.shape}; got {got}")
    likelihood[:] = checked("opponents head", extra_heads[0], WEIGHTS)


def _schedule(game: Game, settings: SearchSettings) -> np.ndarray:
    """Return the Gumbel visit schedules of the fast and the full budget, int32 [2, m + 1, simulations]."""
    if settings.root_policy != "gumbel":
        return np.zeros((2, 1, 1), dtype=np.int32)
    most = min(settings.gumbel_considered, game.spec().max_legal)
    length = max(settings.simulations, settings.fast_simulations)
    table = np.zeros((2, most + 1, length), dtype=np.int32)
    table[0, :, : settings.fast_simulations] = considered_visits(most, settings.fast_simulations)
    table[1, :, : settings.simulations] = considered_visits(most, settings.simulations)
    return table
