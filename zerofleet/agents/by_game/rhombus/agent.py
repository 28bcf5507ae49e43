"""The heuristic search agent of Chinese Checkers on the rhombus: `rhombus_search:4`, `rhombus_search:200ms,ties=fixed`.

It looks so many plies ahead and chooses among the best moves, by default with equal chances. What it finds does not depend
on earlier moves or on the thread it is asked in; with a time limit it depends on the machine.
"""

from __future__ import annotations

import threading
from typing import Literal, TypeAlias, cast

import numpy as np
from pydantic import Field

from games.chinese_checkers.rhombus import ChineseCheckersRhombus
from games.core import Game, State
from zerofleet.agents.base import Choice, Evaluate
from zerofleet.agents.budget import Budget
from zerofleet.agents.by_game.rhombus.evaluation import cell_values, expected_score, linear_weights
from zerofleet.agents.by_game.rhombus.root import Found, run
from zerofleet.agents.by_game.rhombus.work import Work, make_work
from zerofleet.agents.canonical import canonical_name
from zerofleet.agents.spelling import AgentOptions, Spelling
from zerofleet.errors import InvalidRequest

__all__ = ["MOST_PLIES", "RhombusSearchAgent", "SearchOptions", "from_spelling", "searcher_room"]

MOST_PLIES = 8
"""Beyond what a fixed depth reaches in reasonable time."""

_DEEPEST = 24  # plies that a budget of nodes or time may reach
_NO_LIMIT = 2**62

Switch: TypeAlias = Literal["on", "off"]


class SearchOptions(AgentOptions):
    """How it searches. Options from `algorithm` to `exponent` cost or save time; with keying=exact they change no value."""

    ties: Literal["random", "fixed"] = "random"
    """Among equally good moves: any with equal chances, or always the one found first."""
    evaluation: Literal["cells", "linear"] = "cells"
    algorithm: Literal["minimax", "alpha_beta", "negascout"] = "negascout"
    generation: Literal["flood", "fresh", "upward", "channels"] = "flood"
    """How moves are found."""
    order: Literal["listed", "gain"] = "gain"
    """Which moves go first where nothing better is known."""
    table: Switch = "on"
    """Transposition table; off where the rules know repetitions, as equal positions then differ in their past."""
    bits: int = Field(default=18, ge=0, le=24)
    """The table has 2 ** bits entries."""
    keying: Literal["deeper", "exact"] = "deeper"
    """Which entries count: those searched at least as deep, or those searched exactly as deep."""
    history: Switch = "on"
    presearch: int = Field(default=2, ge=0, le=6)
    """Plies of a search before that warms history and table; 0 for none."""
    exponent: Literal["depth", "next"] = "depth"
    """A cut with d plies left adds 2 ** d to the history of the move, or 2 ** (d + 1)."""
    reductions: Switch = "off"
    """Fail-high reductions; they may change the value."""
    margin: int = Field(default=40, ge=0, le=100_000)
    """Points above the bound from which a position is reduced."""
    moves: Literal["full", "net", "mono"] = "full"
    """All moves; none that ends behind its start; none with a hop backwards."""
    top: int = Field(default=0, ge=0, le=192)
    """Selective: only so many moves of each position, those that gain most; 0 for all."""

    def values(self, name: str) -> int:
        """Return the number of an option's value among those it may have."""
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


def searcher_room(game: ChineseCheckersRhombus, options: SearchOptions, plies: int) -> Work:
    """Return room for searches `plies` deep with these options."""
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
    """Searches a number of plies, or deeper and deeper within a number of nodes or milliseconds."""

    def __init__(self, game: Game, budget: Budget, options: SearchOptions | None = None) -> None:
        """Take the rules, the budget and how to search; raises `InvalidRequest` for another game or with long hops."""
        self.options = SearchOptions() if options is None else options
        self.budget = budget
        self.name = canonical_name("rhombus_search", str(budget), self.options)
        if not isinstance(game, ChineseCheckersRhombus) or game.long_hops:
            raise InvalidRequest(
                f"{self.name} plays chinese_checkers_rhombus without long_hops only; `greedy` plays the others"
            )
        if budget.unit == "plies" and budget.amount > MOST_PLIES:
            raise InvalidRequest(f"{self.name} is out of range; it searches 1 to {MOST_PLIES} plies, or write 1000ms")
        self._rooms = threading.local()

    def choose(self, game: Game, state: State, rng: np.random.Generator) -> Choice:
        """See `zerofleet.agents.Agent`."""
        found = self.search(cast("ChineseCheckersRhombus", game), state)
        value = expected_score(found.score, _level(self.options))
        return Choice(int(rng.choice(found.actions)), found.nodes, value)

    def search(self, game: ChineseCheckersRhombus, state: State) -> Found:
        """Return the best moves of a position in which the game goes on."""
        work = self._room(game)
        amount, unit = self.budget.amount, self.budget.unit
        work.control[0].limit = amount if unit == "nodes" else _NO_LIMIT
        depths = self._depths() if unit == "plies" else range(1, _DEEPEST + 1)
        return run(game, state, work, depths, time_s=amount / 1000 if unit == "ms" else None)

    def _depths(self) -> list[int]:
        """Return the plies of the search before, if there is one, and of the search."""
        options, plies = self.options, self.budget.amount
        warms = options.history == "on" and 0 < options.presearch < plies
        return [options.presearch, plies] if warms else [plies]

    def _room(self, game: ChineseCheckersRhombus) -> Work:
        """Return this thread's room for a game with these parameters."""
        rooms: dict[ChineseCheckersRhombus, Work] = self._rooms.__dict__.setdefault("by_game", {})
        if game not in rooms:
            plies = self.budget.amount if self.budget.unit == "plies" else _DEEPEST
            rooms[game] = searcher_room(game, self.options, plies)
        return rooms[game]


def from_spelling(spelling: Spelling, game: Game, evaluate: Evaluate | None) -> RhombusSearchAgent:
    """Return the agent written `rhombus_search:4`."""
    budget = Budget.parse(spelling.argument, bare="plies", allowed=("plies", "nodes", "ms"))
    return RhombusSearchAgent(game, budget, spelling.options(SearchOptions))


def _level(options: SearchOptions) -> int:
    return linear_weights().level if options.evaluation == "linear" else cell_values().level
