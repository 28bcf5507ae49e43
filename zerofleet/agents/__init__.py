"""Agents: classical players that need no network, for ladders, gates and people who want an opponent.

    agent = make_agent("alpha_beta:5", game)
    action = agent.choose(game, state, rng)

An agent keeps no memory of a game: it may be asked about any position, and serves as many games as one likes.
"""

from __future__ import annotations

from games.core import Game
from zerofleet.agents.alpha_beta import AlphaBetaAgent
from zerofleet.agents.base import Agent
from zerofleet.agents.greedy import GreedyAgent
from zerofleet.agents.perfect import PerfectAgent
from zerofleet.agents.random import RandomAgent
from zerofleet.agents.rock_paper_scissors import RockPaperScissorsConstantAgent, RockPaperScissorsOrderAgent
from zerofleet.agents.take_six import TakeSixComparisonAgent
from zerofleet.errors import InvalidRequest

__all__ = [
    "AGENTS",
    "Agent",
    "AlphaBetaAgent",
    "GreedyAgent",
    "PerfectAgent",
    "RandomAgent",
    "RockPaperScissorsConstantAgent",
    "RockPaperScissorsOrderAgent",
    "TakeSixComparisonAgent",
    "make_agent",
]

AGENTS = {
    "random": "any legal move",
    "greedy": "the move that looks best at first sight, such as the most rows gained in Chinese Checkers",
    "alpha_beta:DEPTH": "sees wins and losses DEPTH plies ahead, plays at random otherwise; such as alpha_beta:5",
    "perfect": "solves the game; for small games, such as tic_tac_toe",
    "take_six_comparison": "for take_six: the card closest to the end of one of the shortest rows",
    "take_six_comparison_plus": "for take_six: the card closest to the row it lands on, if that is not full",
    "rock_paper_scissors_order:N": "for rock_paper_scissors: counters what most often followed the last N choices of the other",
    "rock_paper_scissors_constant:CHOICE": "for rock_paper_scissors: always rock, paper or scissors",
}
"""How agents are written, and what they are."""


def make_agent(text: str, game: Game) -> Agent:
    """Return the agent written `random`, `greedy`, `alpha_beta:5` or `perfect`, for a game.

    Raises `InvalidRequest` if there is no such agent or it cannot play the game; the text lists those that exist.
    """
    name, colon, argument = text.strip().partition(":")
    match name, colon:
        case "random", "":
            return RandomAgent()
        case "greedy", "":
            return GreedyAgent()
        case "perfect", "":
            return PerfectAgent(game)
        case "alpha_beta", _:
            if not (argument.isascii() and argument.isdigit()):
                raise InvalidRequest(f"{text!r} needs a depth in plies, such as alpha_beta:5")
            return AlphaBetaAgent(game, int(argument))
        case "take_six_comparison" | "take_six_comparison_plus", "":
            return TakeSixComparisonAgent(game, plus=name.endswith("_plus"))
        case "rock_paper_scissors_order", _:
            if not (argument.isascii() and argument.isdigit()):
                raise InvalidRequest(f"{text!r} needs the length of a pattern, such as rock_paper_scissors_order:3")
            return RockPaperScissorsOrderAgent(game, int(argument))
        case "rock_paper_scissors_constant", _:
            return RockPaperScissorsConstantAgent(game, argument)
    raise InvalidRequest(f"no agent is called {text!r}; there are {', '.join(AGENTS)}")
