"""A whole run as processes, driven and watched from outside: `zerofleet run` by its command line, its lines and its files."""

import asyncio
import json
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from zerofleet.contracts.records import decode_record, validate
from zerofleet.storage.crash_points import VARIABLE
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.storage.runs import RunPaths
from zerofleet.storage.streams import SqliteStream, open_stream

MODEL = "tic_tac_toe"
START = "from zerofleet.cli import main; main()"
# A loop that is whole and as small as can be: a candidate every second or two on two cores. The processor time of a run is
# that of its start, and of its workers until the last line that a test awaits.
SMALL = (
    "network.channels=8",
    "train.min_samples=100",
    "train.samples_per_candidate=300",
    "train.batch_size=32",
    "gate.max_pairs=4",
    "gate.ladder_games=2",
    "gate.ladder_depth=1",
    "selfplay.slots=16",
    "selfplay_worker.log_level=debug",
)
SEARCHED = ("search.simulations=8", "search.fast_simulations=4", "gate.simulations=8")  # other games may search nothing


class Run:
    """A `zerofleet run` that is going on. Its lines are read as they come."""

    def __init__(self, process: asyncio.subprocess.Process, root: Path) -> None:
        self.process = process
        self.paths = RunPaths(root)
        self.lines: list[str] = []

    async def until(self, pattern: str, times: int = 1) -> str:
        """Read until a line matches for the n-th time from here on; return it."""
        while (line := await self.line()) is not None:
            if re.search(pattern, line):
                times -= 1
                if not times:
                    return line
        raise AssertionError(f"the run ended without a line {pattern!r}:\n" + "\n".join(self.lines))

    async def line(self) -> str | None:
        """Return the next line, None at the end."""
        assert self.process.stdout is not None
        raw = await self.process.stdout.readline()
        if not raw:
            return None
        self.lines.append(raw.decode().rstrip())
        return self.lines[-1]

    async def rest(self) -> str:
        """Read to the end; return everything that was printed."""
        while await self.line() is not None:
            pass
        await self.process.wait()
        return "\n".join(self.lines)

    def pid(self, service: str) -> int:
        """Return the process id a service has announced."""
        return int(json.loads(self.paths.announce(service).read_bytes())["pid"])

    async def pid_once_announced(self, service: str) -> int:
        """Return the process id of a service, waiting until it is ready."""
        while True:
            try:
                return self.pid(service)
            except (OSError, ValueError):
                await asyncio.sleep(0.05)

    async def until_stored(self, games: int) -> None:
        """Wait until the game log holds more than `games` games."""
        while True:
            if _stored(self.paths) > games:
                return
            await asyncio.sleep(0.05)

    async def until_logged(self, service: str, event: str) -> None:
        """Wait until the log of a service has an event."""
        log = self.paths.logs / f"{service}.log"
        while True:
            if f'"{event}"' in log.read_text(errors="replace"):
                return
            await asyncio.sleep(0.05)

    async def end(self, number: signal.Signals = signal.SIGINT) -> str:
        """Ask the run to end; return everything that was printed."""
        self.process.send_signal(number)
        return await self.rest()


StartRun = Callable[..., AbstractAsyncContextManager[Run]]


def _stored(paths: RunPaths) -> int:
    with GameLog.open(paths.replay, writer=False) as log:
        return len(log)


@pytest.fixture
def start_run(tmp_path: Path) -> StartRun:
    """Return a starter of runs in one directory: `async with start_run(crash_at="...") as run`."""

    @asynccontextmanager
    async def start(
        *arguments: str, game: str = MODEL, preset: str = "tiny", crash_at: str = "", timeout_s: float = 500.0
    ) -> AsyncIterator[Run]:
        root = tmp_path / "run"
        words = ["run", game, "--preset", preset, "--run-dir", str(root), *arguments]
        for item in (*SMALL, *(SEARCHED if game == MODEL else ())):
            if item.partition("=")[0] not in {word.partition("=")[0] for word in arguments}:
                words += ["--set", item]
        environment = {**os.environ, **({VARIABLE: crash_at} if crash_at else {}), "PYTHONUNBUFFERED": "1"}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            START,
            *words,
            env=environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(timeout_s):
                yield Run(process, root)
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()

    return start


def published_uids(paths: RunPaths, event: str = "game.published") -> Counter[str]:
    """Return the games that workers saw the stream take, from their logs; or those with another event."""
    uids: Counter[str] = Counter()
    for log in paths.logs.glob("worker-*.log"):
        for line in log.read_text(errors="replace").splitlines():
            if f'"{event}"' in line:
                uids[json.loads(line)["game_uid"]] += 1
    return uids


@pytest.fixture
def published() -> Callable[[RunPaths], set[str]]:
    """Return the function that names the games whose publication is in a worker's log."""
    return lambda paths: set(published_uids(paths))


@pytest.fixture
def check_promises() -> Callable[..., Awaitable[int]]:
    """Return the check of a run directory that nobody uses: nothing lost, nothing twice, a sound champion."""
    return _check_promises


async def _check_promises(paths: RunPaths, model: str = MODEL, *, ended_cleanly: bool = False) -> int:
    """Check that every published game is counted once and the champion is sound; return the number of stored games.

    Of workers that have `ended_cleanly`, every finished game counts as published. A worker that is killed right after a
    publication has not written its line: the store may hold games that no log names, and never the other way round.
    """
    published = published_uids(paths)
    assert max(published.values()) == 1
    with GameLog.open(paths.replay, writer=False) as log:
        stored = Counter(log.uids())
        for logged in log.scan():
            validate(decode_record(logged.payload))
    assert max(stored.values()) == 1
    stream = open_stream(
        f"{paths.stream_url}?idle_s=0.001", name="games"
    )  # those delivered and not acknowledged count as waiting
    assert isinstance(stream, SqliteStream)
    try:
        assert [letter.reason for letter in await stream.dead()] == []
        waiting = {delivery.uid for delivery in await stream.consume(consumer="test", limit=100_000, block_s=0)}
    finally:
        await stream.aclose()
    expected = published | (published_uids(paths, "game.finished") if ended_cleanly else Counter())
    lost = expected.keys() - stored.keys() - waiting
    assert not lost, f"{len(lost)} of {len(expected)} games are neither stored nor waiting"
    store = DirectoryStore(paths.models)
    champion = store.champion(model)
    assert champion is not None
    store.verify(model, champion.version)
    epochs = [entry.epoch for entry in store.history(model)]
    assert epochs == sorted(set(epochs))
    return len(stored)
