"""Zerofleet: game-playing networks, trained by self-play.

    import zerofleet as zf

    with zf.train("connect_four", preset="laptop", minutes=10) as run:
        run.wait()
    print(run.champion().analyse(["d1", "d2", "c1"], simulations=400))

See `docs/python.md`. Names are loaded at their first use, so that commands and services, which import this package as well,
start without them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zerofleet.library import (
        MatchSummary,
        Metrics,
        Model,
        Opinion,
        Position,
        Run,
        TrainingRun,
        ZerofleetError,
        match,
        open_run,
        position,
        train,
    )

    __version__: str

__all__ = [
    "MatchSummary",
    "Metrics",
    "Model",
    "Opinion",
    "Position",
    "Run",
    "TrainingRun",
    "ZerofleetError",
    "__version__",
    "match",
    "open_run",
    "position",
    "train",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("zerofleet")
    if name in __all__:
        return getattr(importlib.import_module("zerofleet.library"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
