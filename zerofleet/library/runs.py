"""Runs and their models, whether the run is under way or stopped."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, partial
from pathlib import Path
from types import TracebackType
from typing import Self

from games.core import Game, make
from games.positions import move_names, parameters_text, read_moves
from zerofleet.contracts.naming import model_name
from zerofleet.contracts.opinions import Opinion
from zerofleet.contracts.records import GameRecord, decode_record
from zerofleet.errors import InvalidRequest
from zerofleet.library import background
from zerofleet.library.ladder_list import Ladder
from zerofleet.library.metrics import Metrics, read_metrics
from zerofleet.library.positions import Position
from zerofleet.library.run_files import OpenRun
from zerofleet.library.servers import KeptServer
from zerofleet.library.times import time_of
from zerofleet.rpc.evaluation_client import ANSWER_S, EvaluationClient
from zerofleet.rpc.security.credentials import client_tls, client_token
from zerofleet.search.block import LAST_SEED
from zerofleet.search.deadline import MOST_SIMULATIONS
from zerofleet.search.settings import default_simulations
from zerofleet.service.settings import open_run_store
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.model_store.base import no_such_version
from zerofleet.storage.runs import RunHeader, RunPaths, read_header
from zerofleet.supervisor.borrowed import ask_once, champion_version

__all__ = ["Model", "Run", "StoredGame", "open_run", "require_within"]


def require_within(name: str, value: int, most: int) -> None:
    """Raise `InvalidRequest` for an argument outside of 0 to `most`."""
    if not 0 <= value <= most:
        raise InvalidRequest(f"{name}={value} is out of range; give 0 to {most:,}")


def open_run(path: str | Path) -> Run:
    """Return the run in a directory, without locking it; raises `RunDirectoryError` when there is none."""
    return Run(RunPaths(Path(path)))


class Run:
    """A run: its models, its games and its metrics.

    The first analysis starts an inference server, unless the run is live and has one that serves the version; so does the first
    match. The server is kept for further ones; it stops at the end of the `with` block, with `close`, when the run is
    garbage-collected or when the process exits. A later analysis starts another one.
    """

    def __init__(self, paths: RunPaths) -> None:
        self._header = read_header(paths.root)
        self._paths = paths
        self._game = make(self._header.game, **self._header.parameters)
        self._store = open_run_store(paths)
        self._server = KeptServer(paths, self._game)
        weakref.finalize(self, _close_later, self._server).atexit = False  # `background.at_exit` waits for the end

    @property
    def path(self) -> Path:
        """The run directory."""
        return self._paths.root

    @property
    def game(self) -> Game:
        """The game of the run, as `games.make` returns it."""
        return self._game

    @property
    def header(self) -> RunHeader:
        """Game, parameters, preset, seed and time of creation, from `run.json`."""
        return self._header

    def versions(self) -> list[int]:
        """Return the stored versions of the model, ascending."""
        return self._store.versions(model_name(self._game))

    def model(self, version: int) -> Model:
        """Return a version of the model; raises `ModelNotFound` when it is not stored."""
        stored = self.versions()
        if version not in stored:
            raise no_such_version(model_name(self._game), version, stored)
        return Model(self, version)

    def champion(self) -> Model:
        """Return the present champion; raises `ModelNotFound` before the first promotion."""
        return Model(self, champion_version(self._paths, self._game))

    def metrics(self) -> Metrics:
        """Return losses, games, ratings and more as columns; without rows before the run has written any."""
        return read_metrics(self._paths.metrics)

    def games(self) -> Iterator[StoredGame]:
        """Yield the stored games, oldest first."""
        with GameLog.open(self._paths.replay, writer=False) as log:
            for logged in log.scan():
                yield _stored_game(decode_record(logged.payload))

    def ladder(self) -> Ladder:
        """Return the ratings of the champions among the classical players, strongest first, from the gatekeeper's journal.

        A rating that is not anchored by games against those players has no number. Raises `RunDirectoryError` for a damaged
        journal.
        """
        return OpenRun(self.path.name, self._paths).gate().ladder

    def serving(self, versions: Sequence[int], *, once: bool = False) -> AbstractAsyncContextManager[str]:
        """Return a context with the address of an inference server of those versions, in the library's event loop.

        `once`: for a single request, which goes to the run's own server if that serves them all.
        Raises `ModelNotFound`, `CorruptModel`, `Unavailable`. Cancellation: a server that was started stays.
        """
        return self._server.serving(set(versions), once=once)

    def close(self) -> None:
        """Stop the inference server, if one was started."""
        background.wait_for(self._server.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {model_name(self._game)} in {self.path}>"


@dataclass(frozen=True, slots=True)
class Model:
    """A version of a run's model."""

    run: Run
    version: int

    def analyse(
        self,
        moves: Sequence[str] | str = (),
        *,
        simulations: int | None = None,
        seed: int = 0,
        timeout_s: float = ANSWER_S,
    ) -> Opinion:
        """Return prior, visits and value of each legal move after `moves`, best first, and the expected line.

        Args:
            moves: Moves from the start, `["d1", "d2"]` or `"d1, d2"`.
            simulations: Simulations of the search; 0 asks the network alone; None is the default of the game, 100 or 0.
            seed: Seed of the deal, where there is one, and of the search.
            timeout_s: Longest wait for the answer of the server, in seconds.

        Raises:
            GameError: A move cannot be read or is not legal.
            ZerofleetError: `InvalidRequest` for a number out of range, `CorruptModel`, `ModelNotFound` (the version was
                deleted), `Unavailable`, also for a search that is not done in time.
        """
        return background.wait_for(self._ask(*self._question(moves, simulations, seed), timeout_s=timeout_s))

    async def analyse_async(
        self,
        moves: Sequence[str] | str = (),
        *,
        simulations: int | None = None,
        seed: int = 0,
        timeout_s: float = ANSWER_S,
    ) -> Opinion:
        """As `analyse`, for coroutines. Cancellation: the server drops the search."""
        return await background.in_background(self._ask(*self._question(moves, simulations, seed), timeout_s=timeout_s))

    def _question(self, moves: Sequence[str] | str, simulations: int | None, seed: int) -> tuple[list[str], int, int]:
        """Return the moves as the server reads them, the simulations and the seed; raises `GameError`, `InvalidRequest`."""
        game = self.run.game
        require_within("seed", seed, LAST_SEED)
        require_within("simulations", simulations or 0, MOST_SIMULATIONS)
        actions = read_moves(game, moves if isinstance(moves, str) else " ".join(moves), seed)
        budget = default_simulations(game.spec()) if simulations is None else simulations
        return move_names(game, actions, seed), budget, seed

    async def _ask(self, moves: list[str], simulations: int, seed: int, *, timeout_s: float) -> Opinion:
        game = self.run.game

        async def ask(address: str) -> Opinion:
            async with EvaluationClient(address, token=client_token(), tls=client_tls(), timeout_s=timeout_s) as client:
                return await client.evaluate(
                    game.spec().name,
                    moves,
                    parameters=parameters_text(game),
                    model_version=self.version,
                    simulations=simulations,
                    seed=seed,
                )

        return await ask_once(partial(self.run.serving, [self.version]), ask)


@dataclass(frozen=True, slots=True)
class StoredGame:
    """A game that the trainer has stored."""

    uid: str
    game: Game
    """As it was played; games of a warm start may have other parameters than the run."""
    moves: tuple[str, ...]
    scores: tuple[float, ...]
    """By seat, in [-1, 1]."""
    players: tuple[str, ...]
    """By seat: `model:7` or the name of an agent."""
    finished_at: datetime | None
    """Wall-clock time of the worker; None for an impossible one."""
    seed: int = 0
    """Seed of the deal, where there is one."""

    def position(self, plies: int | None = None, *, viewer: int | None = None) -> Position:
        """Return the position after the first `plies` moves, by default after all of them, in the view of a seat.

        `viewer` is a seat from 0; None: the player to move. Raises `GameError` for a seat that the game does not have.
        """
        return Position(self.game, self.moves[:plies], self.seed).seen_by(viewer)

    def _repr_svg_(self) -> str | None:
        """Return the picture of the last position, for notebooks; see `Position`."""
        return self.position()._repr_svg_()


def _stored_game(record: GameRecord) -> StoredGame:
    game = _made(record.game, tuple(sorted(record.parameters.items())))
    agents = record.seat_agents[:] or [""] * len(record.seat_versions)
    return StoredGame(
        uid=record.uid,
        game=game,
        moves=tuple(move_names(game, record.moves[:], record.seed)),
        scores=tuple(record.scores[:]),
        players=tuple(agent or f"model:{version}" for agent, version in zip(agents, record.seat_versions, strict=True)),
        finished_at=time_of(record.finished_at_ms),
        seed=record.seed,
    )


@lru_cache(maxsize=16)
def _made(name: str, parameters: tuple[tuple[str, str], ...]) -> Game:
    return make(name, **dict(parameters))


def _close_later(server: KeptServer) -> None:
    if server.is_started:  # else the collector, which runs at any place, would begin the event loop, even within its beginning
        background.start(server.aclose())
