"""Entrants of a match or a tournament: names become players, with the models they need served."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from games.core import Game
from zerofleet.agents import Agent, make_agent
from zerofleet.agents.spelling import Spelling
from zerofleet.errors import InvalidRequest
from zerofleet.evaluators.base import Evaluation, LeafBatch, ModelVersion
from zerofleet.evaluators.opening import evaluating
from zerofleet.storage.run_lookup import find_run
from zerofleet.storage.runs import RunPaths
from zerofleet.strength.matches import Player
from zerofleet.strength.matches.play import waiting_for
from zerofleet.supervisor.borrowed import champion_version, served

__all__ = ["Entrants", "entrants", "is_model", "serving", "serving_agent", "version_of"]

_MODEL = "model"  # the option by which agents name the model they ask


@dataclass(frozen=True, slots=True)
class Entrants:
    """The players of a command, and the run whose models they are or ask."""

    players: tuple[Player, ...]
    run: RunPaths | None
    """None where no player needs a model."""
    versions: tuple[int, ...]
    """Versions to be served, ascending."""


def entrants(names: Sequence[str], game: Game, run_dir: Path | None, *, note: Callable[[str], None]) -> Entrants:
    """Return the players that names mean: `champion`, `model:7`, or an agent, which may ask a model (`model=champion`).

    `note` is called with a line on each `champion`: which version it is. Agents get their full names, so that one agent spelt
    in two ways is one player. Raises `InvalidRequest` for an agent that
    does not exist or cannot play the game, `RunDirectoryError` and `ModelNotFound` for models that are not there.
    """
    spellings = [Spelling.parse(name) for name in names]
    needed = [is_model(name) or _asked(spelling) for name, spelling in zip(names, spellings, strict=True)]
    for name, spelling in zip(names, spellings, strict=True):
        if not is_model(name) and not _asked(spelling):
            make_agent(name, game)  # says now if there is no such agent, before a run is looked for
    run = find_run(game, run_dir) if any(needed) else None
    players, versions = [], set[int]()
    for name, spelling in zip(names, spellings, strict=True):
        if run is not None and is_model(name):
            players.append(_told(name, Player.model(version_of(name, run, game)), run, note))
            versions.add(players[-1].version or 0)
            continue
        text = name
        if run is not None and (asked := _asked(spelling)):
            version = _version_asked(asked, run, game)
            versions.add(version)
            text = str(Spelling(spelling.name, spelling.argument, _with_model(spelling, version)))
        players.append(_told(name, Player(make_agent(text, game, evaluate=_nobody).name), run, note))
    return Entrants(tuple(players), run, tuple(sorted(versions)))


@contextlib.asynccontextmanager
async def serving(chosen: Entrants, game: Game) -> AsyncIterator[str | None]:
    """Yield the address of an inference server with the models the players need, None if they need none.

    Raises as `zerofleet.supervisor.borrowed.served` does. Cancellation: a server that was started is stopped.
    """
    if chosen.run is None:
        yield None
        return
    async with served(chosen.run, game, versions=chosen.versions) as address:
        yield address


@contextlib.asynccontextmanager
async def serving_agent(chosen: Entrants, game: Game) -> AsyncIterator[Agent]:
    """Yield the one player of `chosen`, an agent, with an inference server of the model that it asks, if it asks one.

    The agent is to choose in a thread beside this event loop. Raises as `serving` does. Cancellation: as there.
    """
    (player,) = chosen.players
    async with serving(chosen, game) as address:
        if address is None:
            yield make_agent(player.name, game)
            return
        async with evaluating(address, game) as evaluator:
            yield make_agent(player.name, game, evaluate=waiting_for(evaluator))


def is_model(name: str) -> bool:
    """Return whether an opponent's name means a model."""
    return name == "champion" or name.startswith("model:")


def version_of(name: str, run: RunPaths, game: Game) -> int:
    """Return the version that `champion` or `model:N` means; raises `ModelNotFound` or `InvalidRequest`."""
    if name == "champion":
        return champion_version(run, game)
    number = name.removeprefix("model:")
    if not number.isdigit() or int(number) < 1:
        raise InvalidRequest(f"{name!r} is not a model; write model:N with a version from `zerofleet models list`")
    return int(number)


def _asked(spelling: Spelling) -> str:
    """Return which model an agent asks, as written; empty if it asks none."""
    return dict(spelling.written).get(_MODEL, "")


def _version_asked(text: str, run: RunPaths, game: Game) -> int:
    return version_of(text if is_model(text) else f"model:{text}", run, game)


def _with_model(spelling: Spelling, version: int) -> tuple[tuple[str, str], ...]:
    return tuple((option, str(version) if option == _MODEL else value) for option, value in spelling.written)


def _told(name: str, player: Player, run: RunPaths | None, note: Callable[[str], None]) -> Player:
    """Return the player; where the name says `champion`, note the version."""
    if "champion" in name and run is not None:
        note(f"{name} is {player.name} of {run.root}")
    return player


def _nobody(batch: LeafBatch, version: ModelVersion) -> Evaluation:
    """Stand for the models while an agent is only looked at."""
    raise InvalidRequest(f"model {version} is not served yet; an agent is made before it is asked for a move")
