"""Figures of a run as text, by panel: self-play, network and learning. The terminal page and the browser show the same ones."""

from __future__ import annotations

import math

from rich.text import Text

from zerofleet.supervisor.panels import ACCENT, LOOK, WRONG, Figure
from zerofleet.supervisor.readings import Readings
from zerofleet.supervisor.words import UNKNOWN, compact, count, decimals, milliseconds, share, sparkline

__all__ = ["figures"]

TREND_CELLS = 12


def figures(now: Readings) -> list[tuple[str, list[Figure]]]:
    """Return the panels of the overview: title and figures each."""
    return [_self_play(now), _network(now), _learning(now)]


def _self_play(now: Readings) -> tuple[str, list[Figure]]:
    per_game = now.moves / now.games if now.games else math.nan
    per_hour = UNKNOWN if math.isnan(now.games_per_hour) else count(round(now.games_per_hour))
    refused = max(now.rejected, now.dead)
    return "self-play", [
        Figure("games", _count(now.known("games")), f"{per_hour} /h"),
        Figure("moves", _compact(now.known("moves")), f"{decimals(per_game, 1)} per game"),
        Figure("in play", _count(now.known("games_active")), "games"),
        Figure("stored", _count(now.known("games_stored")), "in this run"),
        Figure(
            "in transit",
            UNKNOWN if "lag" in now.unknown else count(now.lag + now.waiting_games),
            Text(f"{count(refused)} refused", style=WRONG) if refused else "in the stream",
        ),
    ]


def _network(now: Readings) -> tuple[str, list[Figure]]:
    return "network", [
        Figure("evaluations", compact(now.evaluations_per_s), "/s"),
        Figure("mean batch", compact(now.mean_batch), "positions"),
        Figure("latency", milliseconds(now.latency_s), "per request"),
        Figure("device busy", share(now.device_busy), ""),
        Figure("cache hits", share(now.cache_share), "of evaluations"),
    ]


def _learning(now: Readings) -> tuple[str, list[Figure]]:
    losses = {head: loss for head, loss in sorted(now.losses.items()) if head != "total"}
    notes: list[str | Text] = [Text(sparkline(now.loss_trend, TREND_CELLS), style=ACCENT)]
    shown = losses or {"policy": math.nan, "value": math.nan}
    skipped = Text(f"{now.skipped_steps} skipped", style=LOOK) if now.skipped_steps else f"{compact(now.steps_per_s)} /s"
    return "learning", [
        *(Figure(f"loss {head}", decimals(loss, 3), notes.pop() if notes else "") for head, loss in shown.items()),
        Figure("step", _count(now.known("step")), skipped),
        Figure("window", _compact(now.known("window")), f"of {_compact(now.known('samples'))}"),
        Figure("reuse", UNKNOWN if "reuse" in now.unknown else decimals(now.reuse, 2), "per sample"),
    ]


def _count(number: int | None) -> str:
    return UNKNOWN if number is None else count(number)


def _compact(number: int | None) -> str:
    return UNKNOWN if number is None else compact(number)
