"""Plain-text progress of a run, for a log or a pipe."""

from __future__ import annotations

import math
from collections.abc import Iterator

from zerofleet.supervisor.diagnostics import ENDINGS, Diagnostics
from zerofleet.supervisor.readings import Readings
from zerofleet.supervisor.remarks import warnings
from zerofleet.supervisor.words import clock, compact, count, rating, share

__all__ = ["progress_line", "row"]


def progress_line(now: Readings) -> str:
    """Return one line with the progress of the run; unknown values are omitted."""
    return "  ".join([clock(now.elapsed_s), *_producing(now), *_learning(now), *_judging(now), *_diagnosing(now)])


def _producing(now: Readings) -> Iterator[str]:
    for service in now.services:
        if service.compiling is not None:
            yield f"{service.name} compiles: {service.compiling.progress}"
    if now.phase:
        yield now.phase
    per_hour = "" if math.isnan(now.games_per_hour) else f" ({count(round(now.games_per_hour))}/h)"
    if (games := now.known("games")) is not None:
        yield f"games {count(games)}{per_hour}"
    if not math.isnan(now.mean_batch):
        yield f"evaluations {compact(now.evaluations_per_s)}/s in batches of {compact(now.mean_batch)}"
    if not math.isnan(now.cache_share):
        yield f"cache {share(now.cache_share)}"
    if now.lag:
        yield f"stream lag {count(now.lag)}"
    if now.rejected:
        yield f"{now.rejected} refused"
    if now.disk_warning:
        yield now.disk_warning


def _learning(now: Readings) -> Iterator[str]:
    heads = [f"{head} {loss:.3f}" for head, loss in sorted(now.losses.items()) if head != "total"]
    if heads:
        yield f"loss {' '.join(heads)}"
    if now.step:
        yield f"step {count(now.step)}, reuse {now.reuse:.2f}"
    if now.samples:
        yield f"window {compact(now.window)} of {compact(now.samples)}"


def _diagnosing(now: Readings) -> Iterator[str]:
    found = now.diagnostics
    if not math.isnan(found.target_entropy):
        yield f"target entropy {found.target_entropy:.2f} nat, new positions {share(found.new_positions)}"
    if attention := warnings(found):
        yield f"attention: {'; '.join(attention)}"


def _judging(now: Readings) -> Iterator[str]:
    if now.champion is not None:
        rung, told = now.rated_rung, ""
        if rung is not None:
            whose = "" if now.is_champion(rung) else f"version {rung.name.removeprefix('model:')}: "
            told = f" ({whose}{rating(rung)})"
        yield f"champion {now.champion.version}{told}"
    if now.match is not None:
        match = now.match
        yield f"match of {match.version}: {match.wins}/{match.draws}/{match.losses}, llr {match.llr:+.2f}"


def row(now: Readings) -> dict[str, float | int | None]:
    """Return the numbers of a reading, flat, for a line of history; None for unknown values."""
    champion, match = now.champion, now.match
    rung = now.rated_rung if now.rated_rung is not None and now.rated_rung.anchored else None
    numbers: dict[str, float | int | None] = {
        "elapsed_s": round(now.elapsed_s, 1),
        "games": now.known("games"),
        "games_stored": now.known("games_stored"),
        "games_per_hour": now.games_per_hour,
        "moves": now.known("moves"),
        "evaluations_per_s": now.evaluations_per_s,
        "mean_batch": now.mean_batch,
        "device_busy": now.device_busy,
        "cache_share": now.cache_share,
        "latency_s": now.latency_s,
        **{f"loss_{head}": loss for head, loss in sorted(now.losses.items())},
        "step": now.known("step"),
        "steps_per_s": now.steps_per_s,
        "window": now.known("window"),
        "samples": now.known("samples"),
        "reuse": None if "reuse" in now.unknown else now.reuse,
        "learning_rate": None if "learning_rate" in now.unknown else now.learning_rate,
        "stream_lag": now.known("lag"),
        "stream_pending": now.pending,
        "rejected": now.rejected,
        "champion": champion.version if champion else None,
        "champion_elo": rung.elo if rung else None,
        "champion_elo_low": rung.elo_low if rung else None,
        "champion_elo_high": rung.elo_high if rung else None,
        "match_candidate": match.version if match else None,
        "match_llr": match.llr if match else None,
        **_diagnostics(now.diagnostics),
        **{f"memory_{service.name}": service.memory_bytes for service in now.services},
        **{f"share_{service.name}": service.share for service in now.services if service.device},
        "restarts": sum(service.restarts for service in now.services),
    }
    return {name: None if isinstance(n, float) and not math.isfinite(n) else n for name, n in numbers.items()}


def _diagnostics(found: Diagnostics) -> dict[str, float | int]:
    """Return counts since the start and figures of the latest games; curves derive their shares from the counts."""
    return {
        **{f"ended_{ending}": found.endings.get(ending, 0) for ending in ENDINGS},
        "wins_taken": found.wins_taken,
        "wins_overlooked": found.wins_overlooked,
        "target_entropy": found.target_entropy,
        "distinct_openings": found.distinct_openings,
        "new_positions": found.new_positions,
        "selfplay_samples": found.samples,
        "selfplay_evaluations": found.selfplay_evaluations,
        "match_evaluations": found.match_evaluations,
        "ladder_evaluations": found.ladder_evaluations,
        "network_age_s": found.network_age_s,
        "adoptions": found.adoptions,
        "adoption_total_s": found.adoption_total_s,
    }
