"""A gatekeeper process that decides on version 2 and prints what it says; killed at crash points by test_crashes.py.

    python victim.py DIRECTORY

DIRECTORY holds `models` with versions 1 (the champion) and 2. The same directory may be given again after a kill.
"""

import asyncio
import json
import sys
from pathlib import Path

from conftest import MODEL, FakeInference, Models, make_settings, running


async def main(directory):
    models = Models(directory / "models")
    inference = FakeInference(stubborn={1})
    async with running(make_settings(directory), models, inference) as gate:
        await gate.client.submit(MODEL, 2, models.store.manifest_sha256(MODEL, 2))
        candidate = await gate.settled(2)
        rungs = {rung.name: rung.games for rung in await gate.client.ladder(MODEL)}
        print(
            json.dumps(
                {
                    "status": candidate.status.value,
                    "match": repr(candidate.match),
                    "champion": gate.pointer.champion.version,
                    "rungs": rungs,
                    "epochs": [champion.epoch for champion in gate.pointer.history],
                }
            )
        )


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
