"""Report of a reproduction as plain values: verdicts, arms, curves and what is left out. The HTML page shows the same."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Any, NamedTuple, TypeAlias

from zerofleet.cli.reproduce.results import StageResults
from zerofleet.presets.tables import deep_merge
from zerofleet.presets.theses.catalogue import Claim, Experiment, Thesis
from zerofleet.presets.theses.planning import Planned, plan, profile_of
from zerofleet.presets.theses.stages import LearnerStage, SarsaStage, TdStage
from zerofleet.strength.claims.clocks import time_fault
from zerofleet.strength.claims.tallies import FIGURES, Estimate, Figure, Tally, difference, estimate, measured_estimate
from zerofleet.strength.claims.verdicts import DIVERGED, VERDICTS, deciding_width, games_for, verdict

__all__ = ["build_report", "command_of"]

FORMAT = 2
Measured: TypeAlias = dict[str, dict[int, dict[str, float]]]
"""Measures by arm, seed and name."""
_SHOWN: tuple[Figure, ...] = tuple(name for name in FIGURES if name not in {"kept", "opened"})
"""Figures of every meeting; where positions take the place of games, those kept are those won."""
_ENOUGH = 0.98  # share of the stated games of training; loops end with a whole block


def build_report(
    thesis: Thesis, profile: str, planned: Sequence[Planned], results: StageResults, *, seeds: int | None
) -> dict[str, Any]:
    """Return the report on the complete stages of `planned`. Raises the errors of `StageResults.read`."""
    experiments = [_experiment(thesis, one, profile, planned, results, seeds) for one in thesis.experiments]
    claims = [claim for one in experiments for claim in one["claims"]]
    return {
        "format": FORMAT,
        "thesis": thesis.name,
        "title": thesis.title,
        "source": thesis.source,
        "profile": profile,
        "command": command_of(thesis.name, profile, seeds),
        "machine": {"processor": _processor(), "cores": os.cpu_count(), "python": platform.python_version()},
        "versions": {name: version(name) for name in ("zerofleet", "numpy", "numba", "torch")},
        "verdicts": {name: sum(claim["verdict"] == name for claim in claims) for name in VERDICTS},
        "experiments": experiments,
        "uncovered": [one.model_dump() for one in thesis.uncovered],
    }


def command_of(thesis: str, profile: str, seeds: int | None, only: str = "") -> str:
    """Return the command line of a reproduction."""
    words = ["zerofleet", "reproduce", thesis, "--profile", profile]
    words += [] if seeds is None else ["--seeds", str(seeds)]
    return " ".join(words + (["--only", only] if only else []))


def _experiment(
    thesis: Thesis,
    experiment: Experiment,
    profile: str,
    everything: Sequence[Planned],
    results: StageResults,
    seeds: int | None,
) -> dict[str, Any]:
    """Return the part of an experiment; `everything`: the stages of all experiments."""
    planned = [one for one in everything if one.experiment == experiment.name]
    complete = [one for one in planned if results.read(one.stage) is not None]
    tallies = {
        arm: [tally for one in complete if one.arm == arm for tally in results.tallies(one.stage)] for arm in experiment.arms
    }
    measures = {
        arm: {one.stage.seed: measured for one in complete if one.arm == arm and (measured := _measured(results, one))}
        for arm in experiment.arms
    }
    open_arms = {one.arm for one in planned if one not in complete}
    diverged = {one.arm: f"{one.stage.id}: {why}" for one in complete if (why := results.diverged(one.stage))}
    lengths = _Lengths(profile, _trained(complete, everything, results, _in_full(thesis)))
    has_profile = profile in experiment.profiles
    return {
        "name": experiment.name,
        "title": experiment.title,
        "about": experiment.about,
        "source": experiment.source,
        "command": command_of(thesis.name, profile, seeds, experiment.name),
        "settings": deep_merge(experiment.stage, profile_of(experiment, profile).stage if has_profile else {}),
        "left_out": profile_of(experiment, profile).left_out if has_profile else f"not part of profile {profile}",
        "stages": {"complete": len(complete), "planned": len(planned)} | _minutes(complete, results),
        "open_stages": [one.stage.id for one in planned if one not in complete],
        "diverged": list(diverged.values()),
        "claims": [_claim(claim, tallies, measures, open_arms, diverged, lengths) for claim in experiment.claims],
        "arms": [
            {"name": name, "label": arm.label, "thesis": arm.thesis, "rows": _rows(tallies[name])}
            for name, arm in experiment.arms.items()
            if tallies[name]
        ],
        "measures": [
            {"arm": experiment.arms[arm].label, "measure": name, "estimate": found.as_json()}
            for arm, by_seed in measures.items()
            for name in dict.fromkeys(name for measured in by_seed.values() for name in measured)
            if (found := measured_estimate({seed: one[name] for seed, one in by_seed.items() if name in one}))
        ],
        "behaviour": [
            {"arm": arm.label, **shown} for name, arm in experiment.arms.items() for shown in _behaviour(tallies[name])
        ]
        + _self_play(experiment, complete, results),
        "trainings": [
            {
                "arm": experiment.arms[one.arm].label,
                "seed": one.stage.seed,
                "points": [point | point.get("losses", {}) for point in points],
            }
            for one in complete
            if (points := (results.read(one.stage) or {}).get("curve"))
        ],
    }


class _Lengths(NamedTuple):
    """Games of training by arm, in a profile."""

    profile: str
    trained: dict[str, tuple[int, int]]
    """Number of games in the complete stages, and in the profile full, by arm; the latter is 0 where a budget is not in games.

    Of several seeds, and of the networks that an arm uses which trains none, those with the smallest share.
    """

    def lack(self, claim: Claim) -> str:
        """Return the reason for which the profile, or the training of a claim's arms, decides nothing; empty if it decides."""
        if claim.profile not in {"", self.profile}:
            return f"the claim is about the profile {claim.profile}"
        for arm in (claim.arm, claim.minus_arm):
            here, full = self.trained.get(arm, (0, 0))
            wanted = claim.games if claim.games and arm == claim.arm else full
            if here < _ENOUGH * wanted:
                return f"the claim is about {wanted:,} games of training, this profile has {here:,}"
        return ""


def _trained(
    complete: Sequence[Planned], everything: Sequence[Planned], results: StageResults, full: dict[tuple[str, str], int]
) -> dict[str, tuple[int, int]]:
    """Return `_Lengths.trained`; `full`: the games in the profile full by experiment and arm."""
    by_id = {one.stage.id: one for one in everything}
    found: dict[str, tuple[int, int]] = {}
    for one in complete:
        networks = [one] if _games_of(one, results) else [by_id[name] for name in one.needs if name in by_id]
        lengths = [(_games_of(network, results), full.get((network.experiment, network.arm), 0)) for network in networks]
        found[one.arm] = min([*lengths, *([found[one.arm]] if one.arm in found else [])], key=_share, default=(0, 0))
    return found


def _share(length: tuple[int, int]) -> tuple[float, int]:
    here, full = length
    return (here / full if full else math.inf), here


def _games_of(one: Planned, results: StageResults) -> int:
    """Return the games of training of a stage's own network; 0 without a result or a training."""
    found = results.read(one.stage) or {}
    places = [tally.get("at", 0) for tally in found.get("tallies", ())]
    return max(places + [point["games"] for point in found.get("curve") or ()], default=0)


def _in_full(thesis: Thesis) -> dict[tuple[str, str], int]:
    """Return the games of the profile full, of trainings that are counted in games, by experiment and arm."""
    if not any("full" in one.profiles for one in thesis.experiments):
        return {}
    counted = TdStage | SarsaStage | LearnerStage
    return {(one.experiment, one.arm): one.stage.games for one in plan(thesis, "full") if isinstance(one.stage, counted)}


def _minutes(complete: Sequence[Planned], results: StageResults) -> dict[str, float | None]:
    """Return the minutes of complete stages: expected of one core, of processes in their last start, and of wall-clock time.

    Those of processes are None if a result lacks them, as results of earlier versions do.
    """
    found = [results.read(one.stage) or {} for one in complete]
    used = [one.get("cpu_seconds") for one in found]
    return {
        "expected_core_minutes": round(sum(one.seconds for one in complete) / 60.0, 1),
        "core_minutes": None if None in used else round(sum(seconds or 0.0 for seconds in used) / 60.0, 1),
        "wall_minutes": round(sum(one.get("seconds", 0.0) for one in found) / 60.0, 1),
    }


def _measured(results: StageResults, one: Planned) -> dict[str, float]:
    return dict((results.read(one.stage) or {}).get("measures", {}))


def _claim(
    claim: Claim,
    tallies: dict[str, list[Tally]],
    measures: Measured,
    open_arms: set[str],
    diverged: dict[str, str],
    lengths: _Lengths,
) -> dict[str, Any]:
    """Return a claim with our figure and the verdict.

    `open_arms` have stages without a result; `diverged` arms have a stage whose training diverged, with the reason.
    A claim of a trained arm is about the games of training that it states, else about those of the profile full.
    """
    reason, chosen, other = "", _chosen(claim, tallies.get(claim.arm, [])), list[Tally]()
    if claim.measure:
        found = _of_measure(claim, measures)
    elif claim.minus_arm or claim.minus_meeting:
        subtracted = claim.model_copy(update={"meeting": claim.minus_meeting or claim.meeting})
        other = _chosen(subtracted, tallies.get(claim.minus_arm or claim.arm, []))
        found = difference(chosen, other, claim.figure)
    else:
        found = estimate(chosen, claim.figure)
    decided = verdict(found, claim)
    if lost := [diverged[arm] for arm in (claim.arm, claim.minus_arm) if arm in diverged]:
        decided, reason = DIVERGED, lost[0]
    elif found is None:
        arms = {claim.arm or next(iter(measures)), claim.minus_arm}
        reason = "its stages were not run" if arms & open_arms else "no result in this profile"
    elif lack := lengths.lack(claim):
        decided, reason = "not run", lack
    elif claim.arm and found.interval == "count":
        decided, reason = "undecided", "one training seed gives a measure no interval"
    elif fault := time_fault([*chosen, *other]):
        decided, reason = "undecided", fault
    elif decided == "undecided" and found.interval == "games" and not other and (width := deciding_width(found, claim)):
        reason = f"about {games_for(found, width):,} games narrow the interval to {width:.2g} points each side"
    return {
        "text": claim.text,
        "thesis": claim.thesis,
        "figure": claim.measure or FIGURES[claim.figure],
        "bar": claim.as_json(),
        "estimate": None if found is None else found.as_json(),
        "seats": sorted({tally.seat for tally in chosen}),
        "nodes_per_move": _mean([tally.subject_nodes for tally in chosen]),
        "trained_games": max((tally.at for tally in chosen), default=0) or lengths.trained.get(claim.arm, (0, 0))[0],
        "verdict": decided,
        "reason": reason,
    }


