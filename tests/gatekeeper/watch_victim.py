"""A gatekeeper process in mode watch that meets a weak version 2 and then a good version 3; killed by test_watch_crashes.py.

The directory holds `models` with versions 1 (the champion), 2 and 3. The same directory may be given again after a kill.
"""

import json

from conftest import MODEL, FakeInference, Models, make_settings, running

from gatekeeper import pacing

WATCH = {"mode": "watch", "watch_elo0": -200.0, "watch_elo1": 0.0, "max_pairs": 20, "watch_share": 0.5}


async def main(directory):
    pacing.POLL_S = 0.001
    models = Models(directory / "models")
    inference = FakeInference(stubborn={2})
    async with running(make_settings(directory, **WATCH), models, inference) as gate:

        def status(version):
            return gate.ledger.candidate(version).status.value

        await gate.client.submit(MODEL, 2, models.store.manifest_sha256(MODEL, 2))
        await gate.until(lambda: status(2) == "weaker")
        await gate.client.submit(MODEL, 3, models.store.manifest_sha256(MODEL, 3))
        await gate.until(lambda: gate.ledger.candidate(3).status.settled)
        print(
            json.dumps(
                {
                    "statuses": {version: status(version) for version in (2, 3)},
                    "matches": [repr(gate.ledger.candidate(version).match) for version in (2, 3)],
                    "epochs": [champion.epoch for champion in gate.pointer.history],
                }
            )
        )
