"""Warm start: games of agents that train the first network before self-play begins.

    workers ── games of agents ──► stream ──► trainer ── version 1 ──► gatekeeper ── first champion ──► self-play

The games are numbered from 0. Number, run seed and settings determine a game completely, including its uid: a game played
twice, by two workers or again after a kill, has the same uid and counts once.
"""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from games import core
from games.core import Game
from games.errors import GameError
from games.positions import written_parameters
from zerofleet.errors import ConfigurationError

__all__ = ["NumberedGame", "WarmStartPolicy", "WarmStartSettings", "game_of", "numbered_game", "seatings_of"]

WarmStartPolicy = Literal["one_hot", "agent"]

_LIKE = ("num_players", "num_actions", "max_legal", "planes", "reading", "information", "lattice")
"""Fields of the spec that games must share to train one network."""


class WarmStartSettings(BaseModel):
    """Games of agents before self-play, which train the first network."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    games: int = Field(default=0, ge=0)
    """Number of agent games before the first champion; 0: none, self-play begins with random weights."""
    agents: str = "initialize"
    """Agents: one for all seats, or one per seat, separated by commas (`alpha_beta:2,random`). They exchange seats from game
    to game."""
    policy: Literal["one_hot", "agent"] = "agent"
    """Policy target. `agent`: the agent's probability of each move if it provides one, else the move played. `one_hot`: the
    move played."""
    winner_only: bool = False
    """Whether only the winner's moves are training targets; draws then have none."""
    game_parameters: str = ""
    """Game parameters that replace those of the run, such as `moves_cap=200`: weak players may need more plies to finish."""
    parallel: int = Field(default=1, ge=1)
    """Games that a worker plays concurrently, in threads."""


@dataclass(frozen=True, slots=True)
class NumberedGame:
    """Planned game of the warm start."""

    number: int
    uid: str
    seed: int  # in [0, 2^63)
    agents: tuple[str, ...]  # by seat


def game_of(game: Game, settings: WarmStartSettings) -> Game:
    """Return the game of the warm start for a run of `game`.

    Raises `ConfigurationError` for unknown parameters, and for those that change the inputs or outputs of a network.
    """
    changes = dict(item.partition("=")[::2] for item in _listed(settings.game_parameters))
    try:
        other = core.make(game.spec().name, **{**game._asdict(), **changes})
    except GameError as error:
        raise ConfigurationError(f"warm_start.game_parameters={settings.game_parameters}: {error}") from error
    differing = [fact for fact in _LIKE if getattr(other.spec(), fact) != getattr(game.spec(), fact)]
    if differing:
        raise ConfigurationError(
            f"warm_start.game_parameters={settings.game_parameters} changes {', '.join(differing)} of {game.spec().name}: one "
            "network cannot train on both; change only parameters that keep them, such as a move limit"
        )
    return other


def seatings_of(game: Game, settings: WarmStartSettings) -> tuple[tuple[str, ...], ...]:
    """Return every distinct seating of the agents, as names by seat; games cycle through them.

    Raises `ConfigurationError` unless there is one agent, or one for each seat.
    """
    players = game.spec().num_players
    agents = _agents(settings.agents)
    if len(agents) == 1:
        return (agents * players,)
    if len(agents) != players:
        raise ConfigurationError(
            f"warm_start.agents={settings.agents} names {len(agents)} agents, {game.spec().name} has {players} seats; name one "
            "for all seats or one for each"
        )
    return tuple(dict.fromkeys(itertools.permutations(agents)))


def numbered_game(game: Game, settings: WarmStartSettings, *, run_seed: int, number: int) -> NumberedGame:
    """Return game `number` of the warm start; `game` is that of the run. Raises `ConfigurationError`."""
    seatings = seatings_of(game, settings)
    rules = game_of(game, settings)
    decisive = settings.model_dump(exclude={"games", "parallel"})
    text = f"warm start/{run_seed}/{rules.spec().name}/{written_parameters(rules)}/{decisive}/{number}"
    digest = hashlib.blake2b(text.encode(), digest_size=24).digest()
    seed = int.from_bytes(digest[16:], "little") >> 1
    return NumberedGame(number, digest[:16].hex(), seed, seatings[number % len(seatings)])


def _agents(text: str) -> tuple[str, ...]:
    """Return the agents named in `text`; an option (`final=visits`) belongs to the agent before it."""
    agents: list[str] = []
    for part in _listed(text):
        if agents and "=" in part:
            agents[-1] += f",{part}"
        else:
            agents.append(part)
    if not agents:
        raise ConfigurationError("warm_start.agents is empty; name one agent for all seats or one for each")
    return tuple(agents)


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
