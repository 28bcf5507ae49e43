"""Presets: consistent settings for each game and machine size.

`tiny` is for tests and first trials, `laptop` for two cores, `gpu` for one accelerator. Each service reads its part, and a
setting of that service overrides every number. The numbers are in TOML files (`tables`). An experiment file holds them all
for one run (`experiment`, written by `commented`).
"""

from __future__ import annotations

from typing import Any

from games.core import Game, GameSpec
from zerofleet.errors import ConfigurationError
from zerofleet.presets.parts import (
    Q_KINDS,
    GateSettings,
    NetworkSettings,
    Preset,
    SelfPlaySettings,
    TrainSettings,
)
from zerofleet.presets.serving import InferenceSettings, ModelSettings
from zerofleet.presets.tables import EVERY_SIZE, PRESETS, deep_merge, tables_of_game, tables_of_size

__all__ = [
    "PRESETS",
    "Q_KINDS",
    "GateSettings",
    "InferenceSettings",
    "ModelSettings",
    "NetworkSettings",
    "Preset",
    "SelfPlaySettings",
    "TrainSettings",
    "preset",
]


def preset(game: Game, name: str) -> Preset:
    """Return the preset `name` for a game; raises `ConfigurationError` naming those that exist."""
    if name not in PRESETS:
        raise ConfigurationError(f"unknown preset {name!r}; want one of {', '.join(PRESETS)}")
    spec = game.spec()
    own = tables_of_game(spec.name)
    return Preset.model_validate(
        deep_merge(tables_of_size(name), _fitting(spec), own.get(EVERY_SIZE, {}), own.get(name, {}), {"name": name})
    )


def _fitting(spec: GameSpec) -> dict[str, Any]:
    """Return the settings implied by a game's spec, so that a game without a table trains as well."""
    fitting: dict[str, Any] = {}
    fewest, most = SelfPlaySettings().deep_opening_plies
    opening = spec.max_plies * 2 // 5  # random play of a short game often ends it sooner
    if (fits := max(1, opening)) < most:
        fitting["selfplay"] = {"deep_opening_plies": (min(fewest, fits), fits)}
    if GateSettings().opening_plies >= spec.max_plies:
        fitting["gate"] = {"opening_plies": opening}
    if spec.information != "perfect":
        fitting["search"] = {"information": "determinise", "cache_positions": 0}
    elif spec.repeats:
        fitting["search"] = {"repetition": "history"}
    return fitting
