"""The heuristic search agent of Chinese Checkers on the rhombus: `rhombus_search:4`, `rhombus_search:200ms,ties=fixed`.

It searches a number of plies and chooses among the best moves, by default uniformly. The result does not depend on earlier
moves or on the calling thread; with a time limit it depends on the machine.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Literal, TypeAlias, cast

import numpy as np
from pydantic import Field

from games.chinese_checkers.rhombus import ChineseCheckersRhombus
from games.core import Game, State
from games.positions import new_state
from zerofleet.agents.base import Choice, Evaluate
from zerofleet.agents.budget import Budget
from zerofleet.agents.by_game.rhombus.evaluation import cell_values, expected_score, linear_weights
from zerofleet.agents.by_game.rhombus.homing import have_passed, shortest_way
from zerofleet.agents.by_game.rhombus.root import Found, run
from zerofleet.agents.by_game.rhombus.work import Work, make_work
from zerofleet.agents.depth_first.deepening import read_budget
from zerofleet.agents.spelling import AgentOptions, Spelling, canonical_name
from zerofleet.errors import InvalidRequest

__all__ = ["MOST_PLIES", "RhombusSearchAgent", "SearchOptions", "from_spelling", "searcher_room"]

MOST_PLIES = 8
"""Limit of a fixed depth, beyond what is practical."""

_DEEPEST = 24  # plies, limit within a budget of nodes or time
_NO_LIMIT = 2**62
_SHARE_OF_WAY = 0.5  # of a time budget, for the search of the shortest way; the usual search has the rest where it finds none

Switch: TypeAlias = Literal["on", "off"]


class SearchOptions(AgentOptions):
    """Options of `rhombus_search`. Those from `algorithm` to `exponent` affect speed; values only without keying=exact."""

    ties: Literal["random", "fixed"] = "random"
    """Tie break: uniformly random, or always the move found first."""
    evaluation: Literal["cells", "linear"] = "cells"
    algorithm: Literal["minimax", "alpha_beta", "negascout"] = "negascout"
    generation: Literal["flood", "fresh", "upward", "channels"] = "flood"
    """Move generator."""
    order: Literal["listed", "gain"] = "gain"
    """Default move ordering, after refutation moves and history."""
    table: Switch = "on"
    """Transposition table; always off under repetition rules, where the value of a position depends on its history."""
    bits: int = Field(default=18, ge=0, le=24)
    """Binary logarithm of the number of table entries."""
    keying: Literal["deeper", "exact"] = "deeper"
    """Usable entries: those searched at least as deep, or exactly as deep."""
    history: Switch = "on"
    presearch: int = Field(default=2, ge=0, le=6)
    """Plies of a shallow search that fills history and table first; 0: none."""
    exponent: Literal["depth", "next"] = "depth"
    """A cutoff with d plies left adds 2 ** d to the history of the move, or 2 ** (d + 1)."""
    reductions: Switch = "off"
    """Fail-high reductions; they may change the value."""
    margin: int = Field(default=40, ge=0, le=100_000)
    """Points above the bound from which a position is reduced."""
    moves: Literal["full", "net", "mono"] = "full"
    """All moves; no moves that end behind their start; no moves with a backward hop."""
    top: int = Field(default=0, ge=0, le=192)
    """Forward pruning: number of moves searched per position, those of the largest gain; 0: all."""
    endgame: Literal["search", "exact"] = "search"
    """Play once all pieces have passed each other. `exact`: a shortest way home, where one is found within `endgame_nodes`."""
    endgame_nodes: int = Field(default=20_000, ge=1, le=10_000_000)
    """Positions visited by the search of the shortest way, which a time budget may end before."""

    def values(self, name: str) -> int:
        """Return the index of an option's value among its allowed values."""
        return _ALLOWED[name].index(getattr(self, name))


_ALLOWED: dict[str, tuple[str, ...]] = {
    "algorithm": ("minimax", "alpha_beta", "negascout"),
    "generation": ("flood", "fresh", "upward", "channels"),
    "moves": ("full", "net", "mono"),
    "evaluation": ("cells", "linear"),
    "order": ("listed", "gain"),
    "table": ("off", "on"),
    "keying": ("deeper", "exact"),
    "history": ("off", "on"),
    "exponent": ("depth", "next"),
    "reductions": ("off", "on"),
    "ties": ("fixed", "random"),
}


_NEEDS = {
    "bits": ("table", "on"),
    "keying": ("table", "on"),
    "presearch": ("history", "on"),
    "exponent": ("history", "on"),
    "margin": ("reductions", "on"),
    "endgame_nodes": ("endgame", "exact"),
}
"""Options without effect unless another option has this value."""


def searcher_room(game: ChineseCheckersRhombus, options: SearchOptions, plies: int) -> Work:
    """Allocate buffers for searches `plies` deep with these options."""
    table = options.table == "on" and game.repetitions == 0
    work = make_work(game, plies, options.bits if table else 0, cell_values().worth, linear_weights().values)
    settings = work.settings[0]
    settings.algorithm = options.values("algorithm")
    settings.generation = options.values("generation")
    settings.moves = options.values("moves")
    settings.linear = options.values("evaluation")
    settings.level = _level(options)
    settings.sorted = options.values("order")
    settings.table = table
    settings.exact = options.values("keying")
    settings.history = options.values("history")
    settings.exponent = options.values("exponent")
    settings.reductions = options.values("reductions")
    settings.margin = options.margin
    settings.top = options.top
    settings.all_ties = options.values("ties")
    return work


