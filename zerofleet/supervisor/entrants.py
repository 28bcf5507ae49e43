"""Entrants of a match or a tournament: conversion of names to players, and service of the models they need."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from games.core import Game
from zerofleet.agents import Agent, make_agent
from zerofleet.agents.spelling import Spelling
from zerofleet.contracts.naming import is_version
from zerofleet.errors import InvalidRequest
from zerofleet.evaluators.base import Evaluation, Evaluator, LeafBatch, ModelVersion
from zerofleet.evaluators.in_process.evaluator import InProcessEvaluator
from zerofleet.evaluators.opening import evaluating
from zerofleet.service.settings import open_run_store
from zerofleet.storage.run_lookup import find_run
from zerofleet.storage.runs import RunPaths
from zerofleet.strength.matches import Player
from zerofleet.strength.matches.play import waiting_for
from zerofleet.supervisor.borrowed import champion_version, served

__all__ = ["Entrants", "entrants", "evaluator_of", "is_model", "serving", "serving_agent", "version_of"]

_MODEL = "model"  # option of an agent that names its model


@dataclass(frozen=True, slots=True)
class Entrants:
    """Players of a command, and the run of their models."""

    players: tuple[Player, ...]
    run: RunPaths | None
    """None if no player needs a model."""
    versions: tuple[int, ...]
    """Versions to serve, ascending."""


def entrants(names: Sequence[str], game: Game, run_dir: Path | None, *, note: Callable[[str], None]) -> Entrants:
    """Return the players of names: `champion`, `model:7`, or an agent, which may use a model (`model=champion`).

    `note` is called with a line on the version of each `champion`. Agents get canonical names, so that two spellings of one
    agent are one player. Raises `InvalidRequest` for an unknown or unsuitable agent, `RunDirectoryError` and `ModelNotFound`
    for missing models.
    """
    spellings = [Spelling.parse(name) for name in names]
    needed = [is_model(name) or _asked(spelling) for name, spelling in zip(names, spellings, strict=True)]
    for name, spelling in zip(names, spellings, strict=True):
        if not is_model(name) and not _asked(spelling):
            make_agent(name, game)  # rejects an unknown agent before the lookup of a run
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
    """Yield the address of an inference server with the players' models, None if they need none.

    Raises the errors of `zerofleet.supervisor.borrowed.served`. Cancellation: a server started here is stopped.
    """
    if chosen.run is None:
        yield None
        return
    async with served(chosen.run, game, versions=chosen.versions) as address:
        yield address


@contextlib.asynccontextmanager
async def evaluator_of(chosen: Entrants, game: Game, *, in_process: bool = False) -> AsyncIterator[Evaluator]:
    """Yield an evaluator of the players' models: an inference server's, or with `in_process` this process itself.

    Raises the errors of `serving`, in process those of `load_network` for every version. Cancellation: as `serving`.
    """
    if in_process and chosen.run is not None:
        local = InProcessEvaluator(open_run_store(chosen.run), game)
        for version in chosen.versions:  # an unsuitable network is refused before the first game
            await asyncio.to_thread(local.load, ModelVersion(version))
        yield local
        return
    async with serving(chosen, game) as address, evaluating(address, game) as evaluator:
        yield evaluator


@contextlib.asynccontextmanager
async def serving_agent(chosen: Entrants, game: Game, *, in_process: bool = False) -> AsyncIterator[Agent]:
    """Yield the only player of `chosen`, an agent, with an evaluator of its model, if it uses one.

    The agent must run in a thread outside this event loop. Raises the errors of `evaluator_of`. Cancellation: as `serving`.
    """
    (player,) = chosen.players
    async with evaluator_of(chosen, game, in_process=in_process) as evaluator:
        yield make_agent(player.name, game, evaluate=None if chosen.run is None else waiting_for(evaluator))


def is_model(name: str) -> bool:
    """Return whether a name denotes a model."""
    return name == "champion" or name.startswith("model:")


def version_of(name: str, run: RunPaths, game: Game) -> int:
    """Return the version denoted by `champion` or `model:N`; raises `ModelNotFound` or `InvalidRequest`."""
    if name == "champion":
        return champion_version(run, game)
    number = name.removeprefix("model:")
    if not is_version(number):
        raise InvalidRequest(
            f"{name!r} is not a model; write model:N with a version from `zerofleet models list`, or with a search of its own "
            "mcts:SIMULATIONS,model=N,OPTION=VALUE"
        )
    return int(number)


def _asked(spelling: Spelling) -> str:
    """Return the text of an agent's model option; empty without one."""
    return dict(spelling.written).get(_MODEL, "")


def _version_asked(text: str, run: RunPaths, game: Game) -> int:
    return version_of(text if is_model(text) else f"model:{text}", run, game)


def _with_model(spelling: Spelling, version: int) -> tuple[tuple[str, str], ...]:
    return tuple((option, str(version) if option == _MODEL else value) for option, value in spelling.written)


def _told(name: str, player: Player, run: RunPaths | None, note: Callable[[str], None]) -> Player:
    """Return the player, after a note on the version if the name contains `champion`."""
    if "champion" in name and run is not None:
        note(f"{name} is {player.name} of {run.root}")
    return player


def _nobody(batch: LeafBatch, version: ModelVersion) -> Evaluation:
    """Reject evaluations while agents are only constructed."""
    raise InvalidRequest(f"model {version} is not served yet; agents are only constructed here")
