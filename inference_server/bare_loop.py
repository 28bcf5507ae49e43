"""`python -m inference_server.bare_loop`: throughput of the device without the server.

Loads the newest stored version as the server does, with the server's settings, and evaluates batches of real positions
in a loop. For each line of standard input, a number of seconds, it writes a line of JSON: positions, seconds and processor
seconds by batch size. `zerofleet bench serve` starts it beside the server and alternates between the two.
"""

from __future__ import annotations

import json
import sys
import time
from collections import deque

import numpy as np

from inference_server.chosen_backend import open_backend
from inference_server.network import Network, Pending, begin
from inference_server.settings import ServerSettings
from zerofleet.contracts.encodings import sample_positions
from zerofleet.contracts.model_checks import MODEL_FILE
from zerofleet.contracts.naming import model_name
from zerofleet.service import logs
from zerofleet.service.settings import load_settings

__all__ = ["main"]

BATCHES = (64, 128, 256, 512, 1024, 2048, 4096)
_ALWAYS = 1024  # larger sizes are measured where the server's batches are as large: a GPU is not full with a thousand rows
TURN_S = 0.05
_GAMES = 64


def main() -> int:
    """Measure once for each line of standard input; return the exit code."""
    settings = load_settings(ServerSettings, sys.argv[1:])
    logs.configure("warning", settings.log_format, "bare_loop")
    game = settings.build_game()
    store, model = settings.open_store(), model_name(game)
    version = store.versions(model)[-1]
    part = settings.inference
    backend = open_backend(settings.device, settings.precision, part.threads, choice=settings.backend, slots=part.slots)
    path = store.directory(model, version) / MODEL_FILE
    sizes = [rows for rows in BATCHES if rows <= max(_ALWAYS, part.max_batch)]
    network = backend.load(path, store.verify(model, version), max_batch=max(sizes))
    states, legal = sample_positions(game, games=_GAMES, seed=0)
    batches = {
        rows: ([np.resize(states, (rows, states.shape[1]))], [np.resize(legal, (rows, legal.shape[1]))]) for rows in sizes
    }
    for line in sys.stdin:
        found = _measure(network, batches, slots=backend.slots, seconds=float(line))
        sys.stdout.write(json.dumps({str(rows): figures for rows, figures in found.items()}) + "\n")
        sys.stdout.flush()
    return 0


def _measure(
    network: Network, batches: dict[int, tuple[list[np.ndarray], list[np.ndarray]]], *, slots: int, seconds: float
) -> dict[int, list[float]]:
    """Return positions evaluated, seconds and this thread's processor seconds spent, by batch size.

    The sizes take turns, so noise affects all alike. `slots` batches are on the device at once, as in the server.
    """
    found = {rows: [0.0, 0.0, 0.0] for rows in batches}
    ends_s = time.perf_counter() + seconds
    while time.perf_counter() < ends_s:
        for rows, batch in batches.items():
            began_s, processor_s, count = time.perf_counter(), time.thread_time(), 0
            flights: deque[Pending] = deque()
            while time.perf_counter() - began_s < TURN_S:
                flights.append(begin(network, *batch))
                if len(flights) == slots:
                    flights.popleft().collect()
                count += rows
            for flight in flights:
                flight.collect()
            found[rows][0] += count
            found[rows][1] += time.perf_counter() - began_s
            found[rows][2] += time.thread_time() - processor_s
    return found


if __name__ == "__main__":
    sys.exit(main())
