"""Parts of a preset: the settings of each service's work, with ranges and reasons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, ValidationError, field_validator, model_validator

from zerofleet.agents.model.search_options import SearchOptions, parse_search
from zerofleet.errors import InvalidRequest
from zerofleet.presets.combined import CombinedSettings
from zerofleet.presets.deep_q import DeepQSettings
from zerofleet.presets.outcome import OutcomeSettings
from zerofleet.presets.sarsa_lambda import SarsaLambdaSettings
from zerofleet.presets.serving import InferenceSettings, ModelSettings
from zerofleet.presets.td_lambda import TdLambdaSettings
from zerofleet.presets.warm_start import WarmStartSettings
from zerofleet.search.afterstates.settings import AfterstateSettings
from zerofleet.search.settings import SearchSettings

__all__ = [
    "MOST_PAIRS",
    "Q_KINDS",
    "GateSettings",
    "LearnerName",
    "NetworkSettings",
    "Preset",
    "SelfPlaySettings",
    "TrainSettings",
]

MOST_PAIRS = 1_000_000
"""Largest number of pairs of a match that the journal of a gate accepts."""

Q_KINDS = ("q_pool", "q_sa")
"""Kinds of network that value moves, without a policy head."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class NetworkSettings(_Part):
    """Network: trunk, policy head, value head and extra heads."""

    kind: Literal["residual", "convolutional", "perceptron", "q_pool", "q_sa"] = "residual"
    """Architecture. `residual`: a stem and `blocks` of two 3x3 convolutions, for boards. `convolutional`: the 3x3 convolutions
    of `convolutions`. `perceptron`: dense layers, for flat encodings. `q_pool`, `q_sa`: two small convolutions that give the
    values of `pool` moves, or of one move given by two more planes; for the learners `dqn` and `deep_sarsa`."""
    blocks: int = Field(default=2, ge=1, le=80)
    """Number of residual blocks in the trunk."""
    channels: int = Field(default=32, ge=1, le=1024)
    """Channels of the trunk."""
    global_pooling: int = Field(default=0, ge=0, le=1023)
    """Channels of each residual block whose mean and maximum over the board bias the other channels (Wu 2019, section 3.3);
    fewer than `channels`, 0: none."""
    squeeze: int = Field(default=0, ge=0, le=1024)
    """Width of the bottleneck of squeeze-and-excitation in each residual block (Hu et al. 2018); 0: none."""
    policy_channels: int = Field(default=8, ge=1, le=256)
    """Channels of the policy head."""
    value_channels: int = Field(default=8, ge=1, le=256)
    """Channels of the value head."""
    value_hidden: int = Field(default=64, ge=1, le=4096)
    """Width of the value head's dense layer."""
    hidden: tuple[Annotated[int, Field(ge=1, le=8192)], ...] = Field(default=(256, 128), min_length=1, max_length=16)
    """Widths of a perceptron's layers."""
    convolutions: tuple[Literal["same", "valid"], ...] = Field(default=("same", "same", "valid", "valid"), min_length=1)
    """Paddings of a convolutional trunk, one per convolution: `same` keeps the size of the board, `valid` takes a row and a
    column at each side."""
    dense: tuple[Annotated[int, Field(ge=1, le=8192)], ...] = Field(default=(), max_length=16)
    """Widths of dense layers between a trunk with a board and its heads, which are then one linear layer each."""
    activation: Literal["relu", "tanh", "sigmoid"] = "relu"
    """Activation of a perceptron's layers, and of `dense`; convolutions have relu."""
    normalisation: Literal["none", "batch", "layer"] = "none"
    """Normalisation of each of a perceptron's layers, and of `dense`: batch norm or layer norm."""
    normalise: Literal["before", "after"] = "before"
    """Place of that normalisation: before or after the activation."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Share of each such layer's outputs that training sets to 0; exports have no dropout."""
    initial_weights: Literal["torch", "small", "normal", "fan_in", "glorot"] = "torch"
    """Initial weights of dense layers. `torch`: uniform within 1/sqrt(inputs), biases too. `small`: normal, standard deviation
    0.05. `normal`: N(0, 1), biases too. `fan_in`: N(0, 1/inputs), biases N(0, 1). `glorot`: uniform (Glorot and Bengio 2010).
    Biases of `small` and `glorot` are 0."""
    convolution_bias: bool = False
    """Whether the stem of a residual tower and the convolutions of its heads have a bias, which the norms behind them make
    redundant."""
    hex_kernels: bool = True
    """Whether 3x3 kernels on a hexagonal lattice cover only the six neighbours, without the two far corners."""
    policy_head: Literal["auto", "dense", "moves", "none"] = "auto"
    """Policy head. `dense`: a weight per pair of feature and action. `moves`: an action is scored by its two cells, which
    needs `GameSpec.action_cells`. `auto`: moves if there are cells and more than 2,048 actions. `none`: all legal actions are
    equally likely."""
    value_output: Literal["players", "mover", "win_probability", "win_or_loss", "points", "none"] = "players"
    """Output of the value head. `players`: one tanh per player. `mover`: one tanh for the player to move, of two.
    `win_probability`: one sigmoid, their probability of winning. `win_or_loss`: the same as a softmax over two outputs.
    `points`: one relu per player, from 0 to 3 points. `none`: no value."""
    q_channels: tuple[Annotated[int, Field(ge=1, le=1024)], Annotated[int, Field(ge=1, le=1024)]] = (16, 32)
    """Channels of the two convolutions of `q_pool` and `q_sa`."""
    q_padding: Literal["same", "valid"] = "same"
    """Padding of these convolutions. `valid`: without, so that the last rows and columns of a board are not seen."""
    pool: int = Field(default=6, ge=1, le=256)
    """Number of moves that `q_pool` values, and among which players with either choose."""
    policy_activation: Literal["softmax", "sigmoid_norm", "sigmoid_raw"] = "softmax"
    """Policy activation. `sigmoid_norm`: sigmoids, renormalised over the legal actions. `sigmoid_raw`: for demonstration
    only: the loss uses the raw sigmoids, so that raising all of them minimises it."""
    heads: tuple[Literal["opponents", "plies_left", "reply"], ...] = ()
    """Extra heads: the opponents' choices of the same round, the remaining share of the game, and the next player's move.
    `reply` (Wu 2019) needs perfect information; it is a target of training alone and is not served."""

    @field_validator("heads")
    @classmethod
    def _distinct(cls, heads: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(heads)) < len(heads):
            raise ValueError(f"heads lists {', '.join(heads)}; each may occur once")
        return heads

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        if self.global_pooling >= self.channels:
            raise ValueError(f"global_pooling {self.global_pooling} leaves none of {self.channels} channels; want fewer")
        if self.kind == "perceptron" and self.dense:
            raise ValueError(f"dense={list(self.dense)} follows a trunk with a board; set hidden for a perceptron")
        if self.policy_head == "none" and self.value_output == "none":
            raise ValueError("policy_head and value_output are both none; a network needs an output")
        if not (self.kind == "perceptron" or self.dense) and (self.dropout or self.normalisation != "none"):
            raise ValueError(
                f"dropout={self.dropout} and normalisation={self.normalisation} are of dense layers, of which "
                f"kind={self.kind} has none; set dense, or kind=perceptron"
            )
        return self

    def describes(self, stored: Mapping[str, object]) -> bool:
        """Return whether a stored network dictionary equals these settings; keys missing in old ones have their defaults."""
        try:
            return NetworkSettings.model_validate(stored) == self
        except ValidationError:
            return False


