"""Library: training, runs, models and matches for scripts and notebooks; see `docs/python.md`.

Functions wait for their result, also where an event loop runs already. Those that end in `_async` are the same as coroutines,
for programs that are asynchronous themselves. `import zerofleet` offers most of these names.
"""

from zerofleet.contracts.opinions import MoveOpinion, Opinion
from zerofleet.errors import ZerofleetError
from zerofleet.library.matches import match, match_async
from zerofleet.library.metrics import Metrics
from zerofleet.library.positions import Position, position
from zerofleet.library.runs import Model, Run, StoredGame, open_run
from zerofleet.library.training import TrainingRun, train
from zerofleet.strength.matches import MatchSummary

__all__ = [
    "MatchSummary",
    "Metrics",
    "Model",
    "MoveOpinion",
    "Opinion",
    "Position",
    "Run",
    "StoredGame",
    "TrainingRun",
    "ZerofleetError",
    "match",
    "match_async",
    "open_run",
    "position",
    "train",
]
