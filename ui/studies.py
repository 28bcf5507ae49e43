"""Studies: searched positions whose trees stay in memory, so that a browser can open their nodes one by one.

A study needs no torch here: a model evaluates in an inference server, the run's own or one that the games of the run share.
Without a model, priors are uniform and unfinished positions count 0, which shows the search itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import OrderedDict
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

import structlog

from games import core
from games.core import Game
from games.errors import GameError
from games.positions import read_moves, replay
from ui.catalogue import OpenRun
from ui.event_stream import LOOK_EVERY_S
from ui.model_servers import ModelServers
from zerofleet.errors import InvalidRequest, ModelNotFound, ZerofleetError
from zerofleet.evaluators.opening import evaluating
from zerofleet.search import RootAnalysis, SearchSettings
from zerofleet.search.watched import WatchedSearch
from zerofleet.supervisor.entrants import is_model, version_of

__all__ = ["MOST_STUDIES", "NO_MODEL", "Studies", "Study", "UnknownStudy", "Wish"]

MOST_STUDIES = 4
"""Trees in memory; a further one takes the place of the least recently used."""
NO_MODEL = "none"

log = structlog.get_logger()


class UnknownStudy(ModelNotFound):
    """Id of no study: it never existed, or it made room for another."""


@dataclass(frozen=True, slots=True)
class Wish:
    """Position and search of a study."""

    game: Game
    run: OpenRun | None
    model: str
    """champion, model:N or none."""
    moves: str
    """Moves to the position."""
    simulations: int


class Study:
    """One position with its tree."""

    def __init__(self, search: WatchedSearch, title: str, resources: contextlib.AsyncExitStack) -> None:
        """Begin the search; `resources` are what it needs, closed with the study."""
        self.id = secrets.token_urlsafe(16)
        self.search = search
        self.title = title
        """Source of priors and values, such as `champion 7`."""
        self.fault = ""
        """Error that ended the search; empty for none."""
        self._resources = resources
        self._task = asyncio.create_task(self._run())

    @property
    def game(self) -> Game:
        """Game of the position."""
        return self.search.game

    @property
    def is_done(self) -> bool:
        """Whether the search has ended."""
        return self._task.done()

    def state_after(self, path: Sequence[int] = ()) -> core.State:
        """Return a position of the tree. Raises `IllegalMove`."""
        return replay(self.game, [*self.search.moves, *path])

    async def follow(self) -> AsyncGenerator[RootAnalysis | None]:
        """Yield the root several times a second until the search has ended, then a last time. Cancellation: it goes on."""
        while not self.is_done:
            yield await self.search.analysis()
            await asyncio.wait({self._task}, timeout=LOOK_EVERY_S)
        yield await self.search.analysis()

    async def aclose(self) -> None:
        """End the search, and give back what it needs."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._resources.aclose()

    async def _run(self) -> None:
        try:
            await self.search.run()
        except (ZerofleetError, GameError) as error:
            self.fault = f"the search ended early: {error}"
        except Exception:
            self.fault = "the search ended because of a defect; the log of zerofleet ui has it"
            log.exception("study.failed", game=self.game.spec().name)


class Studies:
    """Studies by id, the least recently used first."""

    def __init__(self, servers: ModelServers, most: int = MOST_STUDIES) -> None:
        self._servers = servers
        self._most = most
        self._studies: OrderedDict[str, Study] = OrderedDict()

    def get(self, study_id: str) -> Study:
        """Return a study. Raises `UnknownStudy`."""
        study = self._studies.get(study_id)
        if study is None:
            raise UnknownStudy("this tree is not in memory: it made room for newer ones; search the position again")
        self._studies.move_to_end(study_id)
        return study

    async def open(self, wish: Wish) -> Study:
        """Return a new study, whose search has begun.

        Raises `InvalidRequest`, `IllegalMove`, `ModelNotFound`, `CorruptModel`, `Unavailable`. Cancellation: what was started
        is stopped.
        """
        moves = await asyncio.to_thread(_position, wish)
        async with contextlib.AsyncExitStack() as stack:
            address, version, title = None, 1, "no model: uniform priors, and value 0 before the end"
            if wish.model != NO_MODEL:
                if wish.run is None or not is_model(wish.model):
                    raise InvalidRequest(f"{wish.model!r}: choose a run with champion or model:N, or the model {NO_MODEL}")
                version = await asyncio.to_thread(version_of, wish.model, wish.run.paths, wish.game)
                address = await stack.enter_async_context(self._servers.serving(wish.run, version))
                title = f"champion {version}" if wish.model == "champion" else f"model {version}"
            evaluator = await stack.enter_async_context(evaluating(address, wish.game))
            settings = SearchSettings.for_analysis(wish.game.spec(), wish.simulations)
            search = WatchedSearch(wish.game, evaluator, moves, settings=settings, version=version, seed=0)
            study = Study(search, title, stack.pop_all())
        self._studies[study.id] = study
        while len(self._studies) > self._most:
            _, oldest = self._studies.popitem(last=False)
            await oldest.aclose()
        return study

    async def aclose(self) -> None:
        """Close every study."""
        studies = list(self._studies.values())
        self._studies.clear()
        await asyncio.gather(*(study.aclose() for study in studies))


def _position(wish: Wish) -> list[int]:
    """Return the moves of a wish. Raises `InvalidRequest`, `IllegalMove`."""
    if wish.game.spec().information != "perfect":
        raise InvalidRequest(
            f"{wish.game.spec().name} has hidden information: its tree holds invented hands, not the position; ask for a hint"
        )
    moves = read_moves(wish.game, wish.moves)
    if core.is_over(wish.game, replay(wish.game, moves)):
        raise InvalidRequest("the game is over after these moves; take some back")
    return moves
