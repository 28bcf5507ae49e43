"""A block of games searched together: the Python face of the compiled search.

    block = SearchBlock(game, settings, slots=256)
    for slot in range(256):
        block.begin(slot, seed=slot, versions=[1, 1])
    while True:
        leaves = block.advance()                  # compiled, GIL released
        answer = await evaluator.evaluate(leaves.batch, version=...)
        block.absorb(answer.policy, answer.value, answer.extra_heads)
        for slot in block.finished():
            played = block.take(slot)

Games of a block are independent: what one does depends on its seed and on evaluations, never on its neighbours. A block
is not thread-safe; one caller at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from games import core
from games.core import Game
from games.errors import IllegalMove
from games.randomness import uniform
from zerofleet.evaluators.base import LeafBatch
from zerofleet.search import kernel, predict
from zerofleet.search.arena import FINISHED, IDLE, SEARCHING, WAITING, allocate
from zerofleet.search.decide import best_edge, choose_move, root_value
from zerofleet.search.gumbel import considered_visits
from zerofleet.search.modes import mode_of
from zerofleet.search.played import TARGET_UNIT, PlayedGame, RootAnalysis, SearchedMove
from zerofleet.search.rules import rules_of
from zerofleet.search.settings import SearchSettings
from zerofleet.search.tree import NO_NODE, ROOT
from zerofleet.search.worlds import allocate_worlds

__all__ = ["LAST_SEED", "Leaves", "SearchBlock", "SearchCounters"]

LAST_SEED = (1 << 63) - 1  # fits signed and unsigned words alike
MOST_VALUE = 1.001  # a mean of scores in [-1, 1], rounded


@dataclass(frozen=True, slots=True)
class Leaves:
    """Leaves of one step. The arrays are views that the next `advance` overwrites."""

    batch: LeafBatch
    versions: np.ndarray  # int64 [B], the model version each leaf wants


@dataclass(frozen=True, slots=True)
class SearchCounters:
    """What a block has done since it was made."""

    simulations: int
    cache_hits: int
    moves: int


class SearchBlock:
    """`slots` games, each with its own tree, seed and players."""

    def __init__(self, game: Game, settings: SearchSettings, *, slots: int) -> None:
        """Allocate the block; compiled code loads on the first call that needs it.

        Raises `ValueError` when the game cannot be searched with `settings.information`.
        """
        self.game = game
        self.settings = settings
        self._rules = rules_of(settings)
        self._mode = mode_of(game, settings)
        self._arena, self._history, self._rows, self._cache = allocate(game, settings, slots, _schedule(game, settings))
        self._worlds = None if self._mode is kernel else allocate_worlds(game, settings, slots)
        self._batch = (self._rows, self._worlds or self._cache)
        self._heads = int(self._mode is predict)
        self._tags: list[object] = [None] * slots
        self._openings = np.zeros(slots, dtype=np.int32)
        self._seeds = [0] * slots
        self._first_versions: list[tuple[int, ...]] = [()] * slots
        self._used = 0

    def __len__(self) -> int:
        return len(self._arena.slots)

    @property
    def nbytes(self) -> int:
        """Address space of the block's arrays in bytes; pages that no game reached cost no memory."""
        groups: tuple[tuple[Any, ...], ...] = (self._arena, self._history, *self._batch)
        return sum(array.nbytes for group in groups for array in group)

    @property
    def counters(self) -> SearchCounters:
        """Totals since the block was made."""
        simulations, hits, moves = (int(n) for n in self._arena.counters)
        return SearchCounters(simulations, hits, moves)

    def begin(
        self,
        slot: int,
        *,
        seed: int,
        versions: Sequence[int],
        opening: Sequence[int] = (),
        hold: bool = False,
        tag: object = None,
    ) -> None:
        """Begin a game in an idle slot.

        `versions` names the model version of each seat, or `EXTERNAL` for a seat whose moves come through `play`. `opening`
        is played first. With `hold` the slot waits for `play` after each search as well. Raises `IllegalMove` for an
        opening that is not legal or ends the game, `ValueError` for a slot in use, a seed outside [0, 2^63), a wrong number
        of seats or a version that cannot be; the slot then stays idle.
        """
        record = self._record(slot)
        if record["status"] != IDLE:
            raise ValueError(f"slot {slot} is in use; take or abandon its game first")
        if not 0 <= seed <= LAST_SEED:
            raise ValueError(f"seed {seed} is not in [0, 2^63)")
        self._check_versions(versions)
        self._arena.words[slot] = np.uint64(seed)
        record["ply"] = len(opening)
        record["hold"] = hold
        record["resigned"] = -1
        record["version"] = 0
        record["versions"][:] = versions
        record["pending"] = 0
        state = self._arena.states[slot, ROOT]
        core.reset(self.game, state, seed)
        self._play_opening(slot, state, opening)
        record["control"] = uniform(self._arena.words[slot]) < self._rules.resign_control_share
        self._tags[slot], self._openings[slot] = tag, len(opening)
        self._seeds[slot], self._first_versions[slot] = seed, tuple(versions)
        kernel.new_tree(self.game, self._arena, slot)
        kernel.begin_move(self.game, self._arena, slot, self._rules)
        if record["status"] == FINISHED:
            record["status"] = IDLE
            raise IllegalMove(f"the opening {list(opening)} ends the game")

    def _record(self, slot: int) -> Any:
        """Return a slot as compiled code sees it; raises `IndexError` where there is none."""
        if not 0 <= slot < len(self):
            raise IndexError(f"there is no slot {slot}; this block has {len(self)} slots, numbered from 0")
        return self._arena.slots[slot]

    def _check_versions(self, versions: Sequence[int]) -> None:
        seats = self.game.spec().num_players
        if len(versions) != seats:
            raise ValueError(f"{len(versions)} versions for {seats} seats")
        for version in versions:
            if version < 1 and version != kernel.EXTERNAL:
                raise ValueError(f"version {version} is neither a model version (1 and up) nor EXTERNAL ({kernel.EXTERNAL})")

    def _play_opening(self, slot: int, state: core.State, opening: Sequence[int]) -> None:
        legal = self._arena.legal
        self._history.versions[slot] = 0
        remembers = self.settings.repetition == "history"
        for ply, action in enumerate(opening):
            count = core.legal_actions(self.game, state, legal)
            if action not in legal[:count]:
                raise IllegalMove(f"move {ply + 1} of the opening is {action}; legal: {legal[:count].tolist()}")
            if remembers:
                self._arena.past[slot, ply] = core.repetition_key(self.game, state)
            core.play(self.game, state, action)
            self._history.moves[slot, ply] = action

    def advance(self) -> Leaves:
        """Search every slot until it waits for evaluations, for a move, or is finished; return the leaves.

        While leaves wait, calling again returns the same ones.
        """
        if not self._used:
            self._used = self._mode.advance(self.game, self._rules, self._arena, self._history, self._batch)
        rows = self._rows
        batch = LeafBatch(rows.states[: self._used], rows.legal[: self._used], self._heads)
        return Leaves(batch, rows.versions[: self._used])

    def absorb(self, policy: np.ndarray, value: np.ndarray, heads: Sequence[np.ndarray] = ()) -> None:
        """Take in the evaluations of the last leaves: policy [B, L], value [B, P] (player to move first).

        With `information=predict` also the extra head `opponents`, [B, A]; other heads are ignored. A policy need not sum to
        1; one of zeros counts as uniform. Raises `ValueError` when the shapes are not those of the leaves, for a policy or
        head with a number that is negative or not finite, and for a value outside [-1, 1]; the block then still waits for the
        same leaves.
        """
        players = self.game.spec().num_players
        if policy.shape != (self._used, self._rows.legal.shape[1]) or value.shape != (self._used, players):
            raise ValueError(f"policy {policy.shape} and value {value.shape} do not fit {self._used} leaves")
        policy = np.ascontiguousarray(policy, dtype=np.float32)
        value = np.ascontiguousarray(value, dtype=np.float32)
        _require("policy", policy, (policy >= 0.0) & (policy < np.inf), "finite numbers from 0 up")
        _require("value", value, np.abs(value) <= MOST_VALUE, "numbers in [-1, 1]")
        if self._worlds is not None and self._heads:
            self._note_prediction(self._worlds.likelihood[: self._used], heads)
        self._mode.absorb(self._arena, self._batch, self._used, policy, value)
        self._used = 0

    def _note_prediction(self, likelihood: np.ndarray, heads: Sequence[np.ndarray]) -> None:
        """Copy the head `opponents` into `likelihood`; raises `ValueError` where it is missing or unsound."""
        if not heads or heads[0].shape != likelihood.shape:
            raise ValueError(
                f"information=predict needs the head `opponents`, {likelihood.shape}; got {[head.shape for head in heads]}"
            )
        _require("opponents head", heads[0], (heads[0] >= 0.0) & (heads[0] < np.inf), "finite numbers from 0 up")
        likelihood[:] = heads[0]

    def finished(self) -> list[int]:
        """Return the slots whose game is over."""
        return self._with_status(FINISHED)

    def waiting(self) -> list[int]:
        """Return the slots that wait for `play`: an external seat is to move, or a held search is done."""
        return self._with_status(WAITING)

    def idle(self) -> list[int]:
        """Return the slots without a game."""
        return self._with_status(IDLE)

    def searching(self) -> list[int]:
        """Return the slots with a search under way."""
        return self._with_status(SEARCHING)

    def _with_status(self, status: int) -> list[int]:
        return np.flatnonzero(self._arena.slots["status"] == status).tolist()

    def state(self, slot: int) -> core.State:
        """Return a copy of the slot's present position."""
        self._record(slot)
        state: core.State = self._arena.states[slot, ROOT].copy()
        return state

    def moves(self, slot: int) -> list[int]:
        """Return the moves played so far in a slot, the opening included."""
        return [int(move) for move in self._history.moves[slot, : self._record(slot)["ply"]]]

    def play(self, slot: int, action: int) -> None:
        """Play a move in a waiting slot. Raises `IllegalMove` with the legal moves, `ValueError` if it does not wait."""
        record = self._record(slot)
        if record["status"] != WAITING:
            raise ValueError(f"slot {slot} does not wait for a move")
        root = self._arena.nodes[slot, ROOT]
        edges = self._arena.edges[slot, root["edge_start"] : root["edge_start"] + root["edge_count"]]
        found = np.flatnonzero(edges["action"] == action)
        if not len(found):
            raise IllegalMove(f"action {action} is not legal here; legal: {edges['action'].tolist()}")
        if record["searched"]:
            choose_move(self._arena, slot, self._rules)  # leaves the target's weights for the history
        edge = int(root["edge_start"] + found[0])
        kernel.commit(self.game, self._arena, self._history, slot, self._rules, edge)

    def set_versions(self, slot: int, versions: Sequence[int]) -> None:
        """Let a slot's seats use other model versions from their next move on. Raises `ValueError` as `begin` does."""
        self._check_versions(versions)
        self._record(slot)["versions"][:] = versions

    def versions(self, slot: int) -> tuple[int, ...]:
        """Return the model version each seat of a slot uses for its next search."""
        return tuple(self._record(slot)["versions"].tolist())

    def set_resign_threshold(self, threshold: float) -> None:
        """Change the value at which players resign; -1 never resigns. Takes effect at the next move.

        Raises `ValueError` for a threshold outside [-1, 1].
        """
        if not -1.0 <= threshold <= 1.0:
            raise ValueError(f"resignation threshold {threshold} is not in [-1, 1]")
        self._rules = self._rules._replace(resign_threshold=float(threshold))

    def abandon(self, slot: int) -> None:
        """Forget a slot's game. Only between `absorb` and the next `advance`; raises `ValueError` while leaves wait."""
        record = self._record(slot)
        if self._used:
            raise ValueError("leaves of this block wait for evaluations; absorb them first")
        record["status"] = IDLE

    def take(self, slot: int) -> PlayedGame:
        """Return a finished game and free its slot. Raises `ValueError` when it is not finished."""
        record = self._record(slot)
        if record["status"] != FINISHED:
            raise ValueError(f"the game of slot {slot} is not over")
        played = PlayedGame(
            game=self.game,
            seed=self._seeds[slot],
            versions=self._first_versions[slot],
            opening_plies=int(self._openings[slot]),
            moves=self._history.moves[slot, : record["ply"]].copy(),
            searched=self._searched(slot, int(record["ply"])),
            scores=tuple(record["scores"].tolist()),
            resigned_seat=int(record["resigned"]) if record["resigned"] >= 0 else None,
            resignation_control=bool(record["control"]),
            tag=self._tags[slot],
        )
        record["status"] = IDLE
        self._tags[slot] = None
        return played

    def _searched(self, slot: int, plies: int) -> tuple[SearchedMove, ...]:
        history = self._history
        found = []
        for ply in np.flatnonzero(history.versions[slot, :plies]):
            count = history.counts[slot, ply]
            weights = history.targets[slot, ply, :count]
            found.append(
                SearchedMove(
                    ply=int(ply),
                    model_version=int(history.versions[slot, ply]),
                    actions=history.actions[slot, ply, :count].astype(np.int32),
                    visits=history.visits[slot, ply, :count].copy(),
                    target=_fixed_point(weights),
                    root_value=history.values[slot, ply].copy(),
                    flags=int(history.flags[slot, ply]),
                )
            )
        return tuple(found)

    def analysis(self, slot: int) -> RootAnalysis:
        """Return the searched root of a slot. Raises `ValueError` when its position was not evaluated."""
        record, nodes, edges = self._record(slot), self._arena.nodes[slot], self._arena.edges[slot]
        root = nodes[ROOT]
        if root["visits"] == 0 or record["status"] in (FINISHED, IDLE):
            raise ValueError(f"slot {slot} holds no searched position")
        mover = int(root["to_move"])
        own = edges[root["edge_start"] : root["edge_start"] + root["edge_count"]]
        value = np.zeros(nodes["value"].shape[1], dtype=np.float32)
        root_value(nodes, edges, value)
        visits = own["visits"].copy()
        sums = own["value"][:, mover]
        return RootAnalysis(
            to_move=mover,
            version=int(record["version"]),
            actions=own["action"].astype(np.int32),
            priors=own["prior"].copy(),
            visits=visits,
            values=np.where(visits > 0, sums / np.maximum(visits, 1), np.nan).astype(np.float32),
            value=value,
            principal_variation=self._principal_variation(slot),
        )

    def _principal_variation(self, slot: int) -> tuple[int, ...]:
        nodes, edges = self._arena.nodes[slot], self._arena.edges[slot]
        line = []
        index = ROOT
        while nodes[index]["edge_count"]:
            first = nodes[index]["edge_start"]
            own = edges[first : first + nodes[index]["edge_count"]]
            best = best_edge(nodes, edges) if index == ROOT else first + int(np.argmax(own["visits"]))
            if edges[best]["visits"] == 0:
                break
            line.append(int(edges[best]["action"]))
            if edges[best]["child"] == NO_NODE or self._worlds is not None:
                break  # below that others move who stand in no tree
            index = int(edges[best]["child"])
        return tuple(line)