class RhombusSearchAgent:
    """Searches to a fixed depth, or deepens iteratively within a budget of nodes or milliseconds."""

    def __init__(
        self,
        game: Game,
        budget: Budget,
        options: SearchOptions | None = None,
        *,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Create the agent; raises `InvalidRequest` for another game, one with long hops, or options without effect.

        `clock`: time in seconds, of the search of a shortest way.
        """
        self.options = SearchOptions() if options is None else options
        self.budget = budget
        self.name = canonical_name("rhombus_search", str(budget), self.options)
        if not isinstance(game, ChineseCheckersRhombus) or game.long_hops:
            raise InvalidRequest(
                f"{self.name} plays chinese_checkers_rhombus without long_hops only; `greedy` plays every variant"
            )
        if budget.unit == "plies" and budget.amount > MOST_PLIES:
            raise InvalidRequest(f"{self.name} is out of range; want 1 to {MOST_PLIES} plies, or a budget such as 1000ms")
        self._refuse_idle_options()
        self._rooms = threading.local()
        self._clock = clock
        if budget.unit == "ms":
            self._warm_up(game)

    def choose(self, game: Game, state: State, rng: np.random.Generator) -> Choice:
        """See `zerofleet.agents.Agent`."""
        rhombus = cast("ChineseCheckersRhombus", game)
        began_s = self._clock()
        if self.options.endgame == "exact" and have_passed(rhombus, state):
            ends_s = began_s + _SHARE_OF_WAY * self.budget.amount / 1000 if self.budget.unit == "ms" else math.inf
            way = shortest_way(rhombus, state, most_nodes=self.options.endgame_nodes, ends_s=ends_s, clock=self._clock)
            if way is not None:
                return Choice(way.moves[0], way.nodes)
        found = self.search(rhombus, state, spent_s=self._clock() - began_s)
        value = expected_score(found.score, _level(self.options))
        return Choice(int(rng.choice(found.actions)), found.nodes, value)

    def search(self, game: ChineseCheckersRhombus, state: State, *, spent_s: float = 0.0) -> Found:
        """Return the best moves of a position that is not over. `spent_s`: part of a time budget that is spent already."""
        work = self._room(game)
        amount, unit = self.budget.amount, self.budget.unit
        work.control[0].limit = amount if unit == "nodes" else _NO_LIMIT
        depths = self._depths() if unit == "plies" else range(1, _DEEPEST + 1)
        return run(game, state, work, depths, time_s=max(0.0, amount / 1000 - spent_s) if unit == "ms" else None)

    def _refuse_idle_options(self) -> None:
        """Raise `InvalidRequest` for options that another option or the budget leaves without effect.

        Here and not in `SearchOptions`, since an ablation turns the other options on and off.
        """
        given = self.options.model_fields_set
        for option, (other, value) in _NEEDS.items():
            if option in given and getattr(self.options, other) != value:
                raise InvalidRequest(f"{self.name}: {option} has no effect without {other}={value}; omit {option}")
        if "presearch" in given and self.budget.unit != "plies":
            raise InvalidRequest(f"{self.name}: presearch is that of a fixed depth, such as rhombus_search:4; omit presearch")
        if "presearch" in given and self.options.presearch >= self.budget.amount:
            raise InvalidRequest(
                f"{self.name}: presearch has no effect unless it is less than the {self.budget.amount} plies; omit it"
            )

    def _warm_up(self, game: ChineseCheckersRhombus) -> None:
        """Compile or load the search, so that the first move has its full time."""
        work = searcher_room(game, self.options, 2)
        work.control[0].limit = _NO_LIMIT
        run(game, new_state(game), work, (1, 2))
        if self.options.endgame == "exact":
            shortest_way(game, new_state(game), most_nodes=1)

    def _depths(self) -> list[int]:
        """Return the depths of the preliminary search, if any, and of the main search."""
        options, plies = self.options, self.budget.amount
        warms = options.history == "on" and 0 < options.presearch < plies
        return [options.presearch, plies] if warms else [plies]

    def _room(self, game: ChineseCheckersRhombus) -> Work:
        """Return this thread's buffers for a game with these parameters."""
        rooms: dict[ChineseCheckersRhombus, Work] = self._rooms.__dict__.setdefault("by_game", {})
        if game not in rooms:
            plies = self.budget.amount if self.budget.unit == "plies" else _DEEPEST
            rooms[game] = searcher_room(game, self.options, plies)
        return rooms[game]


def from_spelling(spelling: Spelling, game: Game, evaluate: Evaluate | None) -> RhombusSearchAgent:
    """Return the agent written `rhombus_search:4`."""
    return RhombusSearchAgent(game, read_budget(spelling), spelling.options(SearchOptions))


def repeats_itself(spelling: Spelling) -> bool:
    """See `AgentKind.repeats`."""
    return spelling.options(SearchOptions).ties == "fixed" and not read_budget(spelling).is_time


def _level(options: SearchOptions) -> int:
    return linear_weights().level if options.evaluation == "linear" else cell_values().level
