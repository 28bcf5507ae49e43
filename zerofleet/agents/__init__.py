"""Agents: players beside the models, for ladders, gates, warm starts, and people who want an opponent.

    agent = make_agent("alpha_beta:5", game)
    action = agent.choose(game, state, rng).action

An agent keeps no memory of a game: it may be asked about any position, and serves as many games as one likes.
"""

from __future__ import annotations

from zerofleet.agents.base import Agent, AgentMaker, Choice, Evaluate, PolicyAgent
from zerofleet.agents.registry import AGENTS, AgentKind, make_agent

__all__ = ["AGENTS", "Agent", "AgentKind", "AgentMaker", "Choice", "Evaluate", "PolicyAgent", "make_agent"]
