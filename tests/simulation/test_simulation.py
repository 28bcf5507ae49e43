"""Seeds of the simulation keep every promise, replay exactly, and find what is broken on purpose."""

from __future__ import annotations

import asyncio
import random

import pytest
from sim_disk import SimDisk
from sim_loop import Process, SimLoop
from sim_world import simulate

from selfplay_worker.publisher import Publisher
from trainer.record_check import RecordCheck
from zerofleet.contracts.plain_files import open_plain
from zerofleet.storage.files import try_lock

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", range(6))
def test_a_fleet_keeps_its_promises_through_kills_power_losses_and_a_bad_network(seed):
    found = simulate(seed, games=30)
    assert not found.broken, "\n".join([found.broken, *found.trace[-25:]])
    assert found.games >= 30
    assert found.promotions >= 1
    assert found.faults.total() >= 5


def test_the_same_seed_replays_the_same_trace():
    one, other = simulate(7, games=20), simulate(7, games=20)
    assert one.trace == other.trace
    assert one.digest == other.digest
    assert one.digest != simulate(8, games=20).digest


def test_a_trainer_that_counts_a_game_twice_is_found(monkeypatch):
    monkeypatch.setattr(RecordCheck, "_stored", lambda self, uid: None)
    assert any(simulate(seed, games=40).broken.startswith("P1") for seed in range(8))


def test_a_worker_that_drops_a_game_when_the_stream_is_away_is_found(monkeypatch):
    async def publish_once(self, games):
        for game in games:
            try:
                await self._stream.publish(game.uid, game.payload)
            except Exception:
                self._stream._published(game.uid)  # taken for published
            self._waiting.popleft()

    monkeypatch.setattr(Publisher, "_publish", publish_once)
    assert any(simulate(seed, games=40).broken.startswith("P1") for seed in range(8))


class TestTheLoop:
    """Parts of the simulation."""

    def run(self, scenario, seed: int = 0) -> SimLoop:
        loop = SimLoop(random.Random(seed))
        try:
            loop.run_until_complete(scenario(loop))
        finally:
            loop.bury()
            loop.close()
        return loop

    def test_an_hour_of_sleep_takes_no_time(self):
        loop = self.run(lambda loop: asyncio.sleep(3600.0))
        assert loop.time() >= 1_003_600.0

    def test_a_killed_process_runs_no_clean_up(self):
        done = []

        async def victim():
            try:
                await asyncio.sleep(1.0)
            finally:
                done.append("cleaned up")

        async def scenario(loop):
            process = loop.new_process("victim")
            loop.start(process, victim())
            await asyncio.sleep(0.5)
            loop.kill(process)
            await asyncio.sleep(10.0)
            assert not done

        self.run(scenario)

    def test_the_order_of_processes_follows_from_the_seed(self):
        def order_of(seed):
            order = []

            async def steps(name):
                for _ in range(5):
                    order.append(name)
                    await asyncio.sleep(0)

            async def scenario(loop):
                for name in "abc":
                    loop.start(loop.new_process(name), steps(name))
                await asyncio.sleep(1.0)

            self.run(scenario, seed)
            return "".join(order)

        assert order_of(1) == order_of(1)
        assert len({order_of(seed) for seed in range(5)}) > 1


def test_a_power_loss_takes_what_was_not_synced_and_leaves_the_rest(tmp_path, monkeypatch):
    root = tmp_path / "run"
    (root / "kept").mkdir(parents=True)
    loop = SimLoop(random.Random(0))
    disk = SimDisk(root, loop, random.Random(2))
    for (module, name), function in disk.patches().items():
        monkeypatch.setattr(module, name, function)
    monkeypatch.setattr(disk._rng, "random", lambda: 0.0)  # the worst case
    import os  # noqa: PLC0415 - after the patch

    with (root / "kept" / "file").open("wb") as file:
        file.write(b"durable")
        file.flush()
        os.fsync(file.fileno())
        directory = os.open(root / "kept", os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)
        file.write(b" and not")
    (root / "kept" / "later").write_bytes(b"unknown")
    disk.lose_power()
    assert (root / "kept" / "file").read_bytes() == b"durable"
    assert not (root / "kept" / "later").exists()
    loop.close()


def test_a_killed_process_releases_its_locks(tmp_path, monkeypatch):
    root = tmp_path / "run"
    root.mkdir()
    loop = SimLoop(random.Random(0))
    disk = SimDisk(root, loop, random.Random(0))
    for (module, name), function in disk.patches().items():
        monkeypatch.setattr(module, name, function)
    first, second = Process("first", 1), Process("second", 2)
    loop.current = first
    assert try_lock(open_plain(root / "lock", 66, 0o644))
    loop.current = second
    assert not try_lock(open_plain(root / "lock", 66, 0o644))
    disk.release_locks(first)
    assert try_lock(open_plain(root / "lock", 66, 0o644))
    loop.close()
