"""The TOML files of the presets: what any board game has at each size (`data/sizes`), and where a game differs (`data/games`).

A file of a game has tables for every size (`[every_size.search]`) and for one (`[tiny.search]`). What decides its numbers:

- Games with many legal actions or many plies have smaller blocks. A slot holds a tree (a search's visits times the moves of a
  position) and the game's searches so far (its plies times the most legal actions); a worker is to stay below 500 MB on two
  cores. Fewer games at once also end sooner, and the learner waits less for the first ones.
- Requests are a block's leaves, so `max_batch` follows `slots` where no accelerator wants more.
- Random openings keep self-play from running down one line; dealt games have their deals for that.
- A cache pays where positions recur among the games of a block: hardly in long games, never where a history is the position.
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
    """Return the numbers of any board game at a size, by part."""
    return tomllib.loads((_DATA / "sizes" / f"{size}.toml").read_text("utf-8"))


@functools.cache
def tables_of_game(name: str) -> dict[str, Any]:
    """Return where a game differs, by size and part; empty for a game without a file.

    Raises `ConfigurationError` for a table of a size that does not exist.
    """
    if name not in games_with_tables():
        return {}
    tables = tomllib.loads((_DATA / "games" / f"{name}.toml").read_text("utf-8"))
    if unknown := tables.keys() - {EVERY_SIZE, *PRESETS}:
        raise ConfigurationError(f"{name}.toml has tables of {', '.join(sorted(unknown))}; sizes are {', '.join(PRESETS)}")
    return tables


@functools.cache
def games_with_tables() -> frozenset[str]:
    """Return the names of the games that have a file."""
    return frozenset(entry.name.removesuffix(".toml") for entry in (_DATA / "games").iterdir())


def deep_merge(*trees: dict[str, Any]) -> dict[str, Any]:
    """Return the trees laid over each other, later ones on top; groups are merged, everything else is replaced."""
    merged: dict[str, Any] = {}
    for tree in trees:
        for name, value in tree.items():
            below = merged.get(name)
            merged[name] = deep_merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged
