"""200 clients flood an inference server: it goes on working, refuses the rest quickly, keeps its memory, and recovers.

With `--fronts 2` the server has front ends, whose processes refuse.
"""

from __future__ import annotations

import time

import pytest
from load_figures import Overload
from load_processes import flooding, publish, serving, talking, write_request

from games.core import make
from zerofleet.contracts.naming import model_name
from zerofleet.storage.model_store import DirectoryStore

ROWS = 512  # of a request: a worker's block in the preset laptop
CAPACITY_S = 15.0
CAPACITY_CLIENTS = 8  # keep the device busy and the queue nearly empty
WORKER_S = 10.0
PROBE_PAUSE_S = 0.02
SETTLE_S = 2.0
CLIENT_NICE = 10  # the clients of a real flood do not take the server's cores
MEMORY_MIB = 256.0  # of the device's process, and of each front end
GROWTH_MIB = 32.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def found(request, tmp_path_factory):
    """The figures of one flood."""
    seconds, clients, fronts = (request.config.getoption(name) for name in ("seconds", "clients", "fronts"))
    folder = tmp_path_factory.mktemp("overload")
    game, store = make("connect_four"), DirectoryStore(folder / "models")
    store.root.mkdir()
    version = publish(store, game, preset_name="laptop", seed=1)
    store.write_champion(model_name(game), version, epoch=1, reason="first")
    asked = write_request(folder / "request", game, rows=ROWS, version=version)
    with (
        serving(store.root, folder / "log", "--inference.front-ends", str(fronts)) as server,
        talking("-m", "selfplay_worker.load", "--target", server.address) as worker,
        flooding(server.address, asked, processes=3, nice=CLIENT_NICE) as flood,
        flooding(server.address, asked, processes=1, nice=0) as probe,
    ):
        for front in server.fronts:
            front.nice(front.nice() + request.config.getoption("fronts_nice"))

        def played(seconds: float) -> float:
            worker.tell(seconds)
            return float(worker.hear()["positions"])

        rate_before = played(WORKER_S) / WORKER_S
        capacity_before = flood.ask(seconds=CAPACITY_S, clients=CAPACITY_CLIENTS)
        memory_before, processor_before = server.memory_mib(), server.processor_s()
        with server.watched() as memory:
            worker.tell(seconds)
            flood.start(seconds=seconds, clients=clients)
            time.sleep(SETTLE_S)  # until the queue is full
            refusals = probe.ask(seconds=seconds - 2 * SETTLE_S, clients=1, pause_s=PROBE_PAUSE_S)
            flooded, worker_positions = flood.result(), float(worker.hear()["positions"])
            used_s = tuple(after - before for before, after in zip(processor_before, server.processor_s(), strict=True))
        capacity_after = flood.ask(seconds=CAPACITY_S, clients=CAPACITY_CLIENTS)
        rate_after = played(WORKER_S) / WORKER_S
    overload = Overload(
        rows=ROWS,
        seconds=seconds,
        capacity_s=CAPACITY_S,
        capacity_before=capacity_before,
        capacity_after=capacity_after,
        flood=flooded,
        probe=refusals,
        worker_positions=worker_positions,
        memory_before_mib=memory_before,
        memory_mib=memory,
        worker_rate_before=rate_before,
        worker_rate_after=rate_after,
        processor_s=used_s,
    )
    print(f"\n{overload.page()}", flush=True)
    return overload


def test_memory_stays_within_bounds(found, request):
    assert max(found.memory_mib) - found.memory_before_mib < MEMORY_MIB * (1 + request.config.getoption("fronts"))
    assert found.memory_growth_mib < GROWTH_MIB


def test_the_server_still_does_four_fifths_of_what_it_can(found):
    assert found.share >= 0.8


def test_refused_calls_are_resource_exhausted_and_nothing_else_happens(found):
    assert not found.other_statuses
    assert found.flood["RESOURCE_EXHAUSTED"]


def test_every_refused_call_is_refused_within_50_ms(found):
    assert found.refused
    assert found.quick_share == 1.0


def test_a_worker_recovers_by_itself(found):
    assert found.worker_positions > 0
    assert found.worker_rate_after > 0.6 * found.worker_rate_before
