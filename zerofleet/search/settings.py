"""Settings of the search, each with its source."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from games.core import GameSpec

__all__ = ["SearchSettings", "default_simulations"]

DEFAULT_SIMULATIONS = 100


def default_simulations(spec: GameSpec) -> int:
    """Return the simulations of a move where none are given: none where choices are simultaneous and could be guessed."""
    return 0 if spec.information == "simultaneous" else DEFAULT_SIMULATIONS


LEAVES_AT_ONCE = 8


class SearchSettings(BaseModel):
    """How one move is searched and chosen. The defaults suit self-play; see `for_play`, `for_analysis`, `for_match`."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    simulations: int = Field(default=100, ge=0, le=100_000)
    """Visits of the root's children before a move is chosen; visits of a reused subtree count. 0: no search, the move is drawn
    from the policy as `temperature` says, and the policy is the target."""
    fast_simulations: int = Field(default=20, ge=0, le=100_000)
    """Visits of a move that is not searched in full. Such a move is played without Dirichlet noise and is no policy target;
    a Gumbel root still draws its variates, which are how it samples a move."""
    full_search_share: float = Field(default=1.0, gt=0.0, le=1.0)
    """Share of moves searched in full: playout-cap randomisation (Wu 2019, section 3.1). 1 turns it off."""

    root_policy: Literal["puct", "gumbel"] = "puct"
    """`puct`: AlphaZero's. `gumbel`: Gumbel-top-k with sequential halving (Danihelka et al. 2022), for small budgets."""
    puct_init: float = Field(default=1.25, gt=0.0)
    """c_1 of PUCT (Silver et al. 2018, pseudocode)."""
    puct_base: float = Field(default=19652.0, gt=0.0)
    """c_2 of PUCT (Silver et al. 2018, pseudocode)."""
    fpu_reduction: float = Field(default=0.25, ge=0.0)
    """First-play urgency: an unvisited child is worth its parent's mean less this times the square root of the prior
    mass already visited (Leela Zero; Wu 2019)."""

    dirichlet_alpha: float = Field(default=0.0, ge=0.0)
    """Concentration of the root noise of a full search; 0 takes 10 / (number of legal moves) (AlphaZero's scaling)."""
    dirichlet_fraction: float = Field(default=0.25, ge=0.0, le=1.0)
    """Weight of the noise in the root prior; 0 turns it off (Silver et al. 2018)."""

    temperature: float = Field(default=1.0, ge=0.0)
    """Exponent 1/temperature on visits at the first move; 0 plays the most visited move."""
    temperature_end: float = Field(default=0.0, ge=0.0)
    """Temperature from `temperature_plies` on; in between it falls linearly."""
    temperature_plies: int = Field(default=30, ge=0)
    """Plies until `temperature_end` is reached (AlphaGo Zero used a step at 30)."""

    forced_playouts: float = Field(default=0.0, ge=0.0)
    """k of the forced playouts sqrt(k * prior * visits) of root children under noise; 0 turns it off (Wu 2019, 3.2)."""
    prune_targets: bool = True
    """Take forced playouts out of the policy target again (Wu 2019, 3.2)."""

    gumbel_considered: int = Field(default=16, ge=1)
    """Most root actions that sequential halving starts with (Danihelka et al. 2022)."""
    gumbel_visit_offset: float = Field(default=50.0, ge=0.0)
    """c_visit of sigma(q) = (c_visit + max visits) * c_scale * q (Danihelka et al. 2022, equation 8)."""
    gumbel_value_scale: float = Field(default=1.0, gt=0.0)
    """c_scale of the same, for q scaled to [0, 1]."""
    gumbel_noise: bool = True
    """Sample the root's Gumbel variates; without them the choice is greedy."""

    leaves_per_game: int = Field(default=1, ge=1, le=64)
    """Leaves of one game that may wait for the network at once; more than 1 uses virtual loss."""
    virtual_loss: float = Field(default=1.0, ge=0.0)
    """Losses assumed on a path whose leaf is still being evaluated (Segal 2010)."""
    reuse_subtree: bool = True
    """Keep the part of the tree below the move that was played."""
    repetition: Literal["off", "path", "history"] = "off"
    """What the search makes of a position that recurs, in games where one can: `path`: on the way from the root it is worth
    the scores as they stand (`games.core.standing`), and the search goes no further; `history`: so is one that the game has
    passed already. Without it a search runs in circles whose statistics mean nothing (Schulte 2021, loop cutting). `path`
    keeps no subtree: what was on the way is behind the new root."""
    information: Literal["open", "predict", "determinise"] = "open"
    """How games with hidden hands or simultaneous moves are searched. `determinise`: each simulation in a deal of its own that
    the player cannot rule out, the others moved by their own policy (Cowling et al. 2012). `predict`: the others play what the
    model's extra head `opponents` says. In both the tree holds one player's decisions; neither keeps a subtree, caches
    evaluations, or asks for several leaves of a game at once. `open` is for games without secrets, and for no search."""
    cache_positions: int = Field(default=0, ge=0, le=1 << 24)
    """Entries of the block's evaluation cache, rounded up to a power of two; 0 turns it off."""

    resign_threshold: float = Field(default=-1.0, ge=-1.0, le=1.0)
    """Resign when neither the root's value nor the best child's exceeds this for the mover; -1 never resigns."""
    resign_control_share: float = Field(default=0.1, ge=0.0, le=1.0)
    """Share of games played out whatever the values, to measure false resignations (Silver et al. 2017)."""

    @model_validator(mode="after")
    def _fast_is_not_slower(self) -> Self:
        if self.full_search_share < 1.0 and self.fast_simulations > self.simulations:
            raise ValueError(
                f"fast_simulations={self.fast_simulations} exceeds simulations={self.simulations}; "
                "a fast search must be the smaller one, or set full_search_share=1"
            )
        return self

    @model_validator(mode="after")
    def _halving_has_visits_to_share(self) -> Self:
        if self.root_policy == "gumbel" and self.simulations == 0:
            raise ValueError("root_policy=gumbel needs simulations of 1 and up; without a search set root_policy=puct")
        return self

    @model_validator(mode="after")
    def _secrets_are_searched_one_leaf_at_a_time(self) -> Self:
        if self.information != "open" and (self.leaves_per_game > 1 or self.repetition != "off"):
            raise ValueError(
                f"information={self.information} needs leaves_per_game=1 and repetition=off; "
                f"got leaves_per_game={self.leaves_per_game} and repetition={self.repetition}"
            )
        return self

    @property
    def node_capacity(self) -> int:
        """Nodes a tree can reach: one a visit, and those of leaves in flight."""
        return max(self.simulations, self.fast_simulations) + self.leaves_per_game + 1

    @classmethod
    def for_play(cls, spec: GameSpec, simulations: int = 100) -> SearchSettings:
        """Return settings of a strong, deterministic player of a game: no noise, the most visited move."""
        hides = spec.information != "perfect"
        return cls(
            information="determinise" if hides else "open",
            repetition="path" if spec.repeats and not hides else "off",
            simulations=simulations,
            dirichlet_fraction=0.0,
            temperature=0.0,
            temperature_plies=0,
            gumbel_noise=False,
            resign_threshold=-1.0,
        )

    @classmethod
    def for_analysis(cls, spec: GameSpec, simulations: int) -> SearchSettings:
        """Return settings for one position on its own: as for play, with several leaves in flight where that is allowed.

        With one leaf at a time each request would carry one position; a few more cost little strength.
        """
        leaves = max(1, min(LEAVES_AT_ONCE, simulations // LEAVES_AT_ONCE)) if spec.information == "perfect" else 1
        return cls.for_play(spec, simulations).model_copy(update={"leaves_per_game": leaves})

    @classmethod
    def for_match(cls, spec: GameSpec, simulations: int = 100) -> SearchSettings:
        """Return settings of a match between two players in one block: as for play, and each move's tree is its own."""
        return cls.for_play(spec, simulations).model_copy(update={"reuse_subtree": False})
