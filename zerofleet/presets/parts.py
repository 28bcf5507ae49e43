"""Parts of a preset: the settings of each service's work, with ranges and reasons."""

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
    """Network: trunk, policy head, value head and extra heads."""

    kind: Literal["residual", "perceptron"] = "residual"
    """Architecture. `residual`: a stem and `blocks` of two 3x3 convolutions, for boards. `perceptron`: dense layers, for flat
    encodings."""
    blocks: int = Field(default=2, ge=1, le=80)
    """Number of residual blocks in the trunk."""
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
    """Activation of a perceptron's layers; a residual network uses relu."""
    hex_kernels: bool = True
    """Whether 3x3 kernels on a hexagonal lattice cover only the six neighbours, without the two far corners."""
    policy_head: Literal["auto", "dense", "moves"] = "auto"
    """Policy head. `dense`: a weight per pair of feature and action. `moves`: an action is scored by its two cells, which
    needs `GameSpec.action_cells`. `auto`: moves if there are cells and more than 2,048 actions."""
    policy_activation: Literal["softmax", "sigmoid_norm", "sigmoid_raw"] = "softmax"
    """Policy activation. `sigmoid_norm`: sigmoids, renormalised over the legal actions. `sigmoid_raw`: for demonstration
    only: the loss uses the raw sigmoids, so that raising all of them minimises it."""
    heads: tuple[Literal["opponents", "plies_left"], ...] = ()
    """Extra heads: the opponents' choices of the same round, and the remaining share of the game."""

    @field_validator("heads")
    @classmethod
    def _distinct(cls, heads: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(heads)) < len(heads):
            raise ValueError(f"heads lists {', '.join(heads)}; each may occur once")
        return heads

    def describes(self, stored: Mapping[str, object]) -> bool:
        """Return whether a stored network dictionary equals these settings; keys missing in old ones have their defaults."""
        try:
            return NetworkSettings.model_validate(stored) == self
        except ValidationError:
            return False


class TrainSettings(_Part):
    """Learner. Samples are searched positions; a step trains on one batch of them."""

    batch_size: int = Field(default=256, ge=1)
    """Samples per step; with torchrun, of all processes together."""
    optimizer: Literal["adamw", "sgd"] = "adamw"
    """Optimiser: `adamw`, or `sgd` with `momentum`."""
    learning_rate: float = Field(default=2e-3, gt=0)
    """Learning rate after the warm-up."""
    warmup_steps: int = Field(default=100, ge=0)
    """Steps of linear warm-up of the learning rate from 0."""
    schedule: Literal["constant", "cosine"] = "constant"
    """Learning-rate schedule after the warm-up."""
    schedule_steps: int = Field(default=100_000, ge=1)
    """Steps until a cosine schedule reaches a tenth of `learning_rate`, where it stays."""
    weight_decay: float = Field(default=1e-4, ge=0)
    """Weight decay of matrices and kernels; biases and normalisations have none."""
    momentum: float = Field(default=0.9, ge=0, lt=1)
    """Nesterov momentum of `sgd`."""
    gradient_clip: float = Field(default=5.0, gt=0)
    """Maximum gradient norm."""
    value_weight: float = Field(default=1.0, ge=0)
    """Weight of the value loss relative to the policy loss."""
    policy_target: Literal["search", "counter"] = "search"
    """Policy target. `search`: the visits of the search. `counter`: the best response to the opponent's choice of the same
    round, in games decided by one simultaneous choice."""
    opponents_weight: float = Field(default=1.0, ge=0)
    """Weight of the loss of the head `opponents`, if the network has one."""
    plies_left_weight: float = Field(default=0.1, ge=0)
    """Weight of the loss of the head `plies_left`, if the network has one."""
    search_value_share: float = Field(default=0.0, ge=0, le=1)
    """Share of the root value of the search in the value target; the rest is the game's result."""
    average_decay: float = Field(default=0.998, ge=0, lt=1)
    """Decay per step of the weight average that becomes a candidate."""
    max_reuse: float = Field(default=4.0, gt=0)
    """Maximum mean number of times a sample is trained on; beyond it the learner waits for new games."""
    min_samples: int = Field(default=4_000, ge=1)
    """Samples required before the first step."""
    window_min: int = Field(default=20_000, ge=1)
    """c of the window rule: the window holds all samples until there are this many."""
    window_exponent: float = Field(default=0.75, gt=0, le=1)
    """alpha of the window rule N = c (1 + beta ((total / c)^alpha - 1) / alpha) (Wu 2019, appendix C)."""
    window_slope: float = Field(default=0.4, gt=0, le=1)
    """beta of the window rule."""
    window_max: int = Field(default=2_000_000, ge=1)
    """Maximum number of samples in memory."""
    samples_per_candidate: int = Field(default=20_000, ge=1)
    """Minimum number of new samples between two candidates."""
    candidate_growth: float = Field(default=0.1, ge=0)
    """Minimum relative growth of a run's samples between two candidates: progress is by orders of magnitude, and the match of
    a candidate with hardly more data than the champion is wasted. 0: only `samples_per_candidate` counts."""
    threads: int = Field(default=1, ge=1)
    """CPU threads of the learner; with torchrun, per process."""


