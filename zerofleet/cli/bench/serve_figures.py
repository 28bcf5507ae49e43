"""Figures of `zerofleet bench serve`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from games.core import Game
from zerofleet.contracts.naming import model_name
from zerofleet.presets import preset as named_preset
from zerofleet.strength.learning.curves import t_interval

__all__ = ["ServeFigures", "figures_of"]


@dataclass(frozen=True, slots=True)
class ServeFigures:
    """Results of one measurement."""

    game: str
    preset: str
    network: str
    simulations: int
    """Simulations of a full search of the preset."""
    transport: str
    threads: int
    workers: int
    lanes: int
    slots: int
    seconds: float
    """Total time of serving, over all rounds."""
    raw_positions_per_second: float
    """Throughput of the bare loop at its best batch size."""
    raw_best_batch: int
    raw_by_batch: dict[str, float]
    served_positions_per_second: float
    positions_per_game: float
    """Evaluated positions for each game of the workers, with an untrained network; 0 where games take too long."""
    positions_per_move: float
    """The same for each searched move; 0 where games take too long to be counted."""
    ratio: float
    ratio_by_round: list[float]
    ratio_interval: list[float]
    """Low and high end of Student's 95 % interval of the mean of those ratios, each of two turns one after the other."""
    raw_positions_per_processor_second: float
    """Positions of the bare loop, at its best batch size, by the processor time of its thread."""
    served_positions_per_processor_second: float
    """Positions that the server evaluated by the processor time of its device thread: network, queue and batching, no waits."""
    processor_ratio: float
    """The latter over the former: below 1 where the thread's work became slower. Where `ratio` is lower, the thread waited."""
    mean_batch: float
    batch_fill: dict[str, float]
    """Share of positions by batch size; key `64` covers batches of 33 to 64 positions."""
    requests_per_second: float
    bytes_asked_per_position: float
    """Size of the request tensors: packed planes and legal actions."""
    bytes_answered_per_position: float
    """Size of the reply tensors."""
    latency_ms: dict[str, float]
    """Latency of the workers' requests, of a sample where they are many."""
    person_latency_ms: dict[str, float] | None
    """Latency of a person's requests, one position each, beside the workers; None without a person."""
    device_busy_share: float
    server_cores: float
    """CPU time of the server per wall-clock time: device thread and wire."""
    worker_cores: float


def figures_of(
    game: Game,
    preset: str,
    raw: Sequence[Mapping[str, Sequence[float]]],
    served: Sequence[Mapping[str, Any]],
    *,
    workers: int,
    threads: int,
    transport: str,
) -> ServeFigures:
    """Return the figures of a measurement from those of its rounds: of the bare loop, and of the server with its workers."""
    chosen = named_preset(game, preset)
    by_batch = {rows: sum(r[rows][0] for r in raw) / sum(r[rows][1] for r in raw) for rows in raw[0]}
    best = max(by_batch, key=lambda rows: by_batch[rows])
    bare_per_processor_s = sum(r[best][0] for r in raw) / sum(r[best][2] for r in raw)
    served_per_processor_s = sum(each["evaluated"] for each in served) / sum(each["device_s"] for each in served)
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
        transport=transport,
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
        ratio_interval=[round(end, 4) for end in t_interval(by_round)],
        raw_positions_per_processor_second=round(bare_per_processor_s),
        served_positions_per_processor_second=round(served_per_processor_s),
        processor_ratio=round(served_per_processor_s / bare_per_processor_s, 4),
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