LearnerName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
"""Name of a learner; `zerofleet.presets.learners` knows those that exist."""


class TrainSettings(_Part):
    """Learner. Samples are searched positions; a step trains on one batch of them."""

    learner: LearnerName = "alphazero"
    """Learner of the run; fixed for its life. `alphazero`: policy and value of one network, from searched positions, with the
    settings of this part. Every other has a part of its own, and uses `threads` and `max_staleness` of this one: `td_lambda`,
    `sarsa_lambda`, `outcome`; `dqn` and `deep_sarsa` the part `deep_q`, `combined` that and its own; and learners of other
    packages (docs/learners.md)."""
    batch_size: int = Field(default=256, ge=1)
    """Samples per step; with torchrun, of all processes together."""
    optimizer: Literal["adamw", "sgd"] = "adamw"
    """Optimiser: `adamw`, or `sgd` with `momentum`."""
    learning_rate: float = Field(default=2e-3, gt=0)
    """Learning rate after the warm-up."""
    warmup_steps: int = Field(default=100, ge=0)
    """Steps of linear warm-up of the learning rate from 0."""
    schedule: Literal["constant", "cosine", "linear"] = "constant"
    """Learning-rate schedule after the warm-up: `constant`, or a fall to `schedule_floor`."""
    schedule_over: Literal["steps", "plan"] = "steps"
    """Duration of the fall. `steps`: `schedule_steps`. `plan`: the planned time of the run (`zerofleet run --for`); without one
    the rate stays. A resumed run continues at the share of its time, earlier sessions included, that has passed."""
    schedule_steps: int = Field(default=100_000, ge=1)
    """Steps until a schedule over `steps` has fallen to `schedule_floor`, where it stays."""
    schedule_floor: float = Field(default=0.1, ge=0, le=1)
    """Share of `learning_rate` at the end of the fall."""
    weight_decay: float = Field(default=1e-4, ge=0)
    """Weight decay of matrices and kernels; biases and normalisations have none."""
    momentum: float = Field(default=0.9, ge=0, lt=1)
    """Nesterov momentum of `sgd`."""
    gradient_clip: float = Field(default=5.0, gt=0)
    """Maximum gradient norm."""
    value_weight: float = Field(default=1.0, ge=0)
    """Weight of the value loss relative to the policy loss."""
    policy_over: Literal["legal", "all"] = "legal"
    """Actions over which the policy loss normalises. `legal`: illegal ones are masked and get no gradient. `all`: nothing is
    masked, so the network learns to avoid illegal actions, and the probability left on them is measured. Served policies are
    normalised over the legal ones in either case."""
    policy_target: Literal["search", "counter"] = "search"
    """Policy target. `search`: the visits of the search. `counter`: the best response to the opponent's choice of the same
    round, in games decided by one simultaneous choice."""
    opponents_weight: float = Field(default=1.0, ge=0)
    """Weight of the loss of the head `opponents`, if the network has one."""
    plies_left_weight: float = Field(default=0.1, ge=0)
    """Weight of the loss of the head `plies_left`, if the network has one."""
    reply_weight: float = Field(default=0.15, ge=0)
    """Weight of the loss of the head `reply`, if the network has one; 0.15 as in Wu 2019."""
    search_value_share: float = Field(default=0.0, ge=0, le=1)
    """Share of the searched value in the value target; the rest is the game's result."""
    search_value: Literal["root", "n_step", "lambda"] = "root"
    """Searched value of a position. `root`: its own root value. `n_step`: the root value `search_value_steps` searched moves
    later. `lambda`: the mean of its own and all later root values and the result, with weights that fall by
    `search_value_lambda` from one to the next (TD(lambda))."""
    search_value_steps: int = Field(default=4, ge=0)
    """Searched moves from a position to its `n_step` value; the result where the game ends sooner. 0 is `root`."""
    search_value_lambda: float = Field(default=0.8, ge=0, le=1)
    """Decay of the weights of a `lambda` value. 0 is `root`, 1 the result."""
    quick_win: float = Field(default=0.0, ge=0, lt=1)
    """Preference for quick wins and late losses: c of the target z (1 - c plies_left / max_plies), where z is the result. Root
    values of later moves are reduced likewise for the plies between. Values of won and lost positions are then closer to 0, so
    a resignation threshold acts later, and analyses show less than the expected score."""
    reduced_weight: float = Field(default=0.25, ge=0, le=1)
    """Weight of samples from reduced searches, by which self-play continues decided games; 0 leaves them out."""
    merge_equal: Literal["off", "constant", "log", "linear"] = "off"
    """Merging of the n equal positions of a batch into one with their mean targets, by the weight of the result: `constant` 1,
    `log` 1 + log2 n, `linear` n. A merged batch has fewer positions."""
    surprise_share: float = Field(default=0.0, ge=0, le=1)
    """Share of a batch's weight that its positions receive in proportion to their surprise, the Kullback-Leibler divergence of
    the policy target from the policy of the network in training. Wu (2019) weighs by the prior of self-play, which records
    do not hold."""
    average_decay: float = Field(default=0.998, ge=0, lt=1)
    """Decay per step of the weight average that becomes a candidate."""
    max_reuse: float = Field(default=4.0, gt=0)
    """Maximum mean number of times a sample is trained on; beyond it the learner waits for new games."""
    min_samples: int = Field(default=4_000, ge=1)
    """Samples received before the first step; a smaller `window_max` holds the newest of them."""
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
    max_staleness: int = Field(default=0, ge=0)
    """Most versions by which a game's model may lag behind the newest. Later games are refused, and counted as `stale_model`;
    those of the champion never are. 0: no such bound."""
    threads: int = Field(default=1, ge=1)
    """CPU threads of the learner; with torchrun, per process."""
    convolutions: Literal["auto", "torch"] = "auto"
    """Code of a residual tower's 3x3 convolutions and norms in training on a CPU. `auto`: the compiled kernel if the processor
    has AVX2 and the network fits, else torch. `torch`: always torch. The choice changes the last digits of a step."""


