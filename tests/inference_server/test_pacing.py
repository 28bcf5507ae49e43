"""Loads beside calls: divided into short pieces, each followed by a rest in which calls have the GIL and the cores."""

import sys
from collections import Counter

import pytest

from games.core import make
from inference_server.native_backend import NativeBackend
from inference_server.registry import Registry
from trainer.export import Lineage, export_network
from trainer.network import new_network
from zerofleet.contracts import model_checks, pacing
from zerofleet.contracts.naming import model_name
from zerofleet.contracts.pacing import LONGEST_REST_S, REST, WORK_S, Pace, give_way, paced
from zerofleet.presets import NetworkSettings
from zerofleet.storage.model_store import DirectoryStore

GAME = make("connect_four")
MODEL = model_name(GAME)
MOST_CALLS = 5_000  # of Python and C functions between two points that give way; a load has 130,000


class Clock:
    """Processor time that advances by hand, and the rests of a pace."""

    def __init__(self):
        self.now_s = 0.0
        self.rests = []

    def pace(self):
        return Pace(clock=lambda: self.now_s, sleep=self.rests.append)


@pytest.fixture
def store(tmp_path):
    settings = NetworkSettings(blocks=2, channels=32)
    store = DirectoryStore(tmp_path)
    for seed in (1, 2):
        export_network(store, GAME, new_network(GAME.spec(), settings, seed=seed), settings, lineage=Lineage())
    return store


@pytest.fixture
def registry(store):
    registry = Registry(store, NativeBackend(), max_batch=1024, max_versions=2)
    yield registry
    registry.close()


def test_a_thread_rests_for_a_multiple_of_its_work_once_it_has_worked_for_a_millisecond():
    clock = Clock()
    with paced(clock.pace()):
        clock.now_s += WORK_S / 2
        give_way()
        assert clock.rests == []
        clock.now_s += WORK_S / 2
        give_way()
        give_way()
    assert clock.rests == [pytest.approx(REST * WORK_S)]


def test_a_rest_is_bounded_after_a_step_that_cannot_be_divided():
    clock = Clock()
    with paced(clock.pace()):
        clock.now_s += 10.0
        give_way()
    assert clock.rests == [LONGEST_REST_S]


def test_only_the_thread_that_is_paced_rests_and_only_until_its_block_ends():
    clock = Clock()
    with paced(clock.pace()):
        pass
    clock.now_s += 1.0
    give_way()
    assert clock.rests == []


async def test_a_version_is_checked_once_for_each_load(registry, store, monkeypatch):
    checked, check = [], model_checks.check_files
    monkeypatch.setattr(
        model_checks, "check_files", lambda folder, *a, **k: (checked.append(folder.name), check(folder, *a, **k))
    )
    await registry.serve(MODEL, [1])
    await registry.serve(MODEL, [1, 2])
    assert checked == ["1", "2"]


async def test_the_first_load_of_a_server_does_not_rest_and_later_ones_do(registry, monkeypatch):
    paces = []

    class Watched(Pace):
        def __init__(self):
            super().__init__(sleep=lambda _: None)
            paces.append(self)

    monkeypatch.setattr(pacing, "Pace", Watched)
    await registry.serve(MODEL, [1])
    assert paces == []
    await registry.serve(MODEL, [1, 2])
    assert len(paces) == 1


def test_a_load_gives_way_before_five_thousand_calls_of_functions(registry):
    registry._load_now(MODEL, 1)  # imports and caches of a first load
    counted = Counter()
    pieces = []

    class Counted(Pace):
        def give_way(self):
            pieces.append(counted.total())
            counted.clear()

    def count(frame, event, argument):
        counted[event] += 1

    with paced(Counted()):
        sys.setprofile(count)
        try:
            registry._verified_and_loaded(MODEL, 2)
        finally:
            sys.setprofile(None)
    assert max(*pieces, counted.total()) < MOST_CALLS
