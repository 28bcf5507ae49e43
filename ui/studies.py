"""Studies: searched positions whose trees stay in memory, so that a browser can open their nodes one by one.

A study needs no torch here: a model evaluates in an inference server, which the games of the run share.
Without a model, priors are uniform and unfinished positions count 0, which shows the search itself.

With hidden information a study has a root alone, in the view of the seat to move: nodes below it hold the hands that the search
invented. The search receives a deal that the seat cannot distinguish from the true one, and a seed of its own, so that its
figures depend on nothing that the seat does not know.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import OrderedDict
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Literal

import structlog

from games import core
from games.core import Game
from games.errors import GameError
from ui.catalogue import OpenRun
from ui.event_stream import LOOK_EVERY_S
from ui.faults import shown_fault
from ui.model_servers import ModelServers
from zerofleet.errors import InvalidRequest, ModelNotFound, ZerofleetError
from zerofleet.evaluators.base import Evaluator
from zerofleet.evaluators.opening import evaluating
from zerofleet.library.seated_game import SeatedGame
from zerofleet.search import RootAnalysis, SearchSettings
from zerofleet.search.block import LAST_SEED
from zerofleet.search.watched import WatchedSearch
from zerofleet.supervisor.entrants import is_model, version_of

__all__ = ["MOST_STUDIES", "NO_MODEL", "Information", "Studies", "Study", "UnknownStudy", "Wish"]

Information = Literal["determinise", "predict"]

MOST_STUDIES = 4
"""Trees in memory; a further one takes the place of the least recently used."""
NO_MODEL = "none"

log = structlog.get_logger()


class UnknownStudy(ModelNotFound):
    """Id of no study: it never existed, or it made room for another."""


@dataclass(frozen=True, slots=True)
class Wish:
    """Position and search of a study."""

    played: SeatedGame
    """Game up to the position, in the view of the seat to move."""
    run: OpenRun | None
    model: str
    """champion, model:N or none."""
    simulations: int
    information: Information = "determinise"
    """Search with hidden information; see `SearchSettings.information`."""


class Study:
    """One position with its tree."""

    def __init__(self, played: SeatedGame, search: WatchedSearch, title: str, resources: contextlib.AsyncExitStack) -> None:
        """Begin the search of a position that no move changes; `resources` are what it needs, closed at its end."""
        self.id = secrets.token_urlsafe(16)
        self.played = played
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

    @property
    def is_hidden(self) -> bool:
        """Whether players hide something from each other: the root alone is shown then, as its player sees it."""
        return self.game.spec().information != "perfect"

    def state_after(self, path: Sequence[int] = ()) -> core.State:
        """Return a position of the tree, hands that the seat does not see included. Raises `IllegalMove`."""
        return self.played.state_after([*self.played.moves, *path])

    async def follow(self) -> AsyncGenerator[RootAnalysis | None]:
        """Yield the root several times a second until the search has ended, then a last time. Cancellation: it goes on."""
        while not self.is_done:
            yield await self.search.analysis()
            await asyncio.wait({self._task}, timeout=LOOK_EVERY_S)
        yield await self.search.analysis()

    async def aclose(self) -> None:
        """End the search."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._resources.aclose()  # a search that had not begun has not

    async def _run(self) -> None:
        try:
            async with self._resources:
                await self.search.run()
        except (ZerofleetError, GameError) as error:
            self.fault = f"the search ended early: {error}"
        except Exception as error:
            self.fault = f"the search ended early: {shown_fault(error)}"
            log.exception("study.failed", game=self.game.spec().name)


class Studies:
    """Studies by id, the least recently used first."""

    def __init__(self, servers: ModelServers, most: int = MOST_STUDIES, *, once: bool = False) -> None:
        """`once`: a search has a single request, which the run's own server may answer."""
        self._servers = servers
        self._once = once
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
        game = wish.played.game
        await asyncio.to_thread(_require_turn, wish)
        async with contextlib.AsyncExitStack() as stack:
            serving, version, title = evaluating(None, game), 1, "no model: uniform priors, and value 0 before the end"
            if wish.model != NO_MODEL:
                if wish.run is None or not is_model(wish.model):
                    raise InvalidRequest(f"{wish.model!r}: choose a run with champion or model:N, or the model {NO_MODEL}")
                version = await asyncio.to_thread(version_of, wish.model, wish.run.paths, game)
                serving = self._servers.serving(wish.run, version, once=self._once)
                title = f"champion {version}" if wish.model == "champion" else f"model {version}"
            evaluator = await stack.enter_async_context(serving)
            settings = SearchSettings.for_analysis(game.spec(), wish.simulations)
            if settings.information != "open":
                settings = settings.model_copy(update={"information": wish.information})
            search = await asyncio.to_thread(_search_of, wish.played, evaluator, settings, version)
            study = Study(wish.played, search, title, stack.pop_all())
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


def _search_of(played: SeatedGame, evaluator: Evaluator, settings: SearchSettings, version: int) -> WatchedSearch:
    """Return the search of a position as the seat to move knows it, which excludes the seed of the deal."""
    game = played.game
    if game.spec().information == "perfect":
        return WatchedSearch(
            game, evaluator, played.moves, settings=settings, version=version, seed=played.seed, position=played.start
        )
    known = played.state()
    core.determinise(game, played.state(), played.seat, secrets.randbelow(LAST_SEED + 1), known)
    seed = secrets.randbelow(LAST_SEED + 1)
    return WatchedSearch(game, evaluator, (), settings=settings, version=version, seed=seed, position=known)


def _require_turn(wish: Wish) -> None:
    """Refuse a position without a search. Raises `InvalidRequest`."""
    if wish.run is not None and wish.run.game != wish.played.game:
        raise InvalidRequest(f"the run {wish.run.name} has another game than the position; choose a run of that game")
    if wish.played.is_over:
        raise InvalidRequest("the game is over after these moves; take some back")
    if not wish.played.is_turn:
        raise InvalidRequest("another seat is to move, whose search would show its hand; wait for your turn")
