"""Composition of the worker: lanes, the champion they play, the stream they feed; start and shutdown.

Start: the games of the warm start, if any; compiled code is loaded while the worker waits for the first champion. Shutdown: no
new games, running games abandoned (or played out, by setting), finished games published, connections closed.
"""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager, suppress

import structlog

from games.core import Game
from selfplay_worker.champion import AdoptedModel
from selfplay_worker.evaluation import PatientEvaluator
from selfplay_worker.exploration import ExplorationSchedule
from selfplay_worker.game_register import GameRegister
from selfplay_worker.lane import Block, Crew, Lane, Outlet
from selfplay_worker.openings import Openings
from selfplay_worker.opposition import make_opponents
from selfplay_worker.publisher import Publisher
from selfplay_worker.resignation import NEVER, ResignationCalibration
from selfplay_worker.settings import WorkerSettings
from selfplay_worker.spectators import Spectators
from selfplay_worker.stopping import Stop
from selfplay_worker.warm_start import WarmStart
from selfplay_worker.warmup import warm_up
from zerofleet.agents.by_game.rhombus.values import LINEAR, load_values
from zerofleet.contracts.naming import model_name
from zerofleet.contracts.promotions import Champion
from zerofleet.errors import ConfigurationError, InvalidRequest, Overloaded, PermissionRefused, Unavailable, ZerofleetError
from zerofleet.evaluators.base import Evaluator
from zerofleet.evaluators.in_process.evaluator import InProcessEvaluator
from zerofleet.evaluators.transports import connected_evaluator
from zerofleet.presets.agreement import has_resignation, require_control_games, require_one_game
from zerofleet.rpc.backoff import Backoff
from zerofleet.rpc.gatekeeper_client import GatekeeperClient
from zerofleet.rpc.security.credentials import plain
from zerofleet.search import SearchBlock
from zerofleet.search.afterstates.action_values import ActionValueBlock
from zerofleet.search.afterstates.block import AfterstateBlock
from zerofleet.search.daemon_thread import in_daemon_thread
from zerofleet.service.lifecycle import Service
from zerofleet.storage.streams import GameStream, open_stream
from zerofleet.telemetry import metrics

__all__ = ["SelfPlay", "make_block", "make_crew", "serve"]

ASK_AGAIN_S, MAX_PAUSE_S = 0.5, 5.0  # pauses while the gatekeeper is away or overloaded
LAST_FLUSH_S = 5.0  # for finished games where the worker fails
_KEPT = 4  # versions in memory beside frozen ones: running games may need the one before the last

log = structlog.get_logger()


async def serve(service: Service, settings: WorkerSettings) -> None:
    """Play until shutdown.

    Raises `GameError` for an unknown game, `InvalidRequest` when the gatekeeper serves another game.
    Cancellation: unfinished games are dropped; unpublished ones are logged.
    """
    game = settings.build_game()
    model, token, tls = model_name(game), plain(settings.token), settings.tls
    async with (
        GatekeeperClient(settings.gatekeeper_address, token=token, tls=tls) as gatekeeper,
        _evaluator(settings, game) as evaluator,
        aclosing(open_stream(settings.stream_url, name=settings.stream_name)) as stream,
    ):
        selfplay = SelfPlay(game, settings, evaluator=evaluator, stream=stream)
        await selfplay.run(service, gatekeeper.watch(model), has_champion=lambda: _has_champion(gatekeeper, model))


@asynccontextmanager
async def _evaluator(settings: WorkerSettings, game: Game) -> AsyncIterator[Evaluator]:
    """Yield the evaluator of the lanes: that of the inference server, or one in this process. Cancellation: it is closed."""
    if settings.selfplay.mode == "afterstates" and settings.afterstates.evaluation == "process":
        with ThreadPoolExecutor(1, thread_name_prefix="values") as thread:
            keep = _KEPT + len(settings.afterstates.frozen)
            yield InProcessEvaluator(settings.open_store(), game, executor=thread, keep=keep, others={LINEAR: load_values})
        return
    async with connected_evaluator(
        settings.inference_address,
        game,
        transport=settings.transport,
        token=plain(settings.token),
        tls=settings.tls,
        timeout_s=settings.evaluation_timeout_s,
        retry_s=0.0,  # `PatientEvaluator` retries
        on_retry=metrics.count_eval_retry,
    ) as evaluator:
        yield evaluator


