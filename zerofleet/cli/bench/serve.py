"""`zerofleet bench serve`: share of the device's throughput that remains after workers, transport and batching.

Server and workers are separate processes, as in a run. Another process evaluates the same module in a bare loop; the two
alternate several times, so that other load on the machine affects both.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import grpc
import numpy as np
import typer
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc import service_pb2_grpc

from games.core import Game
from games.positions import parameters_text
from zerofleet.cli import screen
from zerofleet.cli.bench.person import Person, PersonPriority
from zerofleet.cli.bench.processes import SHOWN_LINES, BenchProcess, started
from zerofleet.cli.bench.serve_figures import ServeFigures
from zerofleet.cli.options import Json, Parameters, Preset, Save, Seed, check_finite, chosen_game
from zerofleet.contracts.naming import model_name
from zerofleet.contracts.priorities import Priority
from zerofleet.contracts.set_options import set_options
from zerofleet.errors import Unavailable
from zerofleet.evaluators.control import ModelControl
from zerofleet.library.planning.costs import save_figures
from zerofleet.presets import preset as named_preset
from zerofleet.rpc.inference_channels import open_inference_channel
from zerofleet.storage.model_store import DirectoryStore

__all__ = ["ServeFigures", "run", "serve"]

START_TIMEOUT_S = 120.0
ROUNDS = 5
WARM_UP_S = 2.0
MOST_WARM_UP_S = 60.0
VERSION = 1
_READY = '"service.ready"'  # event in the log of a service that is ready


class Carrier(StrEnum):
    """Choice of `--transport`; see `zerofleet.evaluators.transports`."""

    AUTO = "auto"
    GRPC = "grpc"
    SHARED_MEMORY = "shared_memory"


class Bench:
    """Server with a random network, workers and a bare loop, in a temporary run directory."""

    def __init__(
        self, directory: Path, game: Game, preset: str, *, threads: int, arguments: Sequence[str], transport: Carrier
    ) -> None:
        self._directory = directory
        self._game = game
        self._preset = preset
        self._threads = threads
        self._transport = transport
        self._model = model_name(game)
        self.counts_games = False
        """Whether games end at a steady rate, so that positions by game are meaningful."""
        self._address = f"unix:{directory}/bench.sock"
        parameters = [f"--game-parameters.{name}={value}" for name, value in parameters_text(game).items()]
        self._common = ["--run-dir", str(directory), "--game", game.spec().name, "--preset", preset, *parameters]
        self._common += ["--parent-pid", str(os.getpid())]
        self._server_arguments = [*self._common, "--address", self._address, "--inference.threads", str(threads), *arguments]

    async def open(self, stack: AsyncExitStack, *, workers: int, seed: int) -> None:
        """Start and warm up all processes."""
        await self._make_model()
        self.server = await self._start(stack, "server", "inference_server", *self._server_arguments)
        await self._load_model()
        self.bare = await self._start(stack, "bare", "inference_server.bare_loop", *self._server_arguments)
        self.workers = [
            await self._start(
                stack,
                f"worker-{index}",
                *("selfplay_worker.load", "--target", self._address, "--version", str(VERSION)),
                *("--transport", self._transport),
                *("--game", self._game.spec().name, "--preset", self._preset, "--seed", str(seed + index * 1_000_000)),
                *set_options(parameters_text(self._game)),
            )
            for index in range(workers)
        ]
        await self.bare.run_for(WARM_UP_S)
        await self._warm_up_workers()

    async def _warm_up_workers(self) -> None:
        """Let the workers play until as many games have ended as they play at once: the first to end are the short ones.

        Bounded by `MOST_WARM_UP_S`; games that take longer are not counted by game.
        """
        chosen = named_preset(self._game, self._preset).selfplay
        waited = len(self.workers) * chosen.lanes * chosen.slots
        for _ in range(round(MOST_WARM_UP_S / WARM_UP_S)):
            found = await asyncio.gather(*(worker.run_for(WARM_UP_S) for worker in self.workers))
            waited -= sum(each["games"] for each in found)
            if waited <= 0:
                break
        self.counts_games = waited <= 0

    async def served(self, seconds: float, person: Person | None = None) -> dict[str, Any]:
        """Let the workers play for `seconds`, beside a person's requests; return positions, latencies, counters."""
        before, server_s, worker_s = await self._statistics(), self.server.cpu_s(), self._worker_cpu_s()
        playing = asyncio.gather(*(worker.run_for(seconds) for worker in self.workers))
        person_s = [] if person is None else await person.ask_while(playing)
        found = await playing
        after = await self._statistics()
        return {
            "positions": sum(each["positions"] for each in found),
            "games": sum(each["games"] for each in found) if self.counts_games else 0,
            "moves": sum(each["moves"] for each in found) if self.counts_games else 0,
            "requests": sum(each["requests"] for each in found),
            "seconds": max(each["seconds"] for each in found),
            "bytes_asked": sum(each["bytes_asked"] for each in found),
            "bytes_answered": sum(each["bytes_answered"] for each in found),
            "person_s": person_s,
            "latencies_s": [latency for each in found for latency in each["latencies_s"]],
            "batches": {rows: count - before.get(rows, (0, 0.0))[0] for rows, (count, _) in after.items()},
            "busy_s": sum(busy for _, busy in after.values()) - sum(busy for _, busy in before.values()),
            "server_s": self.server.cpu_s() - server_s,
            "worker_s": self._worker_cpu_s() - worker_s,
        }

    def person(self, priority: Priority) -> Person:
        """Return a person who plays against the model, with requests of this priority."""
        return Person(self._address, self._game, version=VERSION, priority=priority)

    def _worker_cpu_s(self) -> float:
        return sum(worker.cpu_s() for worker in self.workers)

    async def _start(self, stack: AsyncExitStack, name: str, *command: str) -> BenchProcess:
        log = self._directory / f"{name}.log"
        return await stack.enter_async_context(started(log, *command, threads=self._threads))

    async def _make_model(self) -> None:
        """Publish a network of random weights with a trainer; it costs as much to evaluate as a trained one."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "trainer", *self._common, "--log-format", "json"),
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None  # noqa: S101
        said: list[str] = []
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                while not (said and _READY in said[-1]):
                    said.append((await process.stderr.readline()).decode(errors="replace"))
                    if not said[-1]:
                        raise Unavailable(f"the trainer failed to publish a network: {' / '.join(said[-SHOWN_LINES:])}")
        finally:
            if process.returncode is None:
                process.terminate()
            await process.communicate()

    async def _load_model(self) -> None:
        async with open_inference_channel(self._address) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            live = stub.ServerLive(messages.ServerLiveRequest(), timeout=START_TIMEOUT_S, wait_for_ready=True)
            await self.server.outlives(live)
        async with ModelControl(self._address, store=DirectoryStore(self._directory / "models")) as control:
            await control.serve(self._model, [VERSION])

    async def _statistics(self) -> dict[int, tuple[int, float]]:
        """Return batches by rows: how many, and the seconds they took."""
        async with open_inference_channel(self._address) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            reply = await stub.ModelStatistics(messages.ModelStatisticsRequest(name=self._model), timeout=START_TIMEOUT_S)
        batches = reply.model_stats[0].batch_stats
        return {batch.batch_size: (batch.compute_infer.count, batch.compute_infer.ns / 1e9) for batch in batches}


async def measure(
    game: Game,
    preset: str,
    *,
    seconds: float,
    workers: int,
    threads: int,
    arguments: Sequence[str],
    seed: int,
    transport: Carrier,
    priority: Priority | None = None,
) -> ServeFigures:
    """Start all processes, alternate between bare loop and workers, and compute the figures.

    `priority` is that of a person's requests beside the workers'; None without a person.
    """
    with tempfile.TemporaryDirectory(prefix="zf-bench-") as directory:
        bench = Bench(Path(directory), game, preset, threads=threads, arguments=arguments, transport=transport)
        async with AsyncExitStack() as stack:
            with screen.meter("bench serve", total=2 * ROUNDS) as meter:
                await bench.open(stack, workers=workers, seed=seed)
                person = None if priority is None else await stack.enter_async_context(bench.person(priority))
                turn_s = seconds / ROUNDS / 2
                raw, served = [], []
                for _ in range(ROUNDS):
                    raw.append(await bench.bare.run_for(turn_s))
                    meter.advance()
                    served.append(await bench.served(turn_s, person))
                    meter.advance()
    return _figures(game, preset, raw, served, workers=workers, threads=threads, transport=transport)


def _figures(
    game: Game,
    preset: str,
    raw: Sequence[Mapping[str, Sequence[float]]],
    served: Sequence[Mapping[str, Any]],
    *,
    workers: int,
    threads: int,
    transport: Carrier,
) -> ServeFigures:
    chosen = named_preset(game, preset)
    by_batch = {rows: sum(r[rows][0] for r in raw) / sum(r[rows][1] for r in raw) for rows in raw[0]}
    best = max(by_batch, key=lambda rows: by_batch[rows])
    seconds = sum(each["seconds"] for each in served)
    positions, games, moves, requests = (
        sum(each[name] for each in served) for name in ("positions", "games", "moves", "requests")
    )
    batches: dict[int, int] = {}
    for each in served:
        for rows, count in each["batches"].items():
            batches[rows] = batches.get(rows, 0) + count
    latencies_ms = np.array([latency for each in served for latency in each["latencies_s"]]) * 1e3
    person_ms = np.array([latency for each in served for latency in each["person_s"]]) * 1e3
    by_round = [
        each["positions"] / each["seconds"] / (bare[best][0] / bare[best][1]) for each, bare in zip(served, raw, strict=True)
    ]
    return ServeFigures(
        game=model_name(game),
        preset=preset,
        network=f"{chosen.network.blocks}x{chosen.network.channels}",
        simulations=chosen.search.simulations,
        transport=transport.value,
        threads=threads,
        workers=workers,
        lanes=chosen.selfplay.lanes,
        slots=chosen.selfplay.slots,
        seconds=round(seconds, 2),
        raw_positions_per_second=round(by_batch[best]),
        raw_best_batch=int(best),
        raw_by_batch={rows: round(rate) for rows, rate in by_batch.items()},
        served_positions_per_second=round(positions / seconds),
        positions_per_game=round(positions / games, 1) if games else 0.0,
        positions_per_move=round(positions / moves, 2) if moves else 0.0,
        ratio=round(positions / seconds / by_batch[best], 4),
        ratio_by_round=[round(ratio, 3) for ratio in by_round],
        mean_batch=round(sum(r * n for r, n in batches.items()) / max(1, sum(batches.values())), 1),
        batch_fill=_fill(batches),
        requests_per_second=round(requests / seconds, 1),
        bytes_asked_per_position=round(sum(each["bytes_asked"] for each in served) / max(1, positions), 1),
        bytes_answered_per_position=round(sum(each["bytes_answered"] for each in served) / max(1, positions), 1),
        latency_ms=_percentiles(latencies_ms),
        person_latency_ms=_percentiles(person_ms) if len(person_ms) else None,
        device_busy_share=round(sum(each["busy_s"] for each in served) / seconds, 3),
        server_cores=round(sum(each["server_s"] for each in served) / seconds, 3),
        worker_cores=round(sum(each["worker_s"] for each in served) / seconds, 3),
    )


def _percentiles(latencies_ms: np.ndarray) -> dict[str, float]:
    return {f"p{q}": round(float(np.percentile(latencies_ms, q)), 2) for q in (50, 95, 99)}


def _fill(batches: Mapping[int, int]) -> dict[str, float]:
    """Return the share of positions by batch size, in powers of two."""
    total = max(1, sum(rows * count for rows, count in batches.items()))
    shares: dict[int, float] = {}
    for rows, count in batches.items():
        upper = 1 << (rows - 1).bit_length()
        shares[upper] = shares.get(upper, 0.0) + rows * count / total
    return {str(upper): round(shares[upper], 4) for upper in sorted(shares) if shares[upper]}


def run(
    game: Game,
    preset: str = "laptop",
    seconds: float = 30.0,
    *,
    workers: int = 1,
    threads: int | None = None,
    arguments: Sequence[str] = (),
    seed: int = 0,
    transport: Carrier = Carrier.AUTO,
    priority: Priority | None = None,
) -> dict[str, Any]:
    """Measure for `seconds` and return the figures; `arguments` are passed to the server, `priority` is that of a person.

    Raises `Unavailable` if a process of the benchmark fails.
    """
    used = threads or named_preset(game, preset).inference.threads
    try:
        figures = asyncio.run(
            measure(
                game,
                preset,
                seconds=seconds,
                workers=workers,
                threads=used,
                arguments=arguments,
                seed=seed,
                transport=transport,
                priority=priority,
            )
        )
    except grpc.aio.AioRpcError as failure:
        raise Unavailable(f"the server of the benchmark did not answer: {failure.details()}") from failure
    return asdict(figures)


def serve(
    *,
    game: Annotated[str, typer.Option("--game", metavar="GAME", help="Game to play.")] = "connect_four",
    preset: Preset = "laptop",
    seconds: Annotated[
        float, typer.Option("--seconds", min=1.0, callback=check_finite, help="Total length of bare loop and serving.")
    ] = 30.0,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Worker processes.")] = 1,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="CPU threads of the device.", show_default="that of the preset")
    ] = None,
    precision: Annotated[
        str, typer.Option("--precision", metavar="auto|float32|bfloat16|float16", help="Number format of the network.")
    ] = "auto",
    transport: Annotated[Carrier, typer.Option("--transport", help="Transport of the workers' positions.")] = Carrier.AUTO,
    person: Annotated[
        PersonPriority | None,
        typer.Option("--person", help="Also measure the latency of a person's requests with this priority."),
    ] = None,
    parameters: Parameters = None,
    seed: Seed = 0,
    save: Save = None,
    json: Json = False,
) -> None:
    """Measure positions per second through workers, transport and inference server, against a bare loop over the same module.

    The two alternate, so that other load on the machine affects both; the ratio shows the cost of serving.
    """
    chosen = chosen_game(game, parameters)
    found = run(
        chosen,
        preset,
        seconds,
        workers=workers,
        threads=threads,
        arguments=["--precision", precision],
        seed=seed,
        transport=transport,
        priority=None if person is None else Priority[person.value.upper()],
    )
    if save:
        save_figures(save, "serve", found)
    screen.emit_json(found) if json else _show(found)


def _show(found: Mapping[str, Any]) -> None:
    title = (
        f"{found['game']}, preset {found['preset']}: network {found['network']}, {found['threads']} thread(s),"
        f" {found['workers']} worker(s) of {found['lanes']} x {found['slots']} games, transport {found['transport']}"
    )
    rows = screen.table("figure", ">value", title=title)
    rows.add_row("positions per second, bare loop", f"{found['raw_positions_per_second']:,} (batch {found['raw_best_batch']})")
    rows.add_row("positions per second, served", f"{found['served_positions_per_second']:,}")
    rows.add_row("ratio", f"{found['ratio']:.1%}")
    rows.add_row("mean batch", f"{found['mean_batch']:,.0f}")
    rows.add_row("requests per second", f"{found['requests_per_second']:,.0f}")
    rows.add_row("latency p50 / p95 / p99", " / ".join(f"{ms:.1f}" for ms in found["latency_ms"].values()) + " ms")
    if found["person_latency_ms"]:
        person = " / ".join(f"{ms:.1f}" for ms in found["person_latency_ms"].values())
        rows.add_row("latency of a person's requests p50 / p95 / p99", f"{person} ms")
    rows.add_row("device busy", f"{found['device_busy_share']:.1%}")
    rows.add_row("cores used by server / workers", f"{found['server_cores']:.2f} / {found['worker_cores']:.2f}")
    screen.out().print(rows)
    fill = screen.table("positions in batches up to", ">share", "")
    for upper, share in found["batch_fill"].items():
        fill.add_row(upper, f"{share:.1%}", "█" * round(40 * share))
    screen.out().print(fill)
