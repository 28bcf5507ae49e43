"""`zerofleet agents`: the players beside the models, how they are written, and who plays which game."""

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
"""What may stand for a word in capitals of an agent's form; a small number for all others."""


@dataclass(frozen=True, slots=True)
class ListedAgent:
    """A kind of agent."""

    form: str
    """How it is written; words in capitals stand for something, brackets may be left out."""
    about: str
    plays: bool | None = None
    """Whether it plays the game that was asked about; None if none was."""
    refusal: str = ""
    """Why it does not."""


def agents(
    *,
    game_name: Annotated[
        str | None, typer.Option("--game", metavar="GAME", help="Only those that play this game.", show_default="all")
    ] = None,
    parameters: Parameters = None,
    json: Json = False,
) -> None:
    """List the agents: opponents of known strength for matches, tournaments, ladders and people.

    Models play beside them as `champion` or `model:N`. An agent may be given options: `NAME:ARGUMENT,OPTION=VALUE`.
    """
    game = None if game_name is None else chosen_game(game_name, parameters)
    kinds = listed(game)
    if json:
        screen.emit_json({"game": game_name, "agents": [asdict(kind) for kind in kinds]})
        return
    rows = screen.table("agent")
    rows.add_column("what it is")
    for kind in kinds:
        if kind.plays is not False:
            rows.add_row(kind.form, kind.about)
    screen.out().print(rows)
    others = [kind.form for kind in kinds if kind.plays is False]
    if others:
        screen.note(f"{len(others)} more do not play {game_name}; zerofleet agents --game {game_name} --json says why")


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
    raise AssertionError("agents are made here, not asked for moves")
