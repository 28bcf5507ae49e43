"""Trial: one seed of an experiment in learning, as `zerofleet bench learn` runs it in one process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from games.core import Game
from zerofleet.errors import ConfigurationError
from zerofleet.presets import Preset
from zerofleet.presets.experiment import PARTS, SERVICES, Experiment
from zerofleet.presets.learners import own_settings

__all__ = ["ONE_PROCESS", "PARTS_OF_TRIAL", "Trial", "require_effect"]

PARTS_OF_TRIAL = ("search", "network", "train", "selfplay", "warm_start")
"""Parts of the preset that worker and trainer of a trial are given."""
ONE_PROCESS: Mapping[str, str] = {
    "selfplay.lanes": "one block of `selfplay.slots` games is played, since no lane waits for a server",
    "selfplay.adoption_delay_s": "a candidate is adopted at once",
    "train.threads": "every trial uses one thread of torch",
    "gate": "there is no gate: a candidate is adopted at once",
    "models": "versions are dropped with the trial",
    "inference": "there is no server: a batch is the leaves of one step",
    "warm_start.parallel": "the games of agents are played one after another",
}
"""Settings, and parts of the preset, without effect in one process, with the reason."""
_LEARNER = "alphazero"
_OTHER_LEARNERS = f"a trial measures the learner {_LEARNER}"


class Trial(BaseModel):
    """Configuration of one process: experiment, seed, budget and judge."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    game: str
    preset: str = "laptop"
    parameters: dict[str, str] = {}
    """Game parameters, as text."""
    settings: dict[str, str] = {}
    """Settings of the preset by dotted name, as text."""
    seed: int = Field(default=0, ge=0)
    """Seed of games, weights and batches."""
    cpu_seconds: float | None = Field(default=None, gt=0)
    """Budget in processor seconds of search, evaluation, intake and learning."""
    samples: int | None = Field(default=None, ge=1)
    """Budget in samples, in place of `cpu_seconds`: the whole trial then depends on seed and settings alone."""
    judge_every: float = Field(gt=0)
    """Distance between two judgements, in the unit of the budget."""
    simulations: int = Field(default=100, ge=0)
    """Simulations per move with which a network is judged; 0 judges the policy alone."""
    positions: str = ""
    """File of scored positions, for games with perfect play."""
    opponents: tuple[str, ...] = ()
    """Agents that the network meets at each judgement."""
    games: int = Field(default=40, ge=2)
    """Games against each opponent at each judgement."""
    judge_seed: int = Field(default=0, ge=0)
    """Seed of the openings of these games, the same for every trial."""

    @model_validator(mode="after")
    def _one_budget(self) -> Self:
        if (self.cpu_seconds is None) == (self.samples is None):
            raise ValueError("want a budget in processor seconds or in samples, one of the two")
        return self

    @property
    def budget(self) -> float:
        """Budget in its unit."""
        return float(self.cpu_seconds or self.samples or 0)

    @property
    def experiment(self) -> Experiment:
        """Experiment of the trial."""
        return Experiment(self.game, self.preset, self.seed, self.parameters, self.settings)

    def build_game(self) -> Game:
        """Return the game; raises `GameError`."""
        return self.experiment.build_game()

    def build_preset(self) -> Preset:
        """Return the preset with the settings; raises `ConfigurationError`."""
        return self.experiment.build_preset()


def require_effect(settings: Mapping[str, str]) -> None:
    """Raise `ConfigurationError` for a setting without effect in one process: its ablation would show noise."""
    for name, value in settings.items():
        part = name.partition(".")[0]
        if part in SERVICES:
            raise ConfigurationError(
                f"--set {name}={value} is a setting of a service, and a trial has none; settings begin with "
                f"{', '.join(sorted(PARTS_OF_TRIAL))}"
            )
        reason = ONE_PROCESS.get(name) or ONE_PROCESS.get(part)
        if not reason and part not in PARTS_OF_TRIAL and (part in PARTS or own_settings(part) is not None):
            reason = _OTHER_LEARNERS
        if reason:
            raise ConfigurationError(f"--set {name}={value} has no effect in one process: {reason}; omit it")
    if (learner := settings.get("train.learner", _LEARNER)) != _LEARNER:
        raise ConfigurationError(f"--set train.learner={learner}: {_OTHER_LEARNERS}; omit it")