class SelfPlaySettings(_Part):
    """One self-play worker process."""

    lanes: int = Field(default=3, ge=1)
    """Number of coroutines, each with a block of games; while one waits for the network another searches."""
    slots: int = Field(default=256, ge=1)
    """Games per block."""
    staleness: Literal["finish", "switch", "drop"] = "switch"
    """Treatment of running games when a new champion arrives: finish on their version, switch between moves, or drop."""
    adoption_delay_s: float = Field(default=1.0, ge=0)
    """Upper bound of the random delay before a worker adopts a new champion, so that workers do not adopt it in step."""
    opening_plies: int = Field(default=0, ge=0)
    """Maximum number of uniformly random opening plies; the number, from 0 on, is drawn per game. They are not samples: they
    reach positions that the players' own moves no longer would."""
    resign_false_rate: float = Field(default=0.05, gt=0, lt=1)
    """Maximum share of control games that would have been resigned but were not lost; calibrates the threshold."""


class GateSettings(_Part):
    """Gate: promotion of candidates, and the ladder of champions."""

    mode: Literal["off", "share", "sprt"] = "sprt"
    """Promotion rule. `sprt`: sequential test on pairs of games. `share`: share of points. `off`: promote every candidate."""
    simulations: int = Field(default=64, ge=0)
    """Simulations per move of a match; 0 plays the policy without search."""
    opening_plies: int = Field(default=4, ge=0)
    """Random opening plies of each group of games."""
    max_pairs: int = Field(default=100, ge=1)
    """Number of pairs after which the test ends undecided; the champion then stays, so that `alpha` holds."""
    share: float = Field(default=0.55, gt=0, lt=1)
    """Share of points required for promotion in mode `share`."""
    elo0: float = -25.0
    """Elo difference to the champion at which a candidate passes the sequential test with probability at most `alpha`."""
    elo1: float = 50.0
    """Elo difference at which a candidate fails the test with probability `beta`, more often only if `max_pairs` ends it
    early. The closer the two, the longer a match: see docs/decisions/0005-gate-statistics.md."""
    alpha: float = Field(default=0.05, gt=0, lt=0.5)
    """Maximum probability of promoting a candidate of strength `elo0`."""
    beta: float = Field(default=0.05, gt=0, lt=0.5)
    """Probability of rejecting a candidate of strength `elo1`."""
    ladder_games: int = Field(default=20, ge=0)
    """Games of each new champion against each rung; 0 disables the ladder."""
    rungs: tuple[str, ...] = ()
    """Classical players of the ladder, weakest first, such as `["random", "alpha_beta:3"]`; empty: those of the game."""
    ladder_depth: int = Field(default=5, ge=0)
    """Maximum search depth of the game's rungs."""


class ModelSettings(_Part):
    """Retention of versions in the model store, besides all former champions and undecided candidates."""

    keep: int = Field(default=100, ge=0)
    """Number of newest versions that are kept, whatever their verdict; 0 never deletes."""
    keep_every: int = Field(default=0, ge=0)
    """Older versions with multiples of this number are kept as history; 0 keeps none."""


class InferenceSettings(_Part):
    """Inference server."""

    threads: int = Field(default=1, ge=1)
    """CPU threads of the device thread."""
    max_batch: int = Field(default=256, ge=1)
    """Maximum rows per batch. A CPU gains little beyond a few hundred, a GPU needs thousands; requests of exactly this size,
    a block's leaves, waste least."""
    max_delay_us: int = Field(default=1000, ge=0)
    """Maximum wait for a fuller batch, in microseconds."""


class Preset(_Part):
    """Settings of every service for one machine size."""

    name: str
    """Machine size: tiny, laptop or gpu."""
    search: SearchSettings
    """Search of self-play."""
    network: NetworkSettings = NetworkSettings()
    """Network; fixed for the life of a run."""
    train: TrainSettings = TrainSettings()
    """Learner."""
    selfplay: SelfPlaySettings = SelfPlaySettings()
    """One self-play worker process."""
    gate: GateSettings = GateSettings()
    """Matches of candidates, and the ladder of the champions."""
    models: ModelSettings = ModelSettings()
    """Retention of versions in the model store."""
    inference: InferenceSettings = InferenceSettings()
    """Inference server."""
    warm_start: WarmStartSettings = WarmStartSettings()
    """Games of agents before self-play."""
