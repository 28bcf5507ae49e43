"""Command `python -m trainer.bench`: throughput of learner and intake on synthetic games, printed as one JSON object.

Three measurements, one after another in one process: games through validation into the window, steps on a full window
without waiting, and the whole trainer (SQLite stream, log on disk, intake beside learner) fed at a steady rate, where it
waits whenever the reuse bound is reached.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import random
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import aclosing, closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch

import games
from games.core import Game
from games.positions import parameters_text
from trainer.follower import Follower, invitation
from trainer.learner import Learner
from trainer.learners.contract import Accounts
from trainer.network import new_network
from trainer.process_group import ProcessGroup
from trainer.ranks import Ranks, choose_device, place_in
from trainer.samples import Samples, extract
from trainer.service import make_intake, open_reader
from trainer.settings import TrainerSettings
from trainer.start import open_training
from trainer.training import Training
from trainer.window import SampleWindow
from zerofleet.contracts.naming import model_name
from zerofleet.contracts.records import decode_record, encode_record, validate
from zerofleet.contracts.records.samples import random_game
from zerofleet.presets import PRESETS
from zerofleet.service import logs
from zerofleet.service.allocator import keep_freed_memory
from zerofleet.service.settings import inherited_environment
from zerofleet.storage.run_paths import RunPaths
from zerofleet.storage.streams import open_stream

__all__ = ["TrainFigures", "measure"]

_GAMES = 256
_WARM_UP_STEPS = 3
_RANK_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class TrainFigures:
    """Results of one run of the benchmark."""

    game: str
    preset: str
    device: str
    threads: int
    """Threads of each process."""
    processes: int
    """Ranks that share each batch."""
    blocks: int
    channels: int
    batch_size: int
    seconds: float
    """Length of each measurement."""
    samples_per_second: float
    """Training throughput without waiting."""
    samples_per_cpu_second: float
    """The same per second of CPU time, an estimate for an idle machine; with several ranks, that of rank 0."""
    step_ms: float
    games_validated_per_second: float
    """Games decoded, replayed, encoded and added to the window, on one thread."""
    samples_received_per_second: float
    """Samples of these games."""
    fed_games_per_second: float
    """Publication rate in the third measurement."""
    fed_games_taken_per_second: float
    """Games stored by the intake meanwhile; less than those published when it cannot keep up."""
    fed_samples_per_second: float
    """Training throughput in the third measurement."""
    fed_step_ms: float
    """Time of a step in the third measurement, beside the intake."""
    intake_processes: str
    """Processes that read the games, as set."""
    wait_share: float
    """Share of that time in which the learner waited for games."""
    reuse: float
    """Mean uses of a sample at its end."""
    plies_per_game: float
    """Mean length of the synthetic games."""
    bytes_per_record: float
    """Size of such a game in the stream."""
    disk_bytes_per_game: float
    """Size of such a game in the game log."""
    bytes_per_sample: float
    """Size of a sample in the window's arrays."""


def measure(
    game: Game,
    preset: str,
    *,
    seconds: float,
    games_per_second: float,
    seed: int = 0,
    ranks: Ranks | None = None,
    intake_processes: Literal["auto"] | int = "auto",
) -> TrainFigures:
    """Measure intake, steps, and the whole at `games_per_second`, each for `seconds`; `ranks` share the steps.

    `intake_processes`: see `TrainerSettings`.
    """
    ranks, records = ranks or Ranks(), _records(game, seed)
    with tempfile.TemporaryDirectory(prefix="zerofleet-bench-") as directory:
        settings = _settings(game, preset, Path(directory), seed)
        settings = settings.model_copy(update={"intake_processes": intake_processes})
        torch.set_num_threads(settings.train.threads)
        keep_freed_memory()
        window, validated, received = _fill(game, settings, records, seconds)
        step_s, step_cpu_s = _steps(game, settings, window, seconds, ranks)
        training, fed, taken = asyncio.run(
            _whole(game, settings, records, seconds=seconds, games_per_second=games_per_second, ranks=ranks)
        )
        on_disk = sum(file.stat().st_size for file in RunPaths(settings.run_dir).replay.iterdir() if file.is_file())
    train, network, figures = settings.train, settings.network, training.figures
    elapsed_s = max(figures.busy_s + figures.wait_s, 1e-9)
    return TrainFigures(
        game=model_name(game),
        preset=preset,
        device=str(choose_device(settings.device)),
        threads=train.threads,
        processes=ranks.size,
        blocks=network.blocks,
        channels=network.channels,
        batch_size=train.batch_size,
        seconds=seconds,
        samples_per_second=round(train.batch_size / step_s, 1),
        samples_per_cpu_second=round(train.batch_size / step_cpu_s, 1),
        step_ms=round(step_s * 1e3, 2),
        games_validated_per_second=round(validated, 1),
        samples_received_per_second=round(received, 1),
        fed_games_per_second=round(fed, 1),
        fed_games_taken_per_second=round(taken, 1),
        fed_samples_per_second=round(figures.samples / elapsed_s, 1),
        fed_step_ms=round(figures.busy_s / max(1, figures.steps) * 1e3, 2),
        intake_processes=str(intake_processes),
        wait_share=round(figures.wait_s / elapsed_s, 4),
        reuse=round(training.learner.reuse, 3),
        plies_per_game=round(sum(len(decode_record(one).moves) for one in records) / len(records), 2),
        bytes_per_record=round(sum(map(len, records)) / len(records), 1),
        disk_bytes_per_game=round(on_disk / max(1, len(training.replay.log)), 1),
        bytes_per_sample=float(sum(array.nbytes for array in Samples.empty(game.spec(), 1).arrays)),
    )


