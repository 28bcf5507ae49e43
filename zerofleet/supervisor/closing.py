"""Reading of a run after its services have ended, from its files.

The services do their last work after the last look at them: games are stored, candidates are decided. What the closing summary
states is therefore read again, so that it agrees with `zerofleet status` and `zerofleet models list`.
"""

from __future__ import annotations

import contextlib
import dataclasses

from games.core import Game
from zerofleet.contracts.naming import model_name
from zerofleet.errors import ZerofleetError
from zerofleet.service.settings import open_run_store
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.run_paths import RunPaths
from zerofleet.strength.gate_record import read_record
from zerofleet.supervisor.observer import is_passed_over
from zerofleet.supervisor.readings import Readings

__all__ = ["closing_reading"]


def closing_reading(last: Readings, paths: RunPaths, game: Game) -> Readings:
    """Return the last reading with champion, candidates and number of stored games of the run's files.

    A part that cannot be read stays as it was.
    """
    model = model_name(game)
    with contextlib.suppress(ZerofleetError, OSError):
        last = dataclasses.replace(last, champion=open_run_store(paths).champion(model) or last.champion)
    with contextlib.suppress(ZerofleetError, OSError):
        known = read_record(paths.gatekeeper, model, game, games_of=()).candidates
        champion = last.champion.version if last.champion else 0
        shown = [known[version] for version in sorted(known) if version == champion or not is_passed_over(known[version])]
        last = dataclasses.replace(last, candidates=tuple(shown) or last.candidates)
    with contextlib.suppress(ZerofleetError, OSError), GameLog.open(paths.replay, writer=False) as log:
        last = dataclasses.replace(last, games_stored=max(len(log), last.games_stored))
    return last