class SelfPlaySettings(_Part):
    """One self-play worker process."""

    lanes: int = Field(default=3, ge=1)
    """Number of coroutines, each with a block of games; while one waits for the network another searches."""
    slots: int = Field(default=256, ge=1)
    """Games per block."""
    mode: Literal["search", "afterstates", "action_values"] = "search"
    """Choice of moves. `search`: by a tree search, with the settings of the part `search`. `afterstates`: by the values of the
    positions after each move, with those of the part `afterstates`; for games of two players and perfect information.
    `action_values`: by a model's values of the moves of its pool, with those of the same part, for the same games."""
    staleness: Literal["finish", "switch", "drop"] = "switch"
    """Treatment of running games when a new champion arrives: finish on their version, switch between moves, or drop."""
    sync: bool = False
    """Whether one game of `afterstates` and its update alternate: the worker plays one game with each version, and the next
    with the version that learned from it, so that the weights follow from the seed alone. For one worker, and for learners
    that publish after every game; far slower than games side by side."""
    exploration_decay: float = Field(default=1.0, gt=0, le=1)
    """Factor of `afterstates.temperature` and `afterstates.epsilon` after each epoch of `exploration_epoch_games` games of the
    run; 1: constant. Below 1 the worker reads the games that a version was trained on from the model store."""
    exploration_epoch_games: int = Field(default=10_000, ge=1)
    """Games of such an epoch."""
    adoption_delay_s: float = Field(default=1.0, ge=0)
    """Upper bound of the random delay before a worker adopts a new champion, so that workers do not adopt it in step."""
    opening_plies: int = Field(default=0, ge=0)
    """Maximum number of uniformly random opening plies; the number, from 0 on, is drawn per game. They are not samples: they
    reach positions that the players' own moves no longer would. For games with none of the openings below."""
    decided_openings: Literal["cut", "redraw"] = "cut"
    """Treatment of such an opening that ends the game. `cut`: without its last ply. `redraw`: drawn again, plies and number."""
    deep_opening_share: float = Field(default=0.0, ge=0, le=1)
    """Share of games with a deep opening: uniformly random plies, `deep_opening_plies` in number."""
    deep_opening_plies: tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]] = (5, 16)
    """Fewest and most plies of deep and balanced openings, drawn per game. Lines that end the game are redrawn."""
    balanced_opening_share: float = Field(default=0.0, ge=0, le=1)
    """Share of games that begin with one of `balanced_opening_choices` deep openings, preferably one that the network considers
    equal; one evaluation each. For games of perfect information."""
    balanced_opening_choices: int = Field(default=8, ge=1, le=256)
    """Deep openings among which a balanced opening is chosen."""
    balanced_opening_sharpness: float = Field(default=4.0, ge=0)
    """k of the probability of a balanced opening, proportional to exp(-k |value|); 0: all are equally likely."""
    forked_opening_share: float = Field(default=0.0, ge=0, le=1)
    """Share of games forked from a recently finished game of the worker: its moves up to a random position, then another move
    (Wu 2019, appendix D). Until a game has finished such games have a uniform opening. For games of perfect information."""
    forked_opening_games: int = Field(default=1_000, ge=1)
    """Number of latest games that can be forked, per worker."""
    forked_opening_choices: int = Field(default=1, ge=1, le=256)
    """Random moves among which the one with the best evaluation is played at a fork (Wu 2019: 3 to 10); 1: no evaluation."""
    resign_false_rate: float = Field(default=0.05, gt=0, lt=1)
    """Maximum share of control games that would have been resigned but were not lost; calibrates the threshold."""

    @model_validator(mode="after")
    def _openings_are_consistent(self) -> Self:
        shares = {name: getattr(self, f"{name}_opening_share") for name in ("deep", "balanced", "forked")}
        if sum(shares.values()) > 1.0 + 1e-9:
            listed = ", ".join(f"{name}_opening_share={share}" for name, share in shares.items())
            raise ValueError(f"{listed} sum to more than 1; the rest of the games has an opening of up to opening_plies plies")
        if self.deep_opening_plies[0] > self.deep_opening_plies[1]:
            raise ValueError(f"deep_opening_plies={list(self.deep_opening_plies)}: want the fewest first, then the most")
        return self


