"""All agents by name. A new one is a line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from games.core import Game
from zerofleet.agents.base import Agent, Evaluate
from zerofleet.agents.by_game import abalone, rhombus, rock_paper_scissors, take_six, tic_tac_toe
from zerofleet.agents.depth_first import alpha_beta, max_n
from zerofleet.agents.exact import best_response, perfect
from zerofleet.agents.model import mcts, network
from zerofleet.agents.simple import greedy, initialize, random
from zerofleet.agents.spelling import Spelling
from zerofleet.agents.uct import agent
from zerofleet.errors import InvalidRequest

__all__ = ["AGENTS", "AgentKind", "make_agent"]


@dataclass(frozen=True, slots=True)
class AgentKind:
    """One kind of agent."""

    form: str
    """How it is written."""
    about: str
    """What it is, in a line."""
    make: Callable[[Spelling, Game, Evaluate | None], Agent]
    """Makes one; raises `InvalidRequest`."""


def _best_response(spelling: Spelling, game: Game, evaluate: Evaluate | None) -> Agent:
    return best_response.from_spelling(spelling, game, lambda text: make_agent(text, game, evaluate=evaluate))


AGENTS = {
    "random": AgentKind("random", "any legal move", random.from_spelling),
    "greedy": AgentKind(
        "greedy",
        "the move that looks best at first sight, such as the most rows gained in Chinese Checkers",
        greedy.from_spelling,
    ),
    "alpha_beta": AgentKind(
        "alpha_beta:DEPTH",
        "for two players: sees DEPTH plies ahead; alpha_beta:100000nodes or alpha_beta:50ms: as far as that gets",
        alpha_beta.from_spelling,
    ),
    "perfect": AgentKind(
        "perfect", "solves the game; for connect_four and small games, such as tic_tac_toe", perfect.from_spelling
    ),
    "max_n": AgentKind(
        "max_n:DEPTH", "for any number of players: as alpha_beta, each for themselves; such as max_n:3", max_n.from_spelling
    ),
    "initialize": AgentKind(
        "initialize",
        "for first games: draws a move, twice as likely if it holds ground as if it loses some, and four times if it gains",
        initialize.from_spelling,
    ),
    "best_response": AgentKind(
        "best_response:AGENT",
        "for small games: the most that can be won from AGENT, if that says how likely its moves are; such as random",
        _best_response,
    ),
    "tic_tac_toe_rules": AgentKind(
        "tic_tac_toe_rules",
        "for tic_tac_toe: wins if it can, blocks if it must, takes the centre, else plays anywhere",
        tic_tac_toe.from_spelling,
    ),
    "take_six_comparison": AgentKind(
        "take_six_comparison", "for take_six: the card closest to the end of one of the shortest rows", take_six.from_spelling
    ),
    "take_six_comparison_plus": AgentKind(
        "take_six_comparison_plus",
        "for take_six: the card closest to the row it lands on, if that is not full",
        take_six.from_spelling,
    ),
    "rhombus_search": AgentKind(
        "rhombus_search:DEPTH",
        "for chinese_checkers_rhombus: heuristic search, such as rhombus_search:4, :200ms or the selective :6,top=6",
        rhombus.from_spelling,
    ),
    "abalone_search": AgentKind(
        "abalone_search:DEPTH",
        "for abalone: alpha-beta with an evaluation made for it, such as abalone_search:3,evaluation=strong or :50ms",
        abalone.from_spelling,
    ),
    "rock_paper_scissors_order": AgentKind(
        "rock_paper_scissors_order:N",
        "for rock_paper_scissors: counters what most often followed the last N choices of the other",
        rock_paper_scissors.order_from_spelling,
    ),
    "rock_paper_scissors_constant": AgentKind(
        "rock_paper_scissors_constant:CHOICE",
        "for rock_paper_scissors: always rock, paper or scissors",
        rock_paper_scissors.constant_from_spelling,
    ),
    "uct": AgentKind(
        "uct:SIMULATIONS",
        "tree search with games played out at random, for any number of players; uct:1000, uct:50ms, uct:1000,model=7",
        agent.from_spelling,
    ),
    "network": AgentKind(
        "network,model=VERSION",
        "a model without search: its likeliest move, or with by=value the move to the position it values most",
        network.from_spelling,
    ),
    "mcts": AgentKind(
        "mcts:SIMULATIONS,model=VERSION",
        "the search of self-play with a budget of its own, such as mcts:400,model=7 or mcts:200ms,model=7",
        mcts.from_spelling,
    ),
}
"""Every kind by name."""


def make_agent(text: str, game: Game, *, evaluate: Evaluate | None = None) -> Agent:
    """Return the agent written `random`, `alpha_beta:5` or `uct:1000,final=visits`, for a game.

    Args:
        text: As `AgentKind.form` says.
        game: What it is to play.
        evaluate: Who evaluates for agents that ask a model; None if there is no model.

    Raises:
        InvalidRequest: No such agent, or it cannot play the game; the text lists those that exist.
    """
    spelling = Spelling.parse(text)
    kind = AGENTS.get(spelling.name)
    if kind is None:
        forms = ", ".join(kind.form for kind in AGENTS.values())
        raise InvalidRequest(f"no agent is called {spelling.name!r}; there are {forms}")
    return kind.make(spelling, game, evaluate)
