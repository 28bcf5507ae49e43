"""Decide on a candidate and rate it as the gatekeeper does; print, as JSON, what its event loop loaded or compiled.

python loop_watch.py DIRECTORY
"""

import asyncio
import json
import multiprocessing
import sys
from pathlib import Path

from conftest import MODEL, FakeInference, Models, make_settings, running

sys.path.insert(0, str(Path(__file__).parents[1]))

from event_loop import watch


def publish(folder):
    """Store two versions. In a process of its own, as it calls the rules."""
    models = Models(folder)
    models.publish()
    models.publish()


async def main(directory):
    store = directory / "models"
    publisher = multiprocessing.get_context("fork").Process(target=publish, args=(store,))
    publisher.start()
    publisher.join()
    models, seen = Models(store), watch()
    async with running(
        make_settings(directory, ladder_games=2, rungs=("random", "perfect"), max_pairs=2),
        models,
        FakeInference(stubborn={1}),
    ) as gate:
        for version in (1, 2):
            await gate.client.submit(MODEL, version, models.store.manifest_sha256(MODEL, version))
            await gate.settled(version)
        games = 0
        async with asyncio.timeout(120):
            while not games:
                games = sum(rung.games for rung in await gate.client.ladder(MODEL))
    print(json.dumps({"decided": len(gate.ledger.candidates()), "on the event loop": seen}))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
