"""Plan of a reproduction: the stages of a thesis in a profile, in the order in which they may run."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from zerofleet.errors import ConfigurationError, InvalidRequest
from zerofleet.presets.tables import deep_merge
from zerofleet.presets.theses.catalogue import Experiment, Profile, Thesis
from zerofleet.presets.theses.stages import Stage, read_stage

__all__ = ["Expected", "Planned", "expect", "plan", "profile_of"]


@dataclass(frozen=True, slots=True)
class Planned:
    """Stage of an experiment."""

    experiment: str
    arm: str
    stage: Stage
    seconds: float
    """Expected processor seconds."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Identifiers of the stages that must be complete before."""
        return self.stage.needs


@dataclass(frozen=True, slots=True)
class Expected:
    """Course of a call by the expected times of its stages."""

    seconds: float
    """Wall-clock seconds until the last stage ends."""
    late: tuple[str, ...]
    """Identifiers of the stages that would begin after the limit of time, and do not begin."""


def expect(planned: Sequence[Planned], *, jobs: int, limit_s: float | None = None, complete: Collection[str] = ()) -> Expected:
    """Return the expected course of stages, of which `jobs` run at a time, each on a core of its own.

    A free place takes the first stage whose needs are complete, as a reproduction does.

    Args:
        planned: Stages to run, in order.
        jobs: Number of places.
        limit_s: Seconds after which no stage begins; None: no limit.
        complete: Identifiers of stages that were complete before.
    """
    waiting, ended_s = list(planned), dict.fromkeys(complete, 0.0)
    free_s = [0.0] * jobs
    late: list[str] = []
    while waiting:
        now_s = min(free_s)
        if limit_s is not None and now_s > limit_s:
            late = [one.stage.id for one in waiting]
            break
        ready = next((one for one in waiting if all(ended_s.get(need, math.inf) <= now_s for need in one.needs)), None)
        place = free_s.index(now_s)
        if ready is not None:
            waiting.remove(ready)
            free_s[place] = ended_s[ready.stage.id] = now_s + ready.seconds
        elif any(moment > now_s for moment in free_s):  # wait for the next end of another stage
            free_s[place] = min(moment for moment in free_s if moment > now_s)
        else:  # a stage that they need is not planned
            late = [one.stage.id for one in waiting]
            break
    return Expected(max(ended_s.values(), default=0.0), tuple(late))


def plan(thesis: Thesis, profile: str, *, seeds: int | None = None, only: Sequence[str] = ()) -> list[Planned]:
    """Return the stages of a thesis, or of the experiments and arms `only` and those whose networks they use.

    Args:
        thesis: The thesis.
        profile: Name of the profile; experiments without it are left out.
        seeds: Number of seeds in place of the profile's.
        only: Names of experiments, or of single arms as `EXPERIMENT.ARM`; empty: all.

    Raises:
        InvalidRequest: Unknown experiment or arm, or none of them has the profile.
        ConfigurationError: An impossible setting in a file of the catalogue.
    """
    names = only or [experiment.name for experiment in thesis.experiments]
    chosen = set().union(*map(thesis.arms_named, names))
    stages = [
        planned
        for experiment in thesis.experiments
        if profile in experiment.profiles
        for planned in _stages(experiment, profile_of(experiment, profile), seeds)
    ]
    by_id = {planned.stage.id: planned for planned in stages}
    needed = {planned.stage.id for planned in stages if (planned.experiment, planned.arm) in chosen}
    reached = needed
    while reached:
        reached = {name for one in reached for name in by_id[one].needs if name in by_id} - needed
        needed = needed | reached
    kept = [planned for planned in stages if planned.stage.id in needed]
    if not kept:
        asked = ", ".join(only) or thesis.name
        raise InvalidRequest(
            f"{asked} has nothing to run in profile {profile}; `zerofleet reproduce {thesis.name} --list` shows the profiles"
        )
    return kept


def profile_of(experiment: Experiment, profile: str) -> Profile:
    """Return a profile by name; raises `InvalidRequest`."""
    for name, found in experiment.profiles.items():
        if name == profile:
            return found
    raise InvalidRequest(f"experiment {experiment.name} has no profile {profile}; it has {', '.join(experiment.profiles)}")


def _stages(experiment: Experiment, profile: Profile, seeds: int | None) -> list[Planned]:
    return [
        Planned(
            experiment.name,
            name,
            _stage(experiment, profile, name, seed),
            profile.seconds * experiment.arms[name].seconds_factor,
        )
        for name in profile.arms or experiment.arms
        for seed in range(seeds or profile.seeds)
    ]


def _stage(experiment: Experiment, profile: Profile, arm: str, seed: int) -> Stage:
    identity = {"kind": experiment.kind, "id": f"{experiment.name}.{arm}.{seed}", "seed": seed}
    fields: dict[str, Any] = deep_merge(experiment.stage, experiment.arms[arm].stage, profile.stage, identity)
    if "meetings" in fields:
        fields["meetings"] = [_meeting(meeting, profile, seed) for meeting in fields["meetings"]]
    if fields.get("pool_network"):
        fields["pool_network"] = f"{fields['pool_network']}.{seed}"
    try:
        return read_stage(fields)
    except ValidationError as error:
        raise ConfigurationError(f"experiment {experiment.name}, arm {arm}: {error}") from error


def _meeting(fields: dict[str, Any], profile: Profile, seed: int) -> dict[str, Any]:
    """Return a meeting with the profile's number of games, and networks of the same seed."""
    networks = {name: f"{fields[name]}.{seed}" for name in ("subject_network", "opponent_network") if fields.get(name)}
    share = fields.get("share", 1.0)
    kept = {name: value for name, value in fields.items() if name != "share"}
    return {"games": max(1, round(share * profile.judged)), **kept, **networks}
