"""Figures of `zerofleet bench serve`."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ServeFigures"]


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
