"""Registry of agents by name; a new agent needs one entry here.

The module of an agent is imported when the first of its kind is made: most processes use one or two of the twenty.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias

from games.core import Game
from zerofleet.agents.base import Agent, Evaluate
from zerofleet.agents.spelling import Spelling
from zerofleet.errors import InvalidRequest

__all__ = ["AGENTS", "AgentKind", "make_agent", "repeats_itself"]


Make: TypeAlias = Callable[[Spelling, Game, Evaluate | None], Agent]
Repeats: TypeAlias = Callable[[Spelling], bool]


def _never(spelling: Spelling) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class AgentKind:
    """Kind of agent."""

    form: str
    """Spelling, with placeholders in capitals."""
    about: str
    """One-line description."""
    make: Make
    """Factory; raises `InvalidRequest`."""
    repeats: Repeats = _never
    """Whether an agent repeats a game given the same opposing moves; most break ties at random. Raises `InvalidRequest`."""


def _lazily(module: str, name: str = "from_spelling") -> Callable[..., Any]:
    """Return a function of a module of `zerofleet.agents`, which is imported at the first call."""

    def call(*arguments: Any) -> Any:
        return getattr(import_module(f"zerofleet.agents.{module}"), name)(*arguments)

    return call


def _best_response(spelling: Spelling, game: Game, evaluate: Evaluate | None) -> Agent:
    from zerofleet.agents.exact import best_response  # noqa: PLC0415  (imported at the first call, as by `_lazily`)

    return best_response.from_spelling(spelling, game, lambda text: make_agent(text, game, evaluate=evaluate))


AGENTS = {
    "random": AgentKind("random", "any legal move", _lazily("simple.random")),
    "greedy": AgentKind(
        "greedy",
        "the move with the best immediate gain, such as the most rows in Chinese Checkers",
        _lazily("simple.greedy"),
    ),
    "alpha_beta": AgentKind(
        "alpha_beta:DEPTH",
        "for two players: searches DEPTH plies; alpha_beta:100000nodes or alpha_beta:50ms: as deep as the budget allows",
        _lazily("depth_first.alpha_beta"),
    ),
    "perfect": AgentKind(
        "perfect", "exact solver, for connect_four and small games such as tic_tac_toe", _lazily("exact.perfect")
    ),
    "max_n": AgentKind(
        "max_n:DEPTH", "max^n search for any number of players, each maximising their own score", _lazily("depth_first.max_n")
    ),
    "initialize": AgentKind(
        "initialize",
        "for first games: random moves with weight 4 if they gain ground, 2 if they hold it, 1 if they lose it",
        _lazily("simple.initialize"),
    ),
    "best_response": AgentKind(
        "best_response:AGENT",
        "for small games: exact best response to AGENT, which must have known move probabilities, such as random",
        _best_response,
    ),
    "tic_tac_toe_rules": AgentKind(
        "tic_tac_toe_rules",
        "for tic_tac_toe: wins if it can, blocks if it must, takes the centre, else plays at random",
        _lazily("by_game.tic_tac_toe"),
    ),
    "take_six_comparison": AgentKind(
        "take_six_comparison", "for take_six: the card closest above the end of a shortest row", _lazily("by_game.take_six")
    ),
    "take_six_comparison_plus": AgentKind(
        "take_six_comparison_plus",
        "for take_six: the card closest above the end of the row where it lands, unless that row is full",
        _lazily("by_game.take_six"),
    ),
    "rhombus_search": AgentKind(
        "rhombus_search:DEPTH",
        "for chinese_checkers_rhombus: heuristic search, such as rhombus_search:4, :200ms or the selective :6,top=6",
        _lazily("by_game.rhombus"),
        _lazily("by_game.rhombus", "repeats_itself"),
    ),
    "rhombus_pool": AgentKind(
        "rhombus_pool:DEPTH,model=VERSION",
        "for chinese_checkers_rhombus: the heuristic search among the six best moves by a model of values",
        _lazily("by_game.rhombus", "pool_from_spelling"),
        _lazily("by_game.rhombus", "pool_repeats_itself"),
    ),
    "abalone_search": AgentKind(
        "abalone_search:DEPTH",
        "for abalone: alpha-beta with a heuristic evaluation, such as abalone_search:3,evaluation=strong or :50ms",
        _lazily("by_game.abalone"),
        _lazily("by_game.abalone", "repeats_itself"),
    ),
    "rock_paper_scissors_order": AgentKind(
        "rock_paper_scissors_order:N",
        "for rock_paper_scissors: counters the opponent's most frequent choice after their last N choices",
        _lazily("by_game.rock_paper_scissors", "order_from_spelling"),
    ),
    "rock_paper_scissors_adaptive": AgentKind(
        "rock_paper_scissors_adaptive",
        "for rock_paper_scissors: learns the opponent's habits during a game and plays the best response",
        _lazily("by_game.rock_paper_scissors_adaptive"),
    ),
    "rock_paper_scissors_constant": AgentKind(
        "rock_paper_scissors_constant:CHOICE",
        "for rock_paper_scissors: always rock, paper or scissors",
        _lazily("by_game.rock_paper_scissors", "constant_from_spelling"),
    ),
    "uct": AgentKind(
        "uct:SIMULATIONS",
        "Monte-Carlo tree search with random rollouts, for any number of players; uct:1000, uct:50ms, uct:1000,model=7",
        _lazily("uct.agent"),
    ),
    "network": AgentKind(
        "network,model=VERSION",
        "a model without search: the move of highest policy, or with by=value the move to the position of highest value",
        _lazily("model.network"),
        _lazily("model.network", "repeats_itself"),
    ),
    "mcts": AgentKind(
        "mcts:SIMULATIONS,model=VERSION",
        "the self-play search with its own budget, such as mcts:400,model=7 or mcts:200ms,model=7",
        _lazily("model.mcts"),
        _lazily("model.mcts", "repeats_itself"),
    ),
}
"""Kinds of agents by name."""


def make_agent(text: str, game: Game, *, evaluate: Evaluate | None = None) -> Agent:
    """Return the agent written `random`, `alpha_beta:5` or `uct:1000,final=visits`, for a game.

    Args:
        text: Spelling, in one of the forms of `AgentKind.form`.
        game: The rules.
        evaluate: Evaluator for agents that use a model; None if no model is available.

    Raises:
        InvalidRequest: Unknown agent, with the closest name or all known ones; or an agent that cannot play the game.
    """
    spelling = Spelling.parse(text)
    kind = AGENTS.get(spelling.name)
    if kind is None:
        raise InvalidRequest(f"no agent is called {spelling.name!r}; {_known(spelling.name)}")
    return kind.make(spelling, game, evaluate)


def repeats_itself(text: str) -> bool:
    """See `AgentKind.repeats`; False for an unknown agent. Raises `InvalidRequest`."""
    spelling = Spelling.parse(text)
    kind = AGENTS.get(spelling.name)
    return kind is not None and kind.repeats(spelling)


def _known(name: str) -> str:
    """Return a hint with the form closest to an unknown name, or with all forms where none is close."""
    if near := difflib.get_close_matches(name, AGENTS, n=1):
        return f"did you mean {AGENTS[near[0]].form}? `zerofleet agents` lists all"
    return f"there are {', '.join(kind.form for kind in AGENTS.values())}"
