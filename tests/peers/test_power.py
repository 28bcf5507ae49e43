"""Power meters: counters that wrap around, meters that are absent, and what `nvidia-smi` prints."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks.peers.power import PowerMeter, Watts, parse_gpu_watts, rapl_joules, spent_joules

RANGE_UJ = 1_000_000_000


def write_zone(root, zone, name, energy_uj):
    """Write the files of a RAPL zone."""
    folder = root / zone
    folder.mkdir(exist_ok=True)
    files = {"name": name, "energy_uj": str(energy_uj), "max_energy_range_uj": str(RANGE_UJ)}
    for file, text in files.items():
        (folder / file).write_text(f"{text}\n")


def test_the_counters_of_packages_are_read_in_joules(tmp_path):
    write_zone(tmp_path, "intel-rapl:0", "package-0", 5_000_000)
    assert rapl_joules(tmp_path) == {"intel-rapl:0": (5.0, 1000.0)}


def test_zones_that_are_part_of_a_package_are_left_out(tmp_path):
    write_zone(tmp_path, "intel-rapl:0:0", "core", 5_000_000)
    assert rapl_joules(tmp_path) == {}


def test_a_counter_that_may_not_be_read_is_left_out(tmp_path):
    write_zone(tmp_path, "intel-rapl:0", "package-0", 5_000_000)
    (tmp_path / "intel-rapl:0" / "energy_uj").unlink()
    assert rapl_joules(tmp_path) == {}


def test_the_energy_of_all_packages_is_added():
    before, after = {"a": (1.0, 1000.0), "b": (5.0, 1000.0)}, {"a": (4.0, 1000.0), "b": (9.0, 1000.0)}
    assert spent_joules(before, after) == 7.0


def test_a_counter_that_began_anew_is_continued():
    assert spent_joules({"a": (990.0, 1000.0)}, {"a": (10.0, 1000.0)}) == 20.0


def test_no_counter_is_no_energy_of_zero():
    assert spent_joules({}, {"a": (10.0, 1000.0)}) is None


@pytest.mark.parametrize(("output", "watts"), [("71.50\n", 71.5), ("70\n80.5\n", 150.5), ("[N/A]\n", None), ("", None)])
def test_the_power_of_all_gpus_is_added(output, watts):
    assert parse_gpu_watts(output) == watts


def test_power_is_the_energy_of_the_work_by_its_time(tmp_path):
    async def work():
        write_zone(tmp_path, "intel-rapl:0", "package-0", 9_000_000)
        return "done"

    write_zone(tmp_path, "intel-rapl:0", "package-0", 5_000_000)
    ticks = iter((10.0, 12.0))
    meter = PowerMeter(tmp_path, clock_s=lambda: next(ticks))
    assert asyncio.run(meter.during(work())) == ("done", Watts(cpu=2.0))


def test_the_power_of_a_gpu_is_sampled_while_work_goes_on(tmp_path):
    async def scenario():
        asked = asyncio.Event()

        async def query():
            asked.set()
            return "250.5\n"

        return await PowerMeter(tmp_path, query).during(asked.wait())

    assert asyncio.run(scenario()) == (True, Watts(gpu=250.5))


def test_the_error_of_work_is_raised_as_it_is(tmp_path):
    async def fail():
        raise ValueError("no turn")

    async def query():
        return ""

    with pytest.raises(ValueError, match="no turn"):
        asyncio.run(PowerMeter(tmp_path, query).during(fail()))