async def _has_champion(gatekeeper: GatekeeperClient, model: str) -> bool:
    """Return whether there is a champion, retrying until the gatekeeper replies.

    Raises `InvalidRequest` (a gatekeeper of another game), `PermissionRefused`. Cancellation: no effect.
    """
    backoff = Backoff(ASK_AGAIN_S, MAX_PAUSE_S, rng=random.Random())  # noqa: S311 - jitter, not a secret
    while True:
        try:
            return await gatekeeper.champion(model) is not None
        except (InvalidRequest, PermissionRefused):
            raise
        except ZerofleetError as error:
            if not isinstance(error, Unavailable | Overloaded):
                log.warning("gatekeeper.failed", error=str(error), advice="the worker asks again")
            await backoff.pause()


async def _nobody() -> bool:
    return False


class SelfPlay:
    """Self-play of one worker."""

    def __init__(self, game: Game, settings: WorkerSettings, *, evaluator: Evaluator, stream: GameStream) -> None:
        rng = random.Random(f"{settings.run_seed}/{settings.name}")  # noqa: S311 - delays, not secrets
        self._game = game
        self._settings = settings
        self._rng = rng
        self._publisher = Publisher(stream, game.spec().name, capacity=settings.publish_queue_games, rng=rng)
        self._lanes: list[Lane] = []
        self._lanes_ended = asyncio.Event()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="search")
        self._crew = make_crew(game, settings, evaluator=evaluator, outlet=self._publisher, thread=self._thread, rng=rng)
        self._adopted, self._stop = self._crew.adopted, self._crew.stop
        self._is_warm = False
        self._warm_start = (
            WarmStart(game, settings, adopted=self._adopted, publisher=self._publisher, stop=self._stop)
            if settings.warm_start.games
            else None
        )

    async def run(
        self,
        service: Service,
        champions: AsyncIterator[Champion],
        *,
        has_champion: Callable[[], Awaitable[bool]] = _nobody,
    ) -> None:
        """Play champions as they appear until `service` stops; every finished game is then in the stream.

        `has_champion` is called at the start: a warm start is skipped if it returns true.
        Cancellation: unfinished games are dropped; unpublished ones are logged.
        """
        service.on_drain("games", self._stop_games)
        service.on_drain("publish", self._publisher.flush)
        self._crew.spectators.open(service, self._settings)
        try:
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(self._follow(champions))
                publishing = group.create_task(self._publisher.run())
                try:
                    await self._play_warm_start(service, has_champion)
                    await self._play(service)
                except Exception:  # of a lane, such as a fault in the rules: the games before it are good
                    with suppress(TimeoutError):
                        async with asyncio.timeout(LAST_FLUSH_S):
                            await self._publisher.flush()
                    raise
                finally:
                    self._lanes_ended.set()
                await self._publisher.flush()
                watching.cancel()
                publishing.cancel()
        finally:
            self._thread.shutdown(wait=False, cancel_futures=True)
            if self._warm_start is not None:
                self._warm_start.close()

    async def _follow(self, champions: AsyncIterator[Champion]) -> None:
        selfplay = self._settings.selfplay
        await self._adopted.follow(champions, delay_s=0.0 if selfplay.sync else selfplay.adoption_delay_s, rng=self._rng)

    async def _play_warm_start(self, service: Service, has_champion: Callable[[], Awaitable[bool]]) -> None:
        """Play the warm start, if one is configured and there is no champion yet."""
        if self._warm_start is None:
            return
        is_over = True
        async with self._stop.interruptible():
            is_over = await has_champion()
        if not is_over:
            service.ready()
            await self._warm_start.run(meanwhile=self._warm_up)

    async def _warm_up(self) -> None:
        """Load or compile the code of self-play, once; a stop waits for no compilation."""
        async with self._stop.interruptible():
            if not self._is_warm:
                await in_daemon_thread(functools.partial(warm_up, self._game, self._settings, self._crew.openings))
                self._is_warm = True

    async def _play(self, service: Service) -> None:
        """Warm up, wait for a champion, and run the lanes until they stop."""
        if self._stop.no_new_games:  # the games of agents have ended, and nothing else is to be played
            return
        selfplay = self._settings.selfplay
        await self._warm_up()
        async with self._stop.interruptible():
            log.info("worker.waiting_for_champion")
            await self._adopted.available()
        if self._stop.now:
            return
        await asyncio.to_thread(_require_stored, self._game, self._settings)
        self._lanes = [Lane(make_block(self._game, self._settings), self._crew) for _ in range(selfplay.lanes)]
        _watch_resignation(self._crew.resignation)
        metrics.NETWORK_AGE.set_function(lambda: self._adopted.age_s)
        service.ready()
        async with asyncio.TaskGroup() as group:
            for lane in self._lanes:
                group.create_task(lane.run())

    async def _stop_games(self) -> None:
        """Stop the lanes according to the drain setting."""
        self._stop.no_new_games = True
        players: list[Lane | WarmStart] = [*self._lanes, *([] if self._warm_start is None else [self._warm_start])]
        if self._settings.drain == "finish" and any(player.is_playing for player in players):
            try:
                async with asyncio.timeout(self._settings.grace_s / 2):
                    await self._lanes_ended.wait()
            except TimeoutError:
                log.warning("worker.games_abandoned", why="they did not end within half the grace time")
        self._stop.stop_now()
        await self._lanes_ended.wait()


def make_crew(
    game: Game, settings: WorkerSettings, *, evaluator: Evaluator, outlet: Outlet, thread: Executor, rng: random.Random
) -> Crew:
    """Return the objects shared by the lanes of a worker; `evaluator` must not itself retry.

    Raises `ConfigurationError` for settings that contradict `selfplay.sync`, and for a resignation that would never take place.
    """
    require_one_game(settings.selfplay)
    resignation, adopted = _calibration(game, settings), AdoptedModel()
    return Crew(
        adopted=adopted,
        evaluator=PatientEvaluator(evaluator, adopted, spec=game.spec(), rng=rng, lasting=_frozen(settings)),
        register=GameRegister(settings, resignation),
        publisher=outlet,
        resignation=resignation,
        stop=Stop(),
        thread=thread,
        staleness=settings.selfplay.staleness,
        openings=Openings(game, settings.selfplay),
        exploration=ExplorationSchedule(settings.selfplay, _games_of(game, settings), rng=rng),
        spectators=Spectators(game, settings.name),
        sync=settings.selfplay.sync,
    )


def _frozen(settings: WorkerSettings) -> tuple[int, ...]:
    """Return the frozen versions among the opponents."""
    return settings.afterstates.frozen if settings.selfplay.mode != "search" else ()


def _require_stored(game: Game, settings: WorkerSettings) -> None:
    """Raise `ConfigurationError` for a frozen version that the store lacks: every lane would come to wait for it.

    An empty store, or one that is away, is no reason: where a server evaluates, a worker needs no store.
    """
    frozen, stored = set(_frozen(settings)), set[int]()
    if frozen:
        with suppress(ZerofleetError, OSError):
            stored.update(settings.open_store().versions(model_name(game)))
    if stored and (missing := sorted(frozen - stored)):
        raise ConfigurationError(
            f"afterstates.opponents has version:{missing[0]}, which {settings.model_store} does not hold, and self-play would "
            "wait for it; play without it until it is stored, and then begin again with it"
        )


def _games_of(game: Game, settings: WorkerSettings) -> Callable[[int], int]:
    """Return a function for the games that a stored version was trained on; the store is opened when it is first called."""
    store = functools.cache(settings.open_store)
    return lambda version: store().manifest(model_name(game), version).games_seen


def make_block(game: Game, settings: WorkerSettings) -> Block:
    """Return the block of a lane; its players do not resign until the threshold is calibrated.

    Raises `ConfigurationError` for a game that cannot be played without a tree, `InvalidRequest` for agents that cannot play
    it.
    """
    if settings.selfplay.mode != "search":
        opponents = make_opponents(game, settings.afterstates)
        kind = AfterstateBlock if settings.selfplay.mode == "afterstates" else ActionValueBlock
        return kind(game, settings.afterstates, slots=settings.selfplay.slots, opponents=opponents)
    search = settings.search.model_copy(update={"resign_threshold": NEVER})
    return SearchBlock(game, search, slots=settings.selfplay.slots)


def _calibration(game: Game, settings: WorkerSettings) -> ResignationCalibration:
    require_control_games(game, settings.search, settings.selfplay)
    may_resign = has_resignation(game, settings.search, settings.selfplay)
    if may_resign and settings.resign_min_games > settings.resign_window_games:
        raise ConfigurationError(
            f"resign_min_games={settings.resign_min_games} control games never fit into "
            f"resign_window_games={settings.resign_window_games}, so no player would resign; set it to at most that"
        )
    return ResignationCalibration(
        false_rate=settings.selfplay.resign_false_rate,
        highest=settings.search.resign_threshold if may_resign else NEVER,
        window_games=settings.resign_window_games,
        min_games=settings.resign_min_games,
    )


def _watch_resignation(resignation: ResignationCalibration) -> None:
    """Export the current threshold at each scrape of /metrics."""
    metrics.RESIGN_THRESHOLD.set_function(resignation.threshold)
    metrics.RESIGN_FALSE_RATE.set_function(lambda: resignation.false_ratio(resignation.threshold()))