def _settings(game: Game, preset: str, directory: Path, seed: int) -> TrainerSettings:
    parameters = parameters_text(game)
    settings = TrainerSettings.model_validate(
        {"run_dir": directory, "game": game.spec().name, "game_parameters": parameters, "preset": preset, "seed": seed}
    )
    soon = settings.train.model_copy(
        update={"min_samples": settings.train.batch_size}
    )  # otherwise a short measurement only waits
    from_nothing = settings.warm_start.model_copy(update={"games": 0})  # synthetic games claim a published version
    return settings.model_copy(update={"train": soon, "warm_start": from_nothing})


def _records(game: Game, seed: int) -> list[bytes]:
    played = (random_game(game, seed + number) for number in range(_GAMES))
    return [encode_record(one, worker_id="bench", uid=f"{number:032x}") for number, one in enumerate(played)]


def _fill(game: Game, settings: TrainerSettings, records: list[bytes], seconds: float) -> tuple[SampleWindow, float, float]:
    """Return a window, and the games and samples added to it per second."""
    window = SampleWindow(game.spec(), settings.train)
    extract(validate(decode_record(records[0])), settings.train)  # compiles
    count, began = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - began) < seconds:
        window.add(extract(validate(decode_record(records[count % len(records)])), settings.train))
        count += 1
    return window, count / elapsed, window.total / elapsed


def _steps(game: Game, settings: TrainerSettings, window: SampleWindow, seconds: float, ranks: Ranks) -> tuple[float, float]:
    """Return wall-clock and CPU time of one step without waiting, in seconds."""
    network = new_network(game.spec(), settings.network, seed=settings.seed)
    device = choose_device(settings.device, ranks.place)
    learner = Learner(game.spec(), network, settings.train, window, seed=settings.seed, device=device, ranks=ranks)
    ranks.invite(invitation(game, settings, learner, Accounts()))
    for _ in range(_WARM_UP_STEPS):
        learner.step()
    count, began, cpu = 0, time.perf_counter(), time.process_time()
    while (elapsed := time.perf_counter() - began) < seconds:
        learner.step()  # reads its losses back, so no work is left on the device
        count += 1
    return elapsed / count, (time.process_time() - cpu) / count


