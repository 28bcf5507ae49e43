"""Game log: accepted games of a run on disk, append-only and immutable, found by number or uid.

    log = GameLog.open(run / "replay", writer=True)
    log.append([(uid, payload), ...])          # durable when it returns
    for logged in log.scan(start_index=1000):  # LoggedGame(index, uid, payload)
        ...

The trainer writes; any number of other processes, such as the command line, may read concurrently.
"""

from zerofleet.storage.game_log.format import LoggedGame
from zerofleet.storage.game_log.log import SEGMENT_BYTES, GameLog

__all__ = ["SEGMENT_BYTES", "GameLog", "LoggedGame"]
