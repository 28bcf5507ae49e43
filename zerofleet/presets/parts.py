"""The parts of a preset: what each service can be told about its work, with ranges and reasons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from zerofleet.presets.warm_start import WarmStartSettings
from zerofleet.search.settings import SearchSettings

__all__ = [
    "GateSettings",
    "InferenceSettings",
    "ModelSettings",
    "NetworkSettings",
    "Preset",
    "SelfPlaySettings",
    "TrainSettings",
]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)


class NetworkSettings(_Part):
    """The network: a trunk, a policy and a value head, and whatever else it is to predict."""

    kind: Literal["residual", "perceptron"] = "residual"
    """`residual`: a stem and `blocks` of two 3x3 convolutions, for boards. `perceptron`: dense layers, for flat encodings."""
    blocks: int = Field(default=2, ge=1, le=80)
    """Residual blocks of the trunk."""
    channels: int = Field(default=32, ge=1, le=1024)
    """Channels of the trunk."""
    policy_channels: int = Field(default=8, ge=1, le=256)
    """Channels of the policy head."""
    value_channels: int = Field(default=8, ge=1, le=256)
    """Channels of the value head."""
    value_hidden: int = Field(default=64, ge=1, le=4096)
    """Width of the value head's dense layer."""
    hidden: tuple[Annotated[int, Field(ge=1, le=8192)], ...] = Field(default=(256, 128), min_length=1, max_length=16)
    """Widths of a perceptron's layers."""
    activation: Literal["relu", "tanh"] = "relu"
    """Between the layers of a perceptron; a residual network has relu."""
    hex_kernels: bool = True
    """On a hexagonal lattice, 3x3 kernels see the six neighbours and not the two further corners."""
    policy_head: Literal["auto", "dense", "moves"] = "auto"
    """`dense`: a weight for each pair of feature and action. `moves`: an action is scored by the two cells it joins, which
    needs `GameSpec.action_cells`. `auto`: moves where there are cells and more than 2,048 actions."""
    policy_activation: Literal["softmax", "sigmoid_norm", "sigmoid_raw"] = "softmax"
    """`sigmoid_norm`: sigmoids, renormalised over the legal actions. `sigmoid_raw`: a trap to look at, never to train
    with: the loss takes the sigmoids as they are, so that raising all of them is the best answer to everything."""
    heads: tuple[Literal["opponents", "plies_left"], ...] = ()
    """What else is predicted: the opponents' choices of the same round, and how much of the game is left."""

    @field_validator("heads")
    @classmethod
    def _distinct(cls, heads: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(heads)) < len(heads):
            raise ValueError(f"heads names {', '.join(heads)}; each may stand there once")
        return heads

    def describes(self, stored: Mapping[str, object]) -> bool:
        """Return whether a stored network dictionary means these settings; what it lacks, as old ones do, is the default."""
        try:
            return NetworkSettings.model_validate(stored) == self
        except ValidationError:
            return False


class TrainSettings(_Part):
    """The learner. Samples are searched positions; a step trains on one batch of them."""

    batch_size: int = Field(default=256, ge=1)
    """Samples of a step; with torchrun, of all processes together."""
    optimizer: Literal["adamw", "sgd"] = "adamw"
    """`adamw`, or `sgd` with `momentum`."""
    learning_rate: float = Field(default=2e-3, gt=0)
    """Step size after the warm-up."""
    warmup_steps: int = Field(default=100, ge=0)
    """Steps in which the learning rate rises linearly from 0."""
    schedule: Literal["constant", "cosine"] = "constant"
    """Course of the learning rate after the warm-up."""
    schedule_steps: int = Field(default=100_000, ge=1)
    """Steps after which a cosine schedule has reached a tenth of `learning_rate`, where it stays."""
    weight_decay: float = Field(default=1e-4, ge=0)
    """Decay of matrices and kernels; biases and normalisations have none."""
    momentum: float = Field(default=0.9, ge=0, lt=1)
    """Nesterov momentum of `sgd`."""
    gradient_clip: float = Field(default=5.0, gt=0)
    """Largest gradient norm."""
    value_weight: float = Field(default=1.0, ge=0)
    """Weight of the value loss beside the policy loss."""
    policy_target: Literal["search", "counter"] = "search"
    """`search`: what the search found. `counter`: what would have beaten the opponent's choice of the same round, in games
    that one simultaneous choice decides."""
    opponents_weight: float = Field(default=1.0, ge=0)
    """Weight of the loss of the head `opponents`, where the network has one."""
    plies_left_weight: float = Field(default=0.1, ge=0)
    """Weight of the loss of the head `plies_left`, where the network has one."""
    search_value_share: float = Field(default=0.0, ge=0, le=1)
    """Share of the root's searched value in the value target; the rest is the game's result."""
    average_decay: float = Field(default=0.998, ge=0, lt=1)
    """Decay a step of the weight average that candidates are made of."""
    max_reuse: float = Field(default=4.0, gt=0)
    """Times a sample may be trained on, on average; the learner waits for new games beyond that."""
    min_samples: int = Field(default=4_000, ge=1)
    """Samples before the first step."""
    window_min: int = Field(default=20_000, ge=1)
    """c of the window rule: samples in the window while no more than this were ever made."""
    window_exponent: float = Field(default=0.75, gt=0, le=1)
    """alpha of the window rule N = c (1 + beta ((total / c)^alpha - 1) / alpha) (Wu 2019, appendix C)."""
    window_slope: float = Field(default=0.4, gt=0, le=1)
    """beta of the window rule."""
    window_max: int = Field(default=2_000_000, ge=1)
    """Samples held in memory at most."""
    samples_per_candidate: int = Field(default=20_000, ge=1)
    """New samples received between two candidates, at least."""
    candidate_growth: float = Field(default=0.1, ge=0)
    """Share by which the samples of a run grow between two candidates, at least: progress is by orders of magnitude, and a
    candidate that saw hardly more than the champion is a wasted match. 0 keeps `samples_per_candidate` for ever."""
    threads: int = Field(default=1, ge=1)
    """CPU threads of the learner; with torchrun, of each of its processes."""


