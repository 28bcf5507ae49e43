"""Game log: the accepted games of a run on disk, appended once, never changed, found by number or by uid.

    log = GameLog.open(run / "replay", writer=True)
    log.append([(uid, payload), ...])          # durable when it returns
    for logged in log.scan(start_index=1000):  # LoggedGame(index, uid, payload)
        ...

The trainer writes; its replay window, the command line and anyone else read at the same time, each in its own process.
"""

from zerofleet.storage.game_log.format import LoggedGame
from zerofleet.storage.game_log.log import SEGMENT_BYTES, GameLog

__all__ = ["SEGMENT_BYTES", "GameLog", "LoggedGame"]
