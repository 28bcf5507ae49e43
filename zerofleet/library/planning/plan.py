"""Arithmetic of a fleet: capacity of each part, the first to saturate, and the resulting flows.

`zerofleet plan --json` prints a `Plan`, and the page of the cluster receives the same one.
"""

from __future__ import annotations

from dataclasses import dataclass

from zerofleet.library.planning.costs import Costs
from zerofleet.library.values import Value
from zerofleet.presets import Preset

__all__ = ["Limits", "Plan", "Simulated", "make_plan"]

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


class Simulated(Value):
    """Results of a simulation, without a warm-up of a tenth of its time."""

    seconds: float
    """Simulated time."""
    evaluations_per_second: float
    requests_per_second: float
    games_per_second: float
    latency_ms: dict[str, float]
    """Percentiles over workers' requests, from sending to reply."""
    stream_most_games: int
    stream_most_bytes: float
    stream_left_games: int
    """Games in the stream at the end."""
    gate_step_ms: float | None
    """Mean latency of a request of the match: server queue and evaluation of its positions; None where none was answered."""
    gate_match_s: float | None
    """Time of a match of all pairs in parallel, if every step takes `gate_step_ms`; None without one."""


class Plan(Value):
    """Expected load and flows of a fleet."""

    game: str
    """Name of the model: the game with the parameters that matter to a network."""
    preset: str
    """Preset of the costs."""
    gpus: int
    """Inference servers, one device each."""
    workers: int
    """Self-play workers, one core each."""
    costs: str
    """Machine and date of the costs, and settings that replace the preset's."""
    saturates_first: str
    load: dict[str, float]
    """Used share of each part's capacity; 1 for the first to saturate."""
    evaluations_per_second: float
    requests_per_second: float
    evaluations_per_game: float
    gate_share: float = 0.0
    """Share of the servers' evaluations that the gate takes; 0 unless the games are those of a run."""
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
    """Search trees and evaluation caches of one worker."""
    window_memory_bytes: float
    """Replay window at its maximum; while it grows, its largest array is in memory twice."""
    disk_bytes_per_day: float
    simulated: Simulated | None = None
    """Results of `--simulate`; None without it."""


def make_plan(costs: Costs, chosen: Preset, *, gpus: int, workers: int, plies: float | None = None, limits: Limits) -> Plan:
    """Return the plan of a fleet of `gpus` devices and `workers` processes of one core each.

    chosen   preset with which the costs were measured
    plies    searched plies of a game; by default those of the games measured
    """
    evaluations = evaluations_per_game(costs, chosen, plies)
    own_share = 1.0 - costs.gate_share
    a_game = costs.bytes_per_record
    capacity = {  # games per second
        "workers": workers * worker_rate(costs) / evaluations,
        "inference servers": gpus * costs.evaluations_per_device * own_share / evaluations,
        "network of the inference servers": gpus
        * limits.link_bytes_per_second
        * own_share
        / (max(costs.bytes_asked, costs.bytes_answered) * evaluations),
        "trainer's intake": costs.games_taken_per_second,
        "stream": min(limits.stream_records_per_second, limits.link_bytes_per_second / a_game),
    }
    first = min(capacity, key=lambda part: capacity[part])
    rate = capacity[first]
    asked = rate * evaluations
    samples = rate * searched_plies(costs, plies) * chosen.search.full_search_share
    return Plan(
        game=costs.game,
        preset=chosen.name,
        gpus=gpus,
        workers=workers,
        costs=costs.source,
        saturates_first=first,
        load={part: rate / most for part, most in capacity.items()},
        evaluations_per_second=asked,
        requests_per_second=asked / chosen.selfplay.slots,
        evaluations_per_game=evaluations,
        gate_share=costs.gate_share,
        games_per_hour=rate * HOUR_S,
        samples_per_second=samples,
        uses_of_a_sample=min(chosen.train.max_reuse, costs.samples_per_second / samples),
        asked_bytes_per_second=asked * costs.bytes_asked,
        answered_bytes_per_second=asked * costs.bytes_answered,
        stream_bytes_per_second=rate * a_game,
        stream_memory_bytes=limits.high_water * a_game,
        worker_memory_bytes=costs.memory_per_worker,
        window_memory_bytes=chosen.train.window_max * costs.bytes_per_sample,
        disk_bytes_per_day=rate * costs.disk_bytes_per_game * DAY_S,
    )


def evaluations_per_game(costs: Costs, chosen: Preset, plies: float | None = None) -> float:
    """Return the evaluations per game of self-play: those measured or, for another length, those of a move times `plies`.

    Where the costs lack them it is an upper bound: kept subtrees, the evaluation cache, openings and decided moves save
    evaluations.
    """
    if costs.evaluations_per_game and plies is None:
        return costs.evaluations_per_game
    if costs.evaluations_per_move and plies is not None:
        return plies * costs.evaluations_per_move
    search = chosen.search
    share = search.full_search_share
    simulations = share * search.simulations + (1 - share) * search.fast_simulations
    return (plies or costs.plies_per_game) * max(1.0, simulations * costs.evaluations_per_simulation)


def searched_plies(costs: Costs, plies: float | None = None) -> float:
    """Return the searched plies of a game: `plies`, or those measured, or where the costs lack them those of random games."""
    if plies is None and costs.evaluations_per_game and costs.evaluations_per_move:
        return costs.evaluations_per_game / costs.evaluations_per_move
    return plies or costs.plies_per_game


def worker_rate(costs: Costs) -> float:
    """Return the evaluations per second that a worker on one core can request."""
    return min(costs.evaluations_per_worker_core, costs.simulations_per_core * costs.evaluations_per_simulation)
