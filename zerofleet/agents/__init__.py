"""Agents: players other than bare models, for ladders, gates, warm starts and human opponents.

    agent = make_agent("alpha_beta:5", game)
    action = agent.choose(game, state, rng).action

An agent is stateless between moves: it accepts any position and can serve any number of games.
"""

from __future__ import annotations

from zerofleet.agents.base import Agent, AgentMaker, Choice, Evaluate, PolicyAgent
from zerofleet.agents.registry import AGENTS, AgentKind, make_agent

__all__ = ["AGENTS", "Agent", "AgentKind", "AgentMaker", "Choice", "Evaluate", "PolicyAgent", "make_agent"]
