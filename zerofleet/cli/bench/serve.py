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
import typer
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc import service_pb2_grpc

from games.core import Game
from games.positions import parameters_text
from zerofleet.cli import screen
from zerofleet.cli.bench.person import Person, PersonPriority
from zerofleet.cli.bench.processes import SHOWN_LINES, BenchProcess, started
from zerofleet.cli.bench.serve_figures import ServeFigures, figures_of
from zerofleet.cli.options import Json, Parameters, Preset, Save, Seed, check_finite, chosen_game
from zerofleet.contracts.naming import model_name
from zerofleet.contracts.priorities import Priority
from zerofleet.contracts.set_options import set_options
from zerofleet.errors import Unavailable
from zerofleet.evaluators.control import ModelControl
from zerofleet.library.planning.costs import save_figures
from zerofleet.presets import preset as named_preset
from zerofleet.rpc.inference_channels import open_inference_channel
from zerofleet.rpc.security.credentials import METRICS_TOKEN_VARIABLE, client_token
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.supervisor.overview import live_service
from zerofleet.supervisor.pages import fetch_page

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
        self._announce = directory / "server.json"
        parameters = [f"--game-parameters.{name}={value}" for name, value in parameters_text(game).items()]
        self._common = ["--run-dir", str(directory), "--game", game.spec().name, "--preset", preset, *parameters]
        self._common += ["--parent-pid", str(os.getpid())]
        self._server_arguments = [*self._common, "--address", self._address, "--inference.threads", str(threads), *arguments]

    async def open(self, stack: AsyncExitStack, *, workers: int, seed: int) -> None:
        """Start and warm up all processes."""
        await self._make_model()
        page = ("--announce", str(self._announce), "--metrics-host", "127.0.0.1", "--metrics-port", "0")
        self.server = await self._start(stack, "server", "inference_server", *self._server_arguments, *page)
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
        evaluated, device_s = await self._device()
        playing = asyncio.gather(*(worker.run_for(seconds) for worker in self.workers))
        person_s = [] if person is None else await person.ask_while(playing)
        found = await playing
        after, (evaluated_after, device_s_after) = await self._statistics(), await self._device()
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
            "evaluated": evaluated_after - evaluated,
            "device_s": device_s_after - device_s,
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

    async def _device(self) -> tuple[float, float]:
        """Return the positions that the server has evaluated, and the processor seconds of its device thread."""
        service = live_service(self._announce)
        token = client_token(variable=METRICS_TOKEN_VARIABLE)  # inherited by the server
        page = None if service is None else await fetch_page(service.metrics_port, token)
        if page is None:
            raise Unavailable("the metrics of the benchmark's server cannot be read; measure again")
        names = ("zerofleet_inference_positions_total", "zerofleet_inference_device_processor_seconds_total")
        evaluated, processor_s = (page.total(name) for name in names)
        return evaluated, processor_s


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
    return figures_of(game, preset, raw, served, workers=workers, threads=threads, transport=transport.value)


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

    The two alternate, so that other load on the machine affects both; the ratio shows the cost of serving. The ratio by
    processor time of the device thread is below 100 % where its work became slower, and not where it waits.
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
    low, high = found["ratio_interval"]
    rows.add_row("ratio, 95 % interval over rounds", f"{found['ratio']:.1%}, {low:.1%} to {high:.1%}")
    rows.add_row("ratio by processor time of the device thread", f"{found['processor_ratio']:.1%}")
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
