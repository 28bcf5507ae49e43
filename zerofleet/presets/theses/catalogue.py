"""Catalogue of theses: one folder each of TOML files (`zerofleet/presets/data/theses`), one file for each experiment.

    connect_four_td/thesis.toml        title, source, and the claims that no experiment covers, with the reason
    connect_four_td/noise.toml         an experiment: settings, arms, meetings, profiles, claims

A thesis with `hidden` is for tests and is not listed.
"""

from __future__ import annotations

import difflib
import functools
import tomllib
from importlib.resources import files
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from zerofleet.errors import ConfigurationError, InvalidRequest
from zerofleet.strength.claims.tallies import Figure
from zerofleet.strength.claims.verdicts import Bar

__all__ = ["PROFILES", "Arm", "Claim", "Experiment", "Profile", "Thesis", "Uncovered", "load_thesis", "thesis_names"]

PROFILES = ("quick", "full", "tiny")
_DATA = files("zerofleet.presets") / "data" / "theses"
_THESIS = "thesis.toml"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Profile(_Frozen):
    """Size of an experiment."""

    seeds: int = Field(default=1, ge=1)
    """Training seeds, or seeds of the games where nothing is trained."""
    arms: tuple[str, ...] = ()
    """Arms that run; empty: all."""
    judged: int = Field(default=100, ge=1)
    """Games of a meeting on each seat."""
    seconds: float = Field(gt=0)
    """Expected processor seconds of a stage on one core."""
    stage: dict[str, Any] = {}
    """Fields of every stage, such as `games` or `samples`."""
    left_out: str = ""
    """Part of the thesis's experiment that this profile leaves out."""


class Arm(_Frozen):
    """Variant within an experiment."""

    label: str
    thesis: str = ""
    """Result of the thesis for it, as printed."""
    stage: dict[str, Any] = {}
    """Fields of its stages that differ from the experiment's."""
    seconds_factor: float = Field(default=1.0, gt=0)
    """Cost relative to the profile's `seconds`."""


class Claim(Bar):
    """Headline of the thesis and the figure that decides it."""

    text: str
    thesis: str
    """Number of the thesis, as printed, or the figure to reach where it printed none."""
    arm: str = ""
    minus_arm: str = ""
    """Arm whose figure is subtracted."""
    meeting: str = ""
    minus_meeting: str = ""
    """Meeting whose figure is subtracted, of `minus_arm` or else of the same arm; empty with `minus_arm`: the same meeting."""
    figure: Figure = "won"
    opening: str = ""
    """First move of the subject; the figure `opened` is the share of its games from the start that begin with it."""
    seat: int = Field(default=0, ge=0)
    """Seat of the subject; 0: all."""
    last: int = Field(default=1, ge=1)
    """Number of last judgements whose games are taken together."""
    games: int = Field(default=0, ge=0)
    """Games of training that the claim is about; with fewer it is not decided. 0: those of the profile full, if any."""
    most_games: int = Field(default=0, ge=0)
    """Judgements after more games of training do not decide the claim, as one about exactly 100,000 games; 0: no bound."""
    profile: Literal["", "full"] = ""
    """Profile that decides the claim, as one about the cost of what `quick` makes cheaper; empty: every one."""
    measure: str = ""
    """Measure, in place of a figure of meetings: a count of a benchmark, or, with an arm, one of its training, by seed."""


class Experiment(_Frozen):
    """Experiment of a thesis."""

    name: str
    title: str
    about: str
    source: str
    """Place in the thesis."""
    kind: Literal["td", "sarsa", "learner", "match", "alphazero", "accuracy", "bench"]
    stage: dict[str, Any] = {}
    """Fields common to all stages (`zerofleet.presets.theses.stages`)."""
    arms: dict[str, Arm]
    claims: tuple[Claim, ...] = ()
    profiles: dict[Literal["quick", "full", "tiny"], Profile]


class Uncovered(_Frozen):
    """Claim that no experiment covers."""

    text: str
    thesis: str = ""
    why: str


class Thesis(_Frozen):
    """Thesis with its experiments in order."""

    name: str
    title: str
    source: str
    hidden: bool = False
    quick_minutes: float = Field(default=45.0, gt=0)
    """Wall-clock minutes after which the profile `quick` begins no further stage."""
    experiments: tuple[Experiment, ...]
    uncovered: tuple[Uncovered, ...] = ()

    def experiment(self, name: str) -> Experiment:
        """Return an experiment by name; raises `InvalidRequest` with a suggestion."""
        found = {experiment.name: experiment for experiment in self.experiments}
        if name not in found:
            raise InvalidRequest(f"{self.name} has no experiment {name!r}{_suggestion(name, list(found))}")
        return found[name]

    def arms_named(self, name: str) -> set[tuple[str, str]]:
        """Return experiment and arm of each arm that `EXPERIMENT` or `EXPERIMENT.ARM` names; raises `InvalidRequest`."""
        first, _, arm = name.partition(".")
        experiment = self.experiment(first)
        if arm and arm not in experiment.arms:
            raise InvalidRequest(f"experiment {first} has no arm {arm!r}{_suggestion(arm, list(experiment.arms))}")
        return {(first, one) for one in ([arm] if arm else experiment.arms)}


def thesis_names(*, hidden: bool = False) -> list[str]:
    """Return the names of the theses in alphabetical order."""
    names = sorted(entry.name for entry in _DATA.iterdir() if (entry / _THESIS).is_file())
    return [name for name in names if hidden or not load_thesis(name).hidden]


@functools.cache
def load_thesis(name: str) -> Thesis:
    """Return a thesis; raises `InvalidRequest` with a suggestion for an unknown name."""
    folder = _DATA / name
    known = sorted(entry.name for entry in _DATA.iterdir())
    if name not in known:
        raise InvalidRequest(f"no thesis is called {name!r}{_suggestion(name, thesis_names())}")
    head = tomllib.loads((folder / _THESIS).read_text("utf-8"))
    order = head.pop("order")
    found = sorted(e.name.removesuffix(".toml") for e in folder.iterdir() if e.name.endswith(".toml") and e.name != _THESIS)
    if sorted(order) != found:
        raise ConfigurationError(f"{name}/{_THESIS}: order is {order}, the folder has {found}")
    tables = [{"name": one, **tomllib.loads((folder / f"{one}.toml").read_text("utf-8"))} for one in order]
    try:
        return Thesis.model_validate({"name": name, **head, "experiments": tables})
    except ValidationError as error:
        raise ConfigurationError(f"thesis {name}: {error}") from error


def _suggestion(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    return f"; do you mean {close[0]}? There are {', '.join(known)}" if close else f"; there are {', '.join(known)}"