async def _whole(
    game: Game, settings: TrainerSettings, records: list[bytes], *, seconds: float, games_per_second: float, ranks: Ranks
) -> tuple[Training, float, float]:
    """Run intake and learner beside a feeder; return the training, and the games published and taken per second."""
    device = choose_device(settings.device, ranks.place)
    training = open_training(settings, game, device=device, ranks=ranks)
    ranks.invite(training.learner.invited(training.accounts))
    loop = asyncio.get_running_loop()
    with (
        ThreadPoolExecutor(1, thread_name_prefix="learner") as learner,
        ThreadPoolExecutor(1, thread_name_prefix="intake") as taker,
        closing(open_reader(training, device)) as reader,
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as feeder,
    ):
        rate, count = games_per_second, round(games_per_second * seconds)
        await loop.run_in_executor(feeder, _prepare, game.spec().name, parameters_text(game), settings.seed, count)
        # The start of its processes is no part of the measurement.
        first = [(f"{number:032x}", record) for number, record in enumerate(records[: settings.intake_games])]
        await loop.run_in_executor(taker, reader.read, first)
        async with aclosing(open_stream(settings.stream_url, name=settings.stream_name)) as stream:
            awake = asyncio.Event()
            rng = random.Random(settings.seed)  # noqa: S311 - jitter, not a secret
            intake = make_intake(training, stream, executor=taker, rng=rng, on_samples=awake.set, reader=reader)
            async with asyncio.TaskGroup() as group:
                feeding = loop.run_in_executor(feeder, _feed, settings.stream_url, settings.stream_name, rate, seconds)
                group.create_task(intake.run())
                while not feeding.done():
                    began = time.monotonic()
                    if training.candidate_due:  # its export is no part of this measurement
                        training.note_candidate(training.accounts.candidate_version)
                    if training.learner.steps_allowed():
                        await loop.run_in_executor(learner, training.train, 0.1, feeding.done)
                        continue
                    awake.clear()
                    waiting = group.create_task(awake.wait())
                    either: set[asyncio.Future[Any]] = {waiting, feeding}
                    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                    waiting.cancel()
                    training.count_wait(time.monotonic() - began)
                taken = len(training.replay.log)
                await intake.stop()
    training.replay.close()
    return training, await feeding, taken / seconds


_prepared: list[tuple[str, bytes]] = []  # in the process that feeds


def _prepare(name: str, parameters: dict[str, str], seed: int, count: int) -> None:
    """Make uid and record of `count` games, none of which is among `_records`."""
    game = games.core.make(name, **parameters)
    for number in range(_GAMES, _GAMES + count):
        uid = f"{number:032x}"
        _prepared.append((uid, encode_record(random_game(game, seed + number), worker_id="bench", uid=uid)))


def _feed(url: str, name: str, games_per_second: float, seconds: float) -> float:
    """Publish the prepared games at a steady rate for `seconds`; return the achieved rate."""
    return asyncio.run(_publish(url, name, games_per_second, seconds))


async def _publish(url: str, name: str, games_per_second: float, seconds: float) -> float:
    loop = asyncio.get_running_loop()
    async with aclosing(open_stream(url, name=name)) as stream:
        began, count = loop.time(), 0
        while (elapsed := loop.time() - began) < seconds:
            if count < len(_prepared):
                await stream.publish(*_prepared[count])
                count += 1
            await asyncio.sleep(max(0.0, min(count / games_per_second, seconds) - (loop.time() - began)))
    return count / elapsed


def main() -> int:
    """Run the measurements of the command line and print JSON."""
    parser = argparse.ArgumentParser(prog="python -m trainer.bench", description="Measure the trainer on synthetic games.")
    parser.add_argument("--game", default="connect_four")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="parameter of the game")
    parser.add_argument("--preset", default="laptop", choices=PRESETS)
    parser.add_argument("--seconds", type=float, default=10.0, help="length of each of the three measurements")
    parser.add_argument("--games-per-second", type=float, default=20.0, help="feed rate of the third measurement")
    parser.add_argument(
        "--intake-processes", type=int, metavar="N", help="processes that read games; by default as the trainer"
    )
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    logs.configure("warning", "auto", "bench")
    parameters = dict(item.partition("=")[::2] for item in given.set)
    game = games.core.make(given.game, **parameters)
    figures = _measure_here(game, given)
    if figures is not None:
        sys.stdout.write(json.dumps(asdict(figures)) + "\n")
    return 0


def _measure_here(game: Game, given: argparse.Namespace) -> TrainFigures | None:
    """Measure as a single process or as rank 0, or follow rank 0; only the first two return figures."""
    place = place_in(inherited_environment())
    numbers: dict[str, Any] = {"seconds": given.seconds, "games_per_second": given.games_per_second, "seed": given.seed}
    if given.intake_processes is not None:
        numbers["intake_processes"] = given.intake_processes
    if place.size == 1:
        return measure(game, given.preset, **numbers)
    device = choose_device("auto", place)
    group = ProcessGroup.join(place, device, timeout_s=_RANK_TIMEOUT_S + 3 * given.seconds)
    try:
        if place.rank:
            Follower(group, device).run()
            return None
        figures = measure(game, given.preset, **numbers, ranks=group)
        group.end()
        return figures
    finally:
        group.leave()


if __name__ == "__main__":
    sys.exit(main())
