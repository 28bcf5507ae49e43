"""Settings of the search for compiled code: `SearchSettings` as a tuple of numbers."""

from __future__ import annotations

from typing import NamedTuple, get_type_hints

from zerofleet.search.settings import SearchSettings

__all__ = [
    "CUT_HISTORY",
    "CUT_NOTHING",
    "CUT_PATH",
    "LOOK_AT_LEAVES",
    "LOOK_AT_REPLIES",
    "LOOK_AT_ROOT",
    "PROVE_NOTHING",
    "CompiledSettings",
    "compile_settings",
]

CUT_NOTHING, CUT_PATH, CUT_HISTORY = range(3)
PROVE_NOTHING, LOOK_AT_ROOT, LOOK_AT_LEAVES, LOOK_AT_REPLIES = range(4)


class CompiledSettings(NamedTuple):
    """Settings used by compiled code, under their names; flags are 0 or 1."""

    simulations: int
    fast_simulations: int
    full_search_share: float
    gumbel: int
    literal: int
    fpu_reduction: float
    dirichlet_alpha: float
    dirichlet_fraction: float
    temperature: float
    temperature_end: float
    temperature_plies: int
    forced_playouts: float
    prune_targets: int
    gumbel_considered: int
    gumbel_visit_offset: float
    gumbel_value_scale: float
    gumbel_noise: int
    gumbel_sampling: int
    leaves_per_game: int
    virtual_loss: float
    reuse_subtree: int
    repetition: int  # CUT_NOTHING, CUT_PATH or CUT_HISTORY
    resign_threshold: float
    resign_control_share: float
    soft_resignation: int
    proofs: int  # PROVE_NOTHING, or where to look for wins in one: LOOK_AT_ROOT or, where that is cheap, at leaves too


def compile_settings(settings: SearchSettings, *, sees_ends: bool = False) -> CompiledSettings:
    """Convert the settings to numbers of fixed types, so that code is compiled once for all values.

    `sees_ends`: the game has the rule `may_end`.
    """
    proves = settings.prove_values and settings.information == "open"
    repetition = ("off", "path", "history").index(settings.repetition)
    keeps = settings.root_policy != "gumbel" and settings.information == "open" and repetition != CUT_PATH
    values = settings.model_dump() | {
        "gumbel": settings.root_policy == "gumbel",
        "literal": settings.exploration == "literal",
        "repetition": repetition,
        "soft_resignation": settings.resignation == "soft",
        "proofs": _proofs_of(settings, proves=proves, sees_ends=sees_ends),
        "reuse_subtree": settings.reuse_subtree and keeps,
    }
    return CompiledSettings._make(kind(values[name]) for name, kind in get_type_hints(CompiledSettings).items())


def _proofs_of(settings: SearchSettings, *, proves: bool, sees_ends: bool) -> int:
    if not proves:
        return PROVE_NOTHING
    if not sees_ends:
        return LOOK_AT_ROOT
    return LOOK_AT_REPLIES if settings.prove_replies else LOOK_AT_LEAVES
