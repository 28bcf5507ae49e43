"""Version of a run that a benchmark measures."""

from __future__ import annotations

import sys
from pathlib import Path

from games.core import Game
from zerofleet.errors import ZerofleetError
from zerofleet.storage.run_paths import RunPaths
from zerofleet.supervisor.borrowed import champion_version

__all__ = ["version_or_champion"]


def version_or_champion(run: Path, game: Game, version: int | None) -> int:
    """Return the version that was asked for, or the run's champion. Exits with one line if there is none."""
    if version is not None:
        return version
    try:
        return champion_version(RunPaths(run), game)
    except ZerofleetError as error:
        sys.exit(str(error))
