"""Fakes of what a worker talks to: a stream in memory, an evaluator that can go away, a gatekeeper that promotes."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

import games
from games.core import Game
from selfplay_worker.settings import WorkerSettings
from zerofleet.contracts.promotions import Champion
from zerofleet.errors import InvalidRequest, ModelNotFound, Unavailable
from zerofleet.evaluators.base import Evaluation, LeafBatch, ModelVersion
from zerofleet.evaluators.uniform import UniformEvaluator
from zerofleet.storage.streams import Publication

sys.path.insert(0, str(Path(__file__).parent))


class MemoryStream:
    """Keeps what is published; can be away, or full."""

    def __init__(self) -> None:
        self.published: dict[str, bytes] = {}
        self.calls = 0
        self.away = False
        self.refuses: set[int] = set()
        """Numbers of the games, by their first arrival from 1 on, that are refused, each once and with those beside it."""
        self._numbers: dict[str, int] = {}
        self.turns = 0
        """Turns of the event loop that a call takes."""
        self.open = asyncio.Event()
        self.open.set()
        self.reached: asyncio.Queue[int] = asyncio.Queue()

    async def publish_all(self, games: list[Publication]) -> None:
        numbers = [self._numbers.setdefault(game.uid, len(self._numbers) + 1) for game in games]
        if not self.refuses.isdisjoint(numbers):
            if len(games) == 1:
                self.refuses -= set(numbers)
            raise InvalidRequest("the game is too large")
        while games:
            await self._publish(games[0].uid, games[0].payload)
            del games[0]

    async def _publish(self, uid: str, payload: bytes) -> None:
        self.calls += 1
        await self.open.wait()
        for _ in range(self.turns):
            await asyncio.sleep(0)
        if self.away:
            self.reached.put_nowait(-1)
            raise Unavailable("the stream is away")
        self.published[uid] = payload
        self.reached.put_nowait(len(self.published))

    async def until(self, games: int) -> None:
        """Wait until that many games are published."""
        while len(self.published) < games:
            await self.reached.get()


class SwitchableEvaluator:
    """Uniform answers for the served versions; can be away, or break."""

    def __init__(self, players: int, served: Sequence[int] = (1,)) -> None:
        self._uniform = UniformEvaluator(players)
        self.served = set(served)
        self.away = False
        self.breaks_at = 0
        """Number of the request from which all fail by a defect; 0: none."""
        self.broken = asyncio.Event()
        self.asked: list[int] = []
        self.reached: asyncio.Queue[int] = asyncio.Queue()

    async def evaluate(self, batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
        await asyncio.sleep(0)
        self.asked.append(int(version))
        self.reached.put_nowait(int(version))
        if self.breaks_at and len(self.asked) >= self.breaks_at:
            self.broken.set()
            raise RuntimeError("a defect")
        if self.away:
            raise Unavailable("the server is away")
        if version not in self.served:
            raise ModelNotFound(f"version {version} is not served")
        return await self._uniform.evaluate(batch, version=version)

    async def until_asked(self, version: int | None = None) -> None:
        """Wait for the next request, or the next one for that version."""
        while not self.reached.empty():
            self.reached.get_nowait()
        while (found := await self.reached.get()) != version and version is not None:
            assert found


class Promotions:
    """An iterator of champions that a test feeds."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Champion] = asyncio.Queue()
        self._epoch = 0

    def promote(self, version: int) -> None:
        self._epoch += 1
        self._queue.put_nowait(Champion("tic_tac_toe", version, self._epoch, "0" * 64, 0, "test"))

    async def watch(self) -> AsyncIterator[Champion]:
        while True:
            yield await self._queue.get()


@pytest.fixture
def game() -> Game:
    return games.make("tic_tac_toe")


@pytest.fixture
def settings(tmp_path: Path) -> WorkerSettings:
    return small_settings(tmp_path)


def small_settings(run_dir: Path) -> WorkerSettings:
    """A small worker: two lanes of four games, few simulations."""
    return WorkerSettings.model_validate(
        {
            "run_dir": run_dir,
            "game": "tic_tac_toe",
            "preset": "tiny",
            "worker_id": "w0",
            "run_seed": 3,
            "incarnation": 1,
            "search": {"simulations": 4, "fast_simulations": 2},
            "selfplay": {"lanes": 2, "slots": 4, "adoption_delay_s": 0.0},
        }
    )


@pytest.fixture
def make_stream() -> Callable[[], MemoryStream]:
    return MemoryStream


@pytest.fixture
def stream() -> MemoryStream:
    return MemoryStream()


@pytest.fixture
def evaluator() -> SwitchableEvaluator:
    return SwitchableEvaluator(players=2)


@pytest.fixture
def make_promotions() -> Callable[[], Promotions]:
    return Promotions


@pytest.fixture
def promotions() -> Promotions:
    return Promotions()