class SelfPlaySettings(_Part):
    """One self-play worker process."""

    lanes: int = Field(default=3, ge=1)
    """Coroutines, each with a block of games; while one waits for the network another searches."""
    slots: int = Field(default=256, ge=1)
    """Games in a block."""
    staleness: Literal["finish", "switch", "drop"] = "switch"
    """What a running game does when a new champion arrives: finish on its version, switch between moves, be dropped."""
    adoption_delay_s: float = Field(default=1.0, ge=0)
    """Upper bound of the random delay before a worker adopts a new champion, so that not all do so at once."""
    opening_plies: int = Field(default=0, ge=0)
    """Most uniformly random plies with which a game begins; how many, from 0 on, is drawn for each game. They are no samples:
    they lead to positions that the players' own moves no longer would."""
    resign_false_rate: float = Field(default=0.05, gt=0, lt=1)
    """Highest share of control games that would have been resigned and were not lost; calibrates the threshold."""


class GateSettings(_Part):
    """How a candidate becomes champion."""

    mode: Literal["off", "share", "sprt"] = "sprt"
    """`sprt`: a sequential test on pairs of games. `share`: a share of the points. `off`: every candidate becomes champion."""
    simulations: int = Field(default=64, ge=0)
    """Simulations of each move of a match; 0 plays by the policy alone."""
    opening_plies: int = Field(default=4, ge=0)
    """Random plies from which each group of games starts."""
    max_pairs: int = Field(default=100, ge=1)
    """Pairs after which the test ends undecided; the champion then stays, so that `alpha` holds."""
    share: float = Field(default=0.55, gt=0, lt=1)
    """Share of points that promotes in mode `share`."""
    elo0: float = -25.0
    """A candidate worth this much against the champion passes the sequential test with probability `alpha` at most."""
    elo1: float = 50.0
    """A candidate worth this much fails it with probability `beta`, and more often only where `max_pairs` ends it early.
    The closer the two, the longer a match: see docs/decisions/0005-gate-statistics.md."""
    alpha: float = Field(default=0.05, gt=0, lt=0.5)
    """Probability of promoting a candidate of strength `elo0`, at most."""
    beta: float = Field(default=0.05, gt=0, lt=0.5)
    """Probability of rejecting a candidate of strength `elo1`."""
    ladder_games: int = Field(default=20, ge=0)
    """Games of each new champion against each rung; 0 keeps no ladder."""
    rungs: tuple[str, ...] = ()
    """Classical players of the ladder, weakest first, such as `["random", "alpha_beta:3"]`; none named: those of the game."""
    ladder_depth: int = Field(default=5, ge=0)
    """Deepest search among the rungs of the game."""


class ModelSettings(_Part):
    """Which versions stay in the model store, besides champions of all times and candidates that wait for a decision."""

    keep: int = Field(default=100, ge=0)
    """Newest versions that stay, whatever became of them; 0 deletes nothing, ever."""
    keep_every: int = Field(default=0, ge=0)
    """Of older versions, those whose number is a multiple of this stay as history; 0 keeps none of them."""


class InferenceSettings(_Part):
    """The inference server."""

    threads: int = Field(default=1, ge=1)
    """CPU threads of the device thread."""
    max_batch: int = Field(default=256, ge=1)
    """Rows of a batch at most. A CPU gains little beyond a few hundred, a GPU wants thousands; requests of just this size,
    a block's leaves, waste least."""
    max_delay_us: int = Field(default=1000, ge=0)
    """Longest wait for a fuller batch."""


class Preset(_Part):
    """Numbers for every service."""

    name: str
    """Size of machine: tiny, laptop or gpu."""
    search: SearchSettings
    """Search of self-play."""
    network: NetworkSettings = NetworkSettings()
    """The network; a run keeps the one it began with."""
    train: TrainSettings = TrainSettings()
    """The learner."""
    selfplay: SelfPlaySettings = SelfPlaySettings()
    """One self-play worker process."""
    gate: GateSettings = GateSettings()
    """Matches of candidates, and the ladder of the champions."""
    models: ModelSettings = ModelSettings()
    """Versions that stay in the model store."""
    inference: InferenceSettings = InferenceSettings()
    """The inference server."""
    warm_start: WarmStartSettings = WarmStartSettings()
    """Games of agents before self-play."""
