"""Entrants of a match or a tournament: conversion of names to players, and service of the models they need."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from games.core import Game
from zerofleet.agents import Agent, make_agent
from zerofleet.agents.spelling import Spelling
from zerofleet.contracts.naming import CHAMPION_ALIAS, is_version, model_name
from zerofleet.errors import InvalidRequest
from zerofleet.evaluators.base import Evaluation, Evaluator, LeafBatch, ModelVersion
from zerofleet.evaluators.in_process.evaluator import InProcessEvaluator
from zerofleet.evaluators.of_runs import evaluating_runs, version_among
from zerofleet.service.settings import open_run_store
from zerofleet.storage.run_lookup import find_run, named_run
from zerofleet.storage.runs import RunPaths
from zerofleet.strength.matches import Player
from zerofleet.strength.matches.play import waiting_for
from zerofleet.supervisor.borrowed import champion_version, served

__all__ = [
    "Entrants",
    "ServedRun",
    "entrants",
    "evaluator_of",
    "is_model",
    "model_hashes",
    "model_of",
    "run_named_in",
    "serving",
    "serving_agent",
    "version_of",
]

_MODEL = "model"  # option of an agent that names its model
_AT = "@"  # before the run of a model


@dataclass(frozen=True, slots=True)
class ServedRun:
    """Run with models that play."""

    run: RunPaths
    versions: tuple[int, ...]
    """Versions to serve, ascending."""


@dataclass(frozen=True, slots=True)
class Entrants:
    """Players of a command, and the runs of their models."""

    players: tuple[Player, ...]
    runs: tuple[ServedRun, ...]
    """Empty if no player needs a model. Versions of players are those of `zerofleet.evaluators.of_runs`."""


def entrants(
    names: Sequence[str], game: Game, run_dir: Path | None, *, note: Callable[[str], None], several_runs: bool = False
) -> Entrants:
    """Return the players of names: `champion`, `model:7`, or an agent, which may use a model (`model=champion`).

    Models are of `run_dir`; with `several_runs` a name may add its own run, as in `champion@runs/other`. `note` is called with
    a line on the version of each `champion`. Agents get canonical names, so that two spellings of one agent are one player.
    Raises `InvalidRequest` for an unknown or unsuitable agent, `RunDirectoryError` and `ModelNotFound` for missing models.
    """
    models = [model_of(name) for name in names]
    agents = {name: Player(make_agent(name, game).name) for name, model in zip(names, models, strict=True) if not model}
    roster = _Roster(game, run_dir, several_runs=several_runs)  # an unknown agent is rejected before the lookup of a run
    players = []
    for name, model in zip(names, models, strict=True):
        players.append(roster.player(name, model) if model else agents[name])
        if CHAMPION_ALIAS in model:
            note(f"{name} is {players[-1].name}" + ("" if _AT in model else f" of {roster.entry(model).run.root}"))
    return Entrants(tuple(players), roster.runs())


def run_named_in(names: Sequence[str]) -> Path | None:
    """Return the first run that a name of `entrants` adds, as in `champion@runs/other`; None if there is none.

    Raises `InvalidRequest` for a malformed name, `RunDirectoryError` for a run that does not exist.
    """
    return next((named_run(where) for name in names if (where := model_of(name).partition(_AT)[2])), None)


@dataclass(slots=True)
class _Entry:
    """Run of a roster."""

    run: RunPaths
    number: int
    """Index among the runs, as in `version_among`."""
    label: str
    """Text after the version in the names of its models."""
    versions: set[int] = field(default_factory=set)


class _Roster:
    """Runs of the models of some players, in the order of their first mention."""

    def __init__(self, game: Game, run_dir: Path | None, *, several_runs: bool) -> None:
        self._game = game
        self._run_dir = run_dir
        self._several_runs = several_runs
        self._entries: dict[Path, _Entry] = {}

    def player(self, name: str, model: str) -> Player:
        """Return a player that is the model named `model`, or asks it. Raises as `entrants`."""
        if _AT in model and not self._several_runs:
            raise _of_another_run(name)
        entry, text = self.entry(model), model.partition(_AT)[0]
        version = version_of(text if is_model(text) else f"model:{text}", entry.run, self._game)
        entry.versions.add(version)
        number = version_among(entry.number, version)
        if is_model(name):
            return Player(f"model:{version}{entry.label}", number)
        agent = make_agent(_with_model(name, number), self._game, evaluate=_unserved).name
        return Player(_with_model(agent, f"{version}{entry.label}"), agent=agent if entry.label else None)

    def entry(self, model: str) -> _Entry:
        """Return the run of a model's name."""
        where = model.partition(_AT)[2]
        found = find_run(self._game, named_run(where) if where else self._run_dir)
        return self._entries.setdefault(
            found.root.resolve(), _Entry(found, len(self._entries), f"{_AT}{found.root}" if where else "")
        )

    def runs(self) -> tuple[ServedRun, ...]:
        """Return the runs with the versions of their players."""
        return tuple(ServedRun(entry.run, tuple(sorted(entry.versions))) for entry in self._entries.values())


