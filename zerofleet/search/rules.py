"""The numbers of `SearchSettings` as compiled code reads them."""

from __future__ import annotations

from typing import NamedTuple, get_type_hints

from zerofleet.search.settings import SearchSettings

__all__ = ["CUT_HISTORY", "CUT_NOTHING", "CUT_PATH", "Rules", "rules_of"]

CUT_NOTHING, CUT_PATH, CUT_HISTORY = range(3)


class Rules(NamedTuple):
    """One field a setting, of the same meaning; flags are 0 or 1."""

    simulations: int
    fast_simulations: int
    full_search_share: float
    gumbel: int
    puct_init: float
    puct_base: float
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
    leaves_per_game: int
    virtual_loss: float
    reuse_subtree: int
    repetition: int  # CUT_NOTHING, CUT_PATH or CUT_HISTORY
    resign_threshold: float
    resign_control_share: float


def rules_of(settings: SearchSettings) -> Rules:
    """Return the settings as a tuple whose numbers have the same types whatever the values."""
    repetition = ("off", "path", "history").index(settings.repetition)
    keeps = settings.root_policy != "gumbel" and settings.information == "open" and repetition != CUT_PATH
    values = settings.model_dump() | {
        "gumbel": settings.root_policy == "gumbel",
        "repetition": repetition,
        "reuse_subtree": settings.reuse_subtree and keeps,
    }
    return Rules._make(kind(values[name]) for name, kind in get_type_hints(Rules).items())
