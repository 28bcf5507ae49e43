"""Arithmetic of a fleet: capacity of each part, the first to saturate, and the resulting flows."""

from __future__ import annotations

from dataclasses import dataclass

from zerofleet.library.planning.costs import Costs
from zerofleet.presets import Preset

__all__ = ["Limits", "Plan", "make_plan"]

HOUR_S = 3600.0
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits that benchmarks do not measure."""

    link_bytes_per_second: float = 10e9 / 8
    """Bandwidth of an inference server's network card, per direction."""
    stream_records_per_second: float = 2_500.0
    """Redis with an append-only file, one record per call."""
    high_water: int = 10_000
    """Games in the stream at which workers wait."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Expected load and flows of a fleet."""

    game: str
    preset: str
    gpus: int
    workers: int
    saturates_first: str
    load: dict[str, float]
    """Used share of each part's capacity; 1 for the first to saturate."""
    evaluations_per_second: float
    requests_per_second: float
    evaluations_per_game: float
    games_per_hour: float
    samples_per_second: float
    """Rate of arrival at the trainer."""
    uses_of_a_sample: float
    """Mean uses by the trainer; below the preset's maximum reuse, one trainer is too slow."""
    asked_bytes_per_second: float
    """Total to all inference servers."""
    answered_bytes_per_second: float
    stream_bytes_per_second: float
    stream_memory_bytes: float
    """Size of the stream at its high-water mark."""
    worker_memory_bytes: float
    """Search trees of one worker."""
    window_memory_bytes: float
    """Replay window at its maximum."""
    disk_bytes_per_day: float


def make_plan(costs: Costs, chosen: Preset, *, gpus: int, workers: int, plies: float | None = None, limits: Limits) -> Plan:
    """Return the plan of a fleet of `gpus` devices and `workers` processes of one core each.

    plies    length of a game; by default that of the random games measured
    """
    evaluations = evaluations_per_game(costs, chosen, plies)
    a_game = costs.bytes_per_record
    capacity = {  # games per second
        "workers": workers * worker_rate(costs) / evaluations,
        "inference servers": gpus * costs.evaluations_per_device / evaluations,
        "network of the inference servers": gpus
        * limits.link_bytes_per_second
        / (max(costs.bytes_asked, costs.bytes_answered) * evaluations),
        "trainer's intake": costs.games_taken_per_second,
        "stream": min(limits.stream_records_per_second, limits.link_bytes_per_second / a_game),
    }
    first = min(capacity, key=lambda part: capacity[part])
    rate = capacity[first]
    asked = rate * evaluations
    samples = rate * (plies or costs.plies_per_game) * chosen.search.full_search_share
    return Plan(
        game=costs.game,
        preset=chosen.name,
        gpus=gpus,
        workers=workers,
        saturates_first=first,
        load={part: rate / most for part, most in capacity.items()},
        evaluations_per_second=asked,
        requests_per_second=asked / chosen.selfplay.slots,
        evaluations_per_game=evaluations,
        games_per_hour=rate * HOUR_S,
        samples_per_second=samples,
        uses_of_a_sample=min(chosen.train.max_reuse, costs.samples_per_second / samples),
        asked_bytes_per_second=asked * costs.bytes_asked,
        answered_bytes_per_second=asked * costs.bytes_answered,
        stream_bytes_per_second=rate * a_game,
        stream_memory_bytes=limits.high_water * a_game,
        worker_memory_bytes=chosen.selfplay.lanes * chosen.selfplay.slots * costs.memory_per_game,
        window_memory_bytes=chosen.train.window_max * costs.bytes_per_sample,
        disk_bytes_per_day=rate * costs.disk_bytes_per_game * DAY_S,
    )


def evaluations_per_game(costs: Costs, chosen: Preset, plies: float | None = None) -> float:
    """Return the evaluations per game of self-play; an upper bound, since subtree reuse is ignored."""
    search = chosen.search
    share = search.full_search_share
    simulations = share * search.simulations + (1 - share) * search.fast_simulations
    return (plies or costs.plies_per_game) * max(1.0, simulations * costs.evaluations_per_simulation)


def worker_rate(costs: Costs) -> float:
    """Return the evaluations per second that a worker on one core can request."""
    return min(costs.evaluations_per_worker_core, costs.simulations_per_core * costs.evaluations_per_simulation)
