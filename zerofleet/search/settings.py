"""Settings of the search, with sources."""

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
    """Settings of the search and choice of a move. Defaults are for self-play; see `for_play`, `for_analysis`, `for_match`."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    simulations: int = Field(default=100, ge=0, le=100_000)
    """Visits of the root's children per move, including those of a reused subtree. 0: no search, the move is sampled from the
    policy with `temperature`, and the policy is the target."""
    fast_simulations: int = Field(default=20, ge=0, le=100_000)
    """Visits of a fast search. Its move is played without Dirichlet noise and is no policy target; a Gumbel root still samples
    its variates, which select the move."""
    full_search_share: float = Field(default=1.0, gt=0.0, le=1.0)
    """Share of moves with a full search: playout-cap randomisation (Wu 2019, section 3.1). 1 turns it off."""

    root_policy: Literal["puct", "gumbel"] = "puct"
    """`puct`: as in AlphaZero. `gumbel`: Gumbel-top-k with sequential halving (Danihelka et al. 2022), for small budgets."""
    exploration: Literal["puct", "literal"] = "puct"
    """Exploration term of a child with prior P and n visits at a node with N. `puct`: c(N) P sqrt(N) / (1 + n), with
    first-play urgency. `literal`: P / (1 + n), without c and sqrt(N), and value 0 for an unvisited child (P. Truckenbrod,
    "Comparing the viability of AlphaZero in games with perfect, imperfect, and no information", 2020, chapter 2)."""
    puct_init: float = Field(default=1.25, gt=0.0)
    """c_1 of PUCT (Silver et al. 2018, pseudocode), for values in [-1, 1]. AlphaZero's values lie in [0, 1], where its 1.25
    explores as much as 2.5 does here."""
    puct_base: float = Field(default=19652.0, gt=0.0)
    """c_2 of PUCT (Silver et al. 2018, pseudocode)."""
    fpu_reduction: float = Field(default=0.25, ge=0.0)
    """First-play urgency: an unvisited child has its parent's mean value minus this times the square root of the visited
    prior mass (Leela Zero; Wu 2019)."""

    prove_values: bool = True
    """Back up proven values (`zerofleet.search.proof`): wins and losses found at the end of the game or by the rules one or two
    moves ahead are never searched again; a search ends once its move is decided, and the policy target and the root value hold
    what is proven. Has no effect on searches with hidden information."""

    prove_replies: bool = False
    """Also rule out, at every new leaf, the moves that lose to a win in one, before its evaluation; a leaf without another move
    is proven lost. For two players, in games with the rule `may_end`, where values are proven. A search takes up to 1.6 times
    as long without its evaluations and sees two plies further: matches and analyses have it. In self-play it keeps the policy
    from the positions that blunders lead to (docs/results/root_at_play.md)."""

    dirichlet_alpha: float = Field(default=0.0, ge=0.0)
    """Concentration of the root noise of a full search; 0: 10 / (number of legal moves) (AlphaZero's scaling)."""
    dirichlet_fraction: float = Field(default=0.25, ge=0.0, le=1.0)
    """Weight of the noise in the root prior; 0 turns it off (Silver et al. 2018)."""

    temperature: float = Field(default=1.0, ge=0.0)
    """Exponent 1/temperature on visits at the first move; 0 plays the most visited move. A Gumbel root has a temperature only
    with `gumbel_sampling`."""
    temperature_end: float = Field(default=0.0, ge=0.0)
    """Temperature from `temperature_plies` on; linear in between."""
    temperature_plies: int = Field(default=30, ge=0)
    """Plies until `temperature_end` is reached (AlphaGo Zero used a step at 30)."""

    forced_playouts: float = Field(default=0.0, ge=0.0)
    """k of the forced playouts sqrt(k * prior * visits) of root children under noise; 0 turns it off (Wu 2019, 3.2)."""
    prune_targets: bool = True
    """Prune forced playouts from the policy target (Wu 2019, 3.2)."""

    gumbel_considered: int = Field(default=16, ge=1)
    """Maximal number of root actions at the start of sequential halving (Danihelka et al. 2022)."""
    gumbel_visit_offset: float = Field(default=50.0, ge=0.0)
    """c_visit of sigma(q) = (c_visit + max visits) * c_scale * q (Danihelka et al. 2022, equation 8)."""
    gumbel_value_scale: float = Field(default=1.0, gt=0.0)
    """c_scale of sigma, for q scaled to [0, 1]."""
    gumbel_noise: bool = True
    """Sample the root's Gumbel variates; without them the choice is greedy."""
    gumbel_sampling: bool = False
    """Sample the moves of a Gumbel root from the improved policy with the temperature of the ply, while that is above 0, for
    varied openings. Otherwise the winner of sequential halving is played."""

    leaves_per_game: int = Field(default=1, ge=1, le=64)
    """Maximal number of pending leaves per game; more than 1 uses virtual loss."""
    virtual_loss: float = Field(default=1.0, ge=0.0)
    """Number of losses assumed on the path to a pending leaf (Segal 2010)."""
    reuse_subtree: bool = True
    """Keep the subtree below the played move. Has no effect with a Gumbel root, whose halving begins without visits."""
    repetition: Literal["off", "path", "history"] = "off"
    """Treatment of recurring positions, in games that have them. `path`: a position that recurs on the path from the root is a
    leaf with its current scores (`games.core.standing`); `history`: also one that occurred earlier in the game. `off`: cycles
    in the tree distort its statistics (Schulte 2021, loop cutting). `path` keeps no subtree, since the cut paths began at the
    old root."""
    information: Literal["open", "predict", "determinise"] = "open"
    """Search mode of games with hidden hands or simultaneous moves. `determinise`: each simulation samples a determinisation
    consistent with the player's view, opponents move by their own policies (Cowling et al. 2012). `predict`: opponents play the
    predictions of the model's extra head `opponents`. In both the tree holds one player's decisions; neither keeps a subtree,
    caches evaluations, or has several pending leaves per game. `open`: for games of perfect information, or for no search."""
    cache_positions: int = Field(default=0, ge=0, le=1 << 24)
    """Entries of the block's evaluation cache, rounded up to a power of two; 0 turns it off."""

    resign_threshold: float = Field(default=-1.0, ge=-1.0, le=1.0)
    """Resign if neither the root's value nor the best child's exceeds this for the mover; -1: never."""
    resignation: Literal["end", "soft"] = "end"
    """Effect of a resignation. `end`: the game is over, and the player has lost. `soft`: it is played on to its result with
    `fast_simulations` per move and without Dirichlet noise; a move is a policy target as often as before and is marked as
    reduced, so that the trainer can weight it less (after Wu 2019, appendix D)."""
    resign_control_share: float = Field(default=0.1, ge=0.0, le=1.0)
    """Share of games played without resignation, to measure false resignations (Silver et al. 2017)."""

    @model_validator(mode="after")
    def _fast_is_not_slower(self) -> Self:
        is_used = self.full_search_share < 1.0 or self.resignation == "soft"
        if is_used and self.fast_simulations > self.simulations:
            raise ValueError(
                f"fast_simulations={self.fast_simulations} exceeds simulations={self.simulations}; "
                "reduce fast_simulations, or set full_search_share=1 and resignation=end"
            )
        return self

    @model_validator(mode="after")
    def _halving_has_visits_to_share(self) -> Self:
        if self.root_policy == "gumbel" and self.simulations == 0:
            raise ValueError("root_policy=gumbel needs simulations of at least 1; without a search set root_policy=puct")
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
        """Maximal number of nodes of a tree: one per visit, plus pending leaves."""
        return max(self.simulations, self.fast_simulations) + self.leaves_per_game + 1

    @classmethod
    def for_play(cls, spec: GameSpec, simulations: int = 100) -> SearchSettings:
        """Return settings for strong, deterministic play that may be interrupted: no noise, the most visited move."""
        hides = spec.information != "perfect"
        return cls(
            information="determinise" if hides else "open",
            repetition="path" if spec.repeats and not hides else "off",
            simulations=simulations,
            dirichlet_fraction=0.0,
            temperature=0.0,
            temperature_plies=0,
            gumbel_noise=False,
            prove_replies=True,
            resign_threshold=-1.0,
        )

    @classmethod
    def for_analysis(cls, spec: GameSpec, simulations: int) -> SearchSettings:
        """Return settings for a single position: as for play, with several pending leaves where the game allows.

        With one leaf at a time each request would have one position; a few more cost little strength.
        """
        leaves = max(1, min(LEAVES_AT_ONCE, simulations // LEAVES_AT_ONCE)) if spec.information == "perfect" else 1
        return cls.for_play(spec, simulations).model_copy(update={"leaves_per_game": leaves})

    @classmethod
    def for_match(cls, spec: GameSpec, simulations: int = 100) -> SearchSettings:
        """Return settings for moves with a given number of simulations, as in matches: as for play, with a new tree for each.

        Two players with perfect information have a Gumbel root without noise, which is stronger there
        (docs/results/root_at_play.md): sequential halving shares a number of simulations that is known beforehand.
        """
        halves = spec.information == "perfect" and spec.num_players == 2 and simulations > 0
        changes = {"reuse_subtree": False, "root_policy": "gumbel" if halves else "puct"}
        return cls.for_play(spec, simulations).model_copy(update=changes)
