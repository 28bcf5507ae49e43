"""Play games as a worker does; print, as JSON, what its event loop loaded or compiled.

python loop_watch.py DIRECTORY
"""

import asyncio
import json
import sys
from pathlib import Path

from conftest import MemoryStream, Promotions, SwitchableEvaluator, small_settings
from worker_at_work import changed, working

import games

sys.path.insert(0, str(Path(__file__).parents[1]))

from event_loop import watch


async def main(directory):
    game, stream, promotions, seen = games.make("tic_tac_toe"), MemoryStream(), Promotions(), watch()
    openings = {"opening_plies": 2, "forked_opening_share": 0.4, "balanced_opening_share": 0.3, "deep_opening_share": 0.1}
    resigning = {"resign_threshold": -0.5}
    settings = changed(small_settings(directory), selfplay=openings | {"deep_opening_plies": (1, 3)}, search=resigning)
    promotions.promote(1)
    async with working(game, settings, SwitchableEvaluator(players=2), stream, promotions):
        await stream.until(40)
    print(json.dumps({"played": len(stream.published) >= 40, "on the event loop": seen}))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
