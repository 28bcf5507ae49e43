"""TOML files of the presets: defaults for any board game at each size (`data/sizes`), and differences per game (`data/games`).

A game's file has tables for every size (`[every_size.search]`) and for one (`[tiny.search]`). Reasons behind the numbers:

- Games with many legal actions or many plies have smaller blocks. A slot holds a tree (a search's visits times the moves of a
  position) and the game's searches so far (its plies times the maximum legal actions); a worker must stay below 500 MB on two
  cores. Fewer concurrent games also finish sooner, so the learner waits less for the first ones.
- Requests are a block's leaves, so `max_batch` follows `slots` unless an accelerator needs more.
- Random openings diversify self-play; in dealt games the deals do.
- A cache pays if positions recur among the games of a block: rarely in long games, never where the position is a history.
"""

from __future__ import annotations

import functools
import tomllib
from importlib.resources import files
from typing import Any

from zerofleet.errors import ConfigurationError

__all__ = ["EVERY_SIZE", "PRESETS", "deep_merge", "games_with_tables", "tables_of_game", "tables_of_size"]

PRESETS = ("tiny", "laptop", "gpu")
EVERY_SIZE = "every_size"

_DATA = files("zerofleet.presets") / "data"


@functools.cache
def tables_of_size(size: str) -> dict[str, Any]:
    """Return the defaults of a size for any board game, by part."""
    return tomllib.loads((_DATA / "sizes" / f"{size}.toml").read_text("utf-8"))


@functools.cache
def tables_of_game(name: str) -> dict[str, Any]:
    """Return a game's differences, by size and part; empty for a game without a file.

    Raises `ConfigurationError` for a table of an unknown size.
    """
    if name not in games_with_tables():
        return {}
    tables = tomllib.loads((_DATA / "games" / f"{name}.toml").read_text("utf-8"))
    if unknown := tables.keys() - {EVERY_SIZE, *PRESETS}:
        raise ConfigurationError(f"{name}.toml has tables of {', '.join(sorted(unknown))}; sizes are {', '.join(PRESETS)}")
    return tables


@functools.cache
def games_with_tables() -> frozenset[str]:
    """Return the names of the games with a file."""
    return frozenset(entry.name.removesuffix(".toml") for entry in (_DATA / "games").iterdir())


def deep_merge(*trees: dict[str, Any]) -> dict[str, Any]:
    """Return the recursive merge of the trees; later ones win, groups are merged, all other values replaced."""
    merged: dict[str, Any] = {}
    for tree in trees:
        for name, value in tree.items():
            below = merged.get(name)
            merged[name] = deep_merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged
