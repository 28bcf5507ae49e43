"""`zerofleet agents`: available agents, the forms of their names, and the games each plays."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from games.core import Game
from games.errors import GameError
from zerofleet.agents import AGENTS, make_agent
from zerofleet.cli import screen
from zerofleet.cli.options import Json, Parameters, chosen_game
from zerofleet.errors import ZerofleetError
from zerofleet.evaluators.base import Evaluation, LeafBatch, ModelVersion

__all__ = ["ListedAgent", "agents", "example_of", "listed"]

_EXAMPLES = {"AGENT": "random", "CHOICE": "rock", "N": "1"}
"""Substitutes for the words in capitals of an agent's form; a small number for all others."""


@dataclass(frozen=True, slots=True)
class ListedAgent:
    """Kind of agent."""

    form: str
    """Form of its name; words in capitals are placeholders, parts in brackets are optional."""
    about: str
    plays: bool | None = None
    """Whether it plays the given game; None without one."""
    refusal: str = ""
    """Reason if it does not."""


def agents(
    *,
    game_name: Annotated[
        str | None, typer.Option("--game", metavar="GAME", help="List only agents that play this game.", show_default="all")
    ] = None,
    parameters: Parameters = None,
    json: Json = False,
) -> None:
    """List the agents: opponents of known strength for matches, tournaments, ladders and interactive play.

    Models are named `champion` or `model:N`. Agents accept options: `NAME:ARGUMENT,OPTION=VALUE`.
    """
    if parameters and game_name is None:
        raise typer.BadParameter("parameters belong to one game; name it with --game", param_hint="--set")
    game = None if game_name is None else chosen_game(game_name, parameters)
    kinds = listed(game)
    if json:
        screen.emit_json({"game": game_name, "agents": [asdict(kind) for kind in kinds]})
        return
    rows = screen.table("agent")
    rows.add_column("description")
    for kind in kinds:
        if kind.plays is not False:
            rows.add_row(kind.form, kind.about)
    screen.out().print(rows)
    others = [kind.form for kind in kinds if kind.plays is False]
    if others:
        screen.note(f"{len(others)} more do not play {game_name}; for the reasons: zerofleet agents --game {game_name} --json")


def listed(game: Game | None) -> list[ListedAgent]:
    """Return every kind of agent, and whether it plays a game."""
    return [_listed(kind.form, kind.about, game) for kind in AGENTS.values()]


def example_of(form: str) -> str:
    """Return an agent written in a form, such as `alpha_beta:2` for `alpha_beta:DEPTH`."""
    return re.sub(r"[A-Z]+", lambda word: _EXAMPLES.get(word[0], "2"), re.sub(r"\[.*\]", "", form))


def _listed(form: str, about: str, game: Game | None) -> ListedAgent:
    if game is None:
        return ListedAgent(form, about)
    try:
        make_agent(example_of(form), game, evaluate=_nobody)
    except (ZerofleetError, GameError) as error:
        return ListedAgent(form, about, plays=False, refusal=str(error))
    return ListedAgent(form, about, plays=True)


def _nobody(batch: LeafBatch, version: ModelVersion) -> Evaluation:
    raise AssertionError("agents are only constructed here; no position is evaluated")
