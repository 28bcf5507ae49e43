"""Stages: the parts of an experiment that run and are kept one by one.

A stage is complete in itself: it runs as a process that reads it as JSON, and its result depends on it and on the preset that
it names alone, times excepted. `fingerprint` names it in results, so that a changed setting is not taken for the old one;
`preset_values` are kept beside it.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from zerofleet.presets.sarsa_lambda import SarsaLambdaSettings
from zerofleet.presets.td_lambda import TdLambdaSettings, view_fault
from zerofleet.search.afterstates.settings import AfterstateSettings

__all__ = [
    "CURRENT",
    "PREVIOUS",
    "AccuracyStage",
    "AlphaZeroStage",
    "BenchStage",
    "LearnerStage",
    "MatchStage",
    "Meeting",
    "SarsaStage",
    "Stage",
    "TdStage",
    "fingerprint",
    "read_stage",
]


CURRENT = "model=current"
"""Model of an agent in the meetings of an AlphaZero stage: the version judged."""
PREVIOUS = "previous"
"""Player in the meetings of an AlphaZero stage: the version before the one judged, searched by `simulations`."""
_LATER = ('"endgame":"values",', '"endgame_nodes":200,', '"tables":[],')
"""Later settings at their defaults, as they are in the JSON of a stage: each has others after it, hence the comma."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Meeting(_Frozen):
    """Games of one player on each of some seats against another, who has all other seats."""

    name: str
    subject: str = ""
    """Agent, with `model=1` for its network, in an AlphaZero stage `CURRENT`; empty: the network of such a stage, searched by
    `simulations`; or `PREVIOUS`."""
    opponent: str
    """Player of the other seats, likewise."""
    seats: tuple[Annotated[int, Field(ge=1)], ...] = (1,)
    """Seats of the subject, counted from 1."""
    games: int = Field(default=100, ge=1)
    """Games on each seat."""
    opening_plies: int = Field(default=0, ge=0)
    """Random plies before each game."""
    simulations: int = Field(default=0, ge=0)
    """Simulations per move of a network in play by itself."""
    search: str = ""
    """Options of that search, such as `temperature=1`."""
    tables: tuple[str, ...] = ()
    """Tables of behaviour of these games (`zerofleet behaviour`)."""
    subject_network: str = ""
    """Identifier of the stage that trained the subject's network; empty: this stage."""
    opponent_network: str = ""
    """The same for the opponent's network."""


class _OnGame(_Frozen):
    id: str
    """Identifier: experiment, arm and seed."""
    seed: int = Field(ge=0)
    game: str
    parameters: dict[str, str] = {}
    """Game parameters, as text."""
    meetings: tuple[Meeting, ...] = ()
    """Meetings at the end, and at each judgement where the stage trains."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Identifiers of the stages whose networks this one uses."""
        named = (name for meeting in self.meetings for name in (meeting.subject_network, meeting.opponent_network))
        return tuple(sorted({name for name in named if name}))


class MatchStage(_OnGame):
    """Meetings of agents, and of networks of earlier stages."""

    kind: Literal["match"] = "match"
    opponent_parameters: dict[str, str] | None = None
    """Parameters of the game as the opponent's network reads it, if it has another encoding."""


class _ValueStage(_OnGame):
    play: AfterstateSettings = AfterstateSettings()
    """Choice of moves in self-play."""
    opening_plies: int = Field(default=0, ge=0)
    """Most random plies before a game; openings that end a game are drawn again."""
    games: int = Field(ge=1)
    """Games of training."""
    judge_every: int = Field(default=0, ge=0)
    """Games between two judgements; 0: one, at the end."""
    block: int = Field(default=32, ge=1)
    """Games played side by side with the weights before the first of them; 1: an update after each game."""


class TdStage(_ValueStage):
    """Training by TD(lambda) in one process, and meetings of the network."""

    kind: Literal["td"] = "td"
    td: TdLambdaSettings = TdLambdaSettings()
    """Learner."""
    exploration_decay: float = Field(default=1.0, gt=0, le=1)
    """Factor of epsilon and temperature after each epoch (`td.epoch_games`)."""

    @model_validator(mode="after")
    def _views_are_trained(self) -> Self:
        if fault := view_fault(self.td, self.play.learner_seat):
            raise ValueError(fault)
        return self


class SarsaStage(_ValueStage):
    """Training by SARSA(lambda) in one process, and meetings of the linear evaluation."""

    kind: Literal["sarsa"] = "sarsa"
    sarsa: SarsaLambdaSettings = SarsaLambdaSettings()
    """Learner."""


class LearnerStage(_OnGame):
    """Training by any learner of play without a tree in one process, and meetings of its model at each judgement.

    The first `warm_start.games` games of the settings are played by their agents; in all others the model plays as a worker
    does, `selfplay.slots` games side by side, with the opponents of the settings.
    """

    kind: Literal["learner"] = "learner"
    preset: str = "laptop"
    settings: dict[str, str] = {}
    """Settings of the preset by dotted name, as text; `train.learner` names the learner."""
    games: int = Field(ge=1)
    """Games of training."""
    judge_every: int = Field(default=0, ge=0)
    """Games between two judgements; 0: one, at the end."""
    meet_at_end: bool = False
    """Whether meetings are played after the last game only; measures are taken at every judgement."""
    version_games: int = Field(default=50, ge=1)
    """Games between two versions in the records, which `afterstates.epsilon_versions` counts."""
    pool_network: str = ""
    """Identifier of the stage whose network selects the pool of the learner `combined`."""

    @property
    def needs(self) -> tuple[str, ...]:
        """See `MatchStage`; the network of the pool is one of them."""
        return tuple(sorted({*super().needs, *filter(None, (self.pool_network,))}))


class AlphaZeroStage(_OnGame):
    """Training by AlphaZero in one process, and meetings of the network at each judgement."""

    kind: Literal["alphazero"] = "alphazero"
    preset: str = "laptop"
    settings: dict[str, str] = {}
    """Settings of the preset by dotted name, as text."""
    tables: tuple[str, ...] = ()
    """Tables of behaviour of the newest games of self-play (`zerofleet behaviour`)."""
    samples: int = Field(ge=1)
    """Samples of training: with a budget in samples a repeated stage gives equal figures."""
    judge_every: int = Field(ge=1)
    """Samples between two judgements."""


class AccuracyStage(_OnGame):
    """Moves of an agent in positions that decide, against perfect play. Meetings have one side, the subject."""

    kind: Literal["accuracy"] = "accuracy"
    positions_seed: int = Field(default=1, ge=0)
    """Seed of the positions of stages with the seed 0; those of the seed s have the positions of this plus s."""


class BenchStage(_Frozen):
    """Benchmark of the command line with counts as its result."""

    kind: Literal["bench"] = "bench"
    id: str
    seed: int = Field(ge=0)
    words: tuple[str, ...]
    """Command line after `zerofleet`; it must print JSON."""

    @property
    def needs(self) -> tuple[str, ...]:
        """None: a benchmark uses no network."""
        return ()


Stage: TypeAlias = AccuracyStage | MatchStage | TdStage | SarsaStage | LearnerStage | AlphaZeroStage | BenchStage
_ANY: TypeAdapter[Stage] = TypeAdapter(Annotated[Stage, Field(discriminator="kind")])


def read_stage(fields: Any) -> Stage:
    """Return the stage of a mapping or of JSON text; raises pydantic's `ValidationError`."""
    return _ANY.validate_json(fields) if isinstance(fields, str | bytes) else _ANY.validate_python(fields)


def fingerprint(stage: Stage) -> str:
    """Return a hash of all settings of a stage. Later settings count where they are not the default, so that results of
    earlier versions stay valid."""
    fields = stage.model_dump_json()
    for later in _LATER:
        fields = fields.replace(later, "")
    return hashlib.sha256(fields.encode()).hexdigest()[:16]