def _of_measure(claim: Claim, measures: Measured) -> Estimate | None:
    """Return the measure of a claim's arm, less that of the other arm by pairs of equal seeds; a benchmark has one arm."""
    arm = claim.arm or next(iter(measures))
    values = {seed: one[claim.measure] for seed, one in measures[arm].items() if claim.measure in one}
    if claim.minus_arm:
        other = measures[claim.minus_arm]
        values = {
            seed: value - other[seed][claim.measure] for seed, value in values.items() if claim.measure in other.get(seed, {})
        }
    return measured_estimate(values)


def _chosen(claim: Claim, tallies: Iterable[Tally]) -> list[Tally]:
    """Return the tallies of a claim: its meeting and seat, at the judgements of each seed that decide it."""
    fitting = [tally for tally in tallies if tally.meeting == claim.meeting and claim.seat in {0, tally.seat}]
    places = {
        seed: _places(claim, {tally.at for tally in fitting if tally.seed == seed}) for seed in {one.seed for one in fitting}
    }
    kept = [tally for tally in fitting if tally.at in places[tally.seed]]
    return [tally.opened_with(claim.opening) for tally in kept] if claim.opening else kept


def _places(claim: Claim, judged: set[int]) -> list[int]:
    """Return the games of training of the judgements that decide a claim; the first of all where every one has too many."""
    most = claim.most_games or math.inf
    return ([at for at in sorted(judged) if at <= most] or sorted(judged)[:1])[-claim.last :]


def _rows(tallies: Sequence[Tally]) -> list[dict[str, Any]]:
    """Return a row for each meeting, seat and place of judgement, all seeds together."""
    rows = []
    # places of judgement differ by seed where the budget is in samples: their order is common, over all meetings, since the
    # first judgement of some seeds has no version before it to meet
    ranks = {seed: sorted({t.at for t in tallies if t.seed == seed}) for seed in {t.seed for t in tallies}}
    keyed: dict[tuple[str, int, int], list[Tally]] = {}
    for tally in tallies:
        rank = ranks[tally.seed].index(tally.at)
        keyed.setdefault((tally.meeting, tally.seat, rank), []).append(tally)
    for (meeting, seat, _), group in keyed.items():
        figures = {name: found.as_json() for name in _SHOWN if (found := estimate(group, name)) is not None}
        rows.append(
            {
                "meeting": meeting,
                "subject": group[0].subject,
                "opponent": group[0].opponent,
                "seat": seat,
                "trained_games": round(_mean([tally.at for tally in group])),
                "games": sum(tally.games for tally in group),
                "seeds": sorted({tally.seed for tally in group}),
                "figures": figures,
                "nodes_per_move": [_mean([t.subject_nodes for t in group]), _mean([t.opponent_nodes for t in group])],
                "ms_per_move": [_mean([t.subject_ms for t in group]), _mean([t.opponent_ms for t in group])],
                "cpu_ms_per_move": [_mean([t.subject_cpu_ms for t in group]), _mean([t.opponent_cpu_ms for t in group])],
            }
        )
    return rows


def _behaviour(tallies: Sequence[Tally]) -> list[dict[str, Any]]:
    """Return the tables of behaviour of each meeting and seat: of the first seed, after its last game of training."""
    newest: dict[tuple[str, int], Tally] = {}
    for tally in sorted((one for one in tallies if one.tables), key=lambda one: (-one.seed, one.at)):
        newest[tally.meeting, tally.seat] = tally
    return [
        {"meeting": one.meeting, "seat": one.seat, "seed": one.seed, "trained_games": one.at, "table": dict(table)}
        for one in newest.values()
        for table in one.tables
    ]


def _self_play(experiment: Experiment, complete: Sequence[Planned], results: StageResults) -> list[dict[str, Any]]:
    """Return the tables of the self-play of each arm's first seed."""
    first = {one.arm: one for one in sorted(complete, key=lambda one: -one.stage.seed)}
    return [
        {
            "arm": experiment.arms[arm].label,
            "meeting": "self-play",
            "seat": 0,
            "seed": one.stage.seed,
            "trained_games": 0,
            "table": table,
        }
        for arm, one in first.items()
        for table in results.tables(one.stage)
    ]


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / len(values), 3) if values else 0.0


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:  # noqa: PTH123 - a device file
            return next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), platform.processor())
    except OSError:
        return platform.processor()