def _require(name: str, answer: np.ndarray, good: np.ndarray, wanted: str) -> None:
    """Refuse an answer of the network of which not every number is `good` (bool, of the same shape)."""
    if not good.all():
        leaf = int(np.flatnonzero(~good.all(axis=1))[0])
        raise ValueError(f"the {name} of leaf {leaf} is {answer[leaf].tolist()}; wanted {wanted}")


def _schedule(game: Game, settings: SearchSettings) -> np.ndarray:
    """Return Gumbel's visit schedule of the fast and the full budget, int32 [2, m + 1, simulations]."""
    if settings.root_policy != "gumbel":
        return np.zeros((2, 1, 1), dtype=np.int32)
    most = min(settings.gumbel_considered, game.spec().max_legal)
    length = max(settings.simulations, settings.fast_simulations)
    table = np.zeros((2, most + 1, length), dtype=np.int32)
    table[0, :, : settings.fast_simulations] = considered_visits(most, settings.fast_simulations)
    table[1, :, : settings.simulations] = considered_visits(most, settings.simulations)
    return table


def _fixed_point(weights: np.ndarray) -> np.ndarray:
    """Return weights (float32 [n], sum 1) in units of 1/65535 that sum to 65535 exactly; empty when all are 0."""
    if not weights.any():
        return np.zeros(0, dtype=np.uint16)
    scaled = weights.astype(np.float64) / weights.sum(dtype=np.float64) * TARGET_UNIT
    units = np.floor(scaled).astype(np.int64)
    rest = TARGET_UNIT - int(units.sum())
    units[np.argsort(units - scaled, kind="stable")[:rest]] += 1
    return np.asarray(units, dtype=np.uint16)