@contextlib.asynccontextmanager
async def serving(chosen: Entrants, game: Game) -> AsyncIterator[tuple[str, ...]]:
    """Yield the address of an inference server for each run, with its players' models; none if they need none.

    Raises the errors of `zerofleet.supervisor.borrowed.served`. Cancellation: the servers are stopped.
    """
    async with contextlib.AsyncExitStack() as stack:
        yield tuple([await stack.enter_async_context(served(one.run, game, versions=one.versions)) for one in chosen.runs])


@contextlib.asynccontextmanager
async def evaluator_of(chosen: Entrants, game: Game, *, in_process: bool = False) -> AsyncIterator[Evaluator]:
    """Yield an evaluator of the players' models: an inference server's, or with `in_process` this process itself.

    Raises the errors of `serving`, in process those of `load_network` for every version, and `InvalidRequest` for several runs.
    Cancellation: as `serving`.
    """
    if in_process and len(chosen.runs) > 1:
        raise InvalidRequest(f"in this process the models of one run are evaluated, got those of {len(chosen.runs)} runs")
    if in_process and chosen.runs:
        (one,) = chosen.runs
        local = InProcessEvaluator(open_run_store(one.run), game)
        for version in one.versions:  # an unsuitable network is refused before the first game
            await asyncio.to_thread(local.load, ModelVersion(version))
        yield local
        return
    async with serving(chosen, game) as addresses, evaluating_runs(addresses, game) as evaluator:
        yield evaluator


@contextlib.asynccontextmanager
async def serving_agent(chosen: Entrants, game: Game, *, in_process: bool = False) -> AsyncIterator[Agent]:
    """Yield the only player of `chosen`, an agent, with an evaluator of its model, if it uses one.

    The agent must run in a thread outside this event loop. Raises the errors of `evaluator_of`. Cancellation: as `serving`.
    """
    (player,) = chosen.players
    async with evaluator_of(chosen, game, in_process=in_process) as evaluator:
        yield make_agent(player.text, game, evaluate=waiting_for(evaluator) if chosen.runs else None)


def model_hashes(chosen: Entrants, game: Game) -> list[str]:
    """Return version and hash of the manifest of each model of the players, by run and version: names may recur in other runs.

    Raises `ModelNotFound`.
    """
    model = model_name(game)
    return [
        f"{version}:{open_run_store(one.run).manifest_sha256(model, version)}"
        for one in chosen.runs
        for version in one.versions
    ]


def is_model(name: str) -> bool:
    """Return whether a name denotes a model."""
    return name.partition(_AT)[0] == CHAMPION_ALIAS or name.startswith("model:")


def version_of(name: str, run: RunPaths, game: Game) -> int:
    """Return the version denoted by `champion` or `model:N`; raises `ModelNotFound` or `InvalidRequest`."""
    if _AT in name:
        raise _of_another_run(name)
    if name == CHAMPION_ALIAS:
        return champion_version(run, game)
    number = name.removeprefix("model:")
    if not is_version(number):
        raise InvalidRequest(
            f"{name!r} is not a model; write model:N with a version from `zerofleet models list`, or with a search of its own "
            "mcts:SIMULATIONS,model=N,OPTION=VALUE"
        )
    return int(number)


def _of_another_run(name: str) -> InvalidRequest:
    return InvalidRequest(f"{name!r} names a run after {_AT}; models of several runs meet in matches and tournaments only")


def model_of(name: str) -> str:
    """Return the text of the model that a name denotes or, as an agent, asks; empty without one. Raises `InvalidRequest`."""
    return name if is_model(name) else dict(Spelling.parse(name).written).get(_MODEL, "")


def _with_model(agent: str, model: object) -> str:
    """Return the name of an agent that asks another model."""
    spelling = Spelling.parse(agent)
    written = tuple((option, str(model) if option == _MODEL else value) for option, value in spelling.written)
    return str(Spelling(spelling.name, spelling.argument, written))


def _unserved(batch: LeafBatch, version: ModelVersion) -> Evaluation:
    """Reject evaluations while agents are only constructed."""
    raise InvalidRequest(f"model {version} is not served yet; agents are only constructed here")