class GateSettings(_Part):
    """Gate: promotion of candidates, and the ladder of champions."""

    mode: Literal["off", "share", "sprt", "watch"] = "sprt"
    """Promotion rule. `sprt`: sequential test on pairs of games. `share`: share of points. `watch`: promote every candidate at
    once, measure it afterwards, roll back when the test finds it weaker. `off`: promote every candidate."""
    simulations: int = Field(default=64, ge=0)
    """Simulations per move of a match; 0 plays the policy without search."""
    leaves_per_game: int = Field(default=4, ge=1, le=64)
    """Leaves of one game in a request of a match. A match is a chain of requests: with several leaves it is shorter and its
    requests are larger, at the price of searches with virtual loss, for both players. Games with hidden information use 1."""
    search: str = ""
    """Other settings of the search in matches and on the ladder, as options of the agent `mcts`, such as
    `information=predict,u=literal`; empty: those of every match."""
    opening_plies: int = Field(default=4, ge=0)
    """Random opening plies of each group of games."""
    max_pairs: int = Field(default=100, ge=1, le=MOST_PAIRS)
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
    watch_share: float = Field(default=0.04, gt=0, le=1)
    """Maximum share of all evaluations, or of the time, that mode `watch` spends on its measurements."""
    watch_of: Literal["evaluations", "time"] = "evaluations"
    """Whole of that share. `evaluations`: of those that the inference servers report. `time`: for self-play that evaluates in
    the worker's process, which the servers do not see."""
    watch_elo0: float = -75.0
    """Elo difference to the last confirmed champion at which mode `watch` keeps a version with probability at most `alpha`,
    more often only if `max_pairs` ends its measurement early."""
    watch_elo1: float = 0.0
    """Elo difference at which mode `watch` rolls a version back with probability at most `beta`."""
    ladder_games: int = Field(default=20, ge=0, le=MOST_PAIRS)
    """Games of each new champion against each rung, rounded up to whole groups: two games with two seats, six with three; 0
    disables the ladder."""
    rungs: tuple[str, ...] = ()
    """Classical players of the ladder, weakest first, such as `["random", "alpha_beta:3"]`; empty: those of the game."""
    ladder_depth: int = Field(default=5, ge=0)
    """Maximum search depth of the game's rungs."""

    @field_validator("search")
    @classmethod
    def _readable(cls, search: str) -> str:
        try:
            return str(parse_search(search))
        except InvalidRequest as error:
            raise ValueError(str(error)) from error

    @property
    def search_options(self) -> SearchOptions:
        """Options of `search`."""
        return parse_search(self.search)


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
    td_lambda: TdLambdaSettings = TdLambdaSettings()
    """Learner `td_lambda`, where `train.learner` names it."""
    sarsa_lambda: SarsaLambdaSettings = SarsaLambdaSettings()
    """Learner `sarsa_lambda`, where `train.learner` names it."""
    deep_q: DeepQSettings = DeepQSettings()
    """Learners `dqn` and `deep_sarsa`, where `train.learner` names one of them."""
    outcome: OutcomeSettings = OutcomeSettings()
    """Learner `outcome`, where `train.learner` names it."""
    combined: CombinedSettings = CombinedSettings()
    """Pool of the learner `combined`, where `train.learner` names it."""
    own_learner: SerializeAsAny[BaseModel] | None = None
    """Settings of a learner of another package, where `train.learner` names one; in files and on command lines they have the
    name of the learner."""
    afterstates: AfterstateSettings = AfterstateSettings()
    """Self-play without a tree, where `selfplay.mode` is `afterstates` or `action_values`."""
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
