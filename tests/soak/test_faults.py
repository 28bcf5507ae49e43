"""Faults as data: the plan of a slice, what a damaged byte may cost, and what changes packets, disks and clocks."""

import ctypes
import json
import os
import subprocess
import sys

import pytest
import soak_machine as machine
from soak_cluster import SERVICES, compose_override
from soak_disks import DISKS, Disks
from soak_faults import BY_NAME, DAMAGES, DISK_OF, KINDS, Harm, choose, chosen_kinds, flip, games_allowed_lost, plan
from soak_harms import Harms, chosen_file

EVERY_KIND = [kind.name for kind in KINDS]


def test_the_plan_follows_from_seed_and_slice():
    once = plan(1, 2, 3600, 60, EVERY_KIND)
    assert once == plan(1, 2, 3600, 60, EVERY_KIND)
    assert once != plan(1, 3, 3600, 60, EVERY_KIND)
    assert once != plan(2, 2, 3600, 60, EVERY_KIND)


def test_every_kind_comes_before_any_comes_again():
    kinds = [planned.kind for planned in plan(7, 1, 60 * (1 + 2 * len(KINDS)), 60, EVERY_KIND)]
    assert sorted(kinds[: len(KINDS)]) == sorted(kinds[len(KINDS) :]) == sorted(EVERY_KIND)


def test_every_kind_of_file_comes_before_any_comes_again():
    files = [planned.file for planned in plan(7, 1, 60 * (1 + len(DAMAGES)), 60, ["byte"])]
    assert sorted(files) == sorted(damage.name for damage in DAMAGES)


@pytest.mark.parametrize("every_s", [20.0, 60.0])
def test_each_fault_is_undone_before_the_next_and_before_the_end(every_s):
    planned = plan(3, 1, 600, every_s, EVERY_KIND)
    assert planned
    for each, following in zip(planned, [*planned[1:], None], strict=True):
        assert each.at_s + each.lasts_s < (following.at_s if following else 600.01)
        assert each.lasts_s <= BY_NAME[each.kind].lasts_s[1]


def test_a_kind_that_is_not_made_is_not_planned():
    assert {planned.kind for planned in plan(3, 1, 900, 60, ["kill", "pause"])} == {"kill", "pause"}


def test_faults_of_disks_are_planned_for_services_that_have_one():
    for kind in ("full_disk", "slow_disk"):
        assert set(BY_NAME[kind].services) == set(DISK_OF)
    assert set(DISK_OF.values()) <= set(DISKS)
    assert {damage.disk for damage in DAMAGES} <= set(DISKS)


def test_every_kind_of_fault_can_be_made():
    assert all(hasattr(Harms, f"_{kind.name}") for kind in KINDS)


def test_a_flipped_byte_differs_in_one_bit_and_flips_back():
    for roll in (0.0, 0.4, 0.999):
        changed = flip(b"abc", 1, roll)
        assert (changed[0], changed[2]) == (ord("a"), ord("c"))
        assert (changed[1] ^ ord("b")).bit_count() == 1
        assert flip(changed, 1, roll) == b"abc"
    assert [choose(3, roll) for roll in (0.0, 0.5, 0.9999999999999999)] == [0, 1, 2]


def test_a_damaged_byte_may_cost_its_record_where_the_service_started_and_nothing_else():
    def damaged(file, outcome):
        return Harm("byte", "trainer", 0.0, 1.0, {"file": file, "outcome": outcome})

    assert games_allowed_lost([damaged("games", "started"), damaged("games", "refused"), damaged("index", "started")]) == 1
    assert games_allowed_lost([Harm("kill", "trainer", 0.0, 0.0)]) == 0


def test_the_damaged_file_is_one_of_its_kind_that_is_not_empty(tmp_path):
    (damage,) = [each for each in DAMAGES if each.name == "journal"]
    assert chosen_file(tmp_path, damage, 0.5) is None
    (tmp_path / "gatekeeper").mkdir()
    (tmp_path / "gatekeeper/journal.jsonl").touch()
    assert chosen_file(tmp_path, damage, 0.5) is None
    (tmp_path / "gatekeeper/journal.jsonl").write_text("{}")
    assert chosen_file(tmp_path, damage, 0.5) == tmp_path / "gatekeeper/journal.jsonl"


def test_a_kind_that_this_machine_cannot_make_is_named_with_its_reason_and_refused_when_asked_for():
    kinds, not_made = chosen_kinds("", {"reorder": "no netem"})
    assert not_made == {"reorder": "no netem"}
    assert sorted([*kinds, "reorder"]) == sorted(EVERY_KIND)
    assert chosen_kinds("kill", {"reorder": "no netem"})[0] == ["kill"]
    with pytest.raises(ValueError, match="no netem"):
        chosen_kinds("kill,reorder", {"reorder": "no netem"})
    with pytest.raises(ValueError, match="want some of"):
        chosen_kinds("meteor", {})


def test_what_drops_packets_is_taken_back_by_the_same_rules():
    added, removed = machine.loss_commands(0.1, add=True), machine.loss_commands(0.1, add=False)
    assert [[word.replace("-A", "-D") for word in command] for command in added] == removed


@pytest.mark.parametrize(
    ("groups", "file", "line", "unlimited"),
    [
        ("5:blkio:/docker/abc\n0::/\n", "blkio/docker/abc/blkio.throttle.write_bps_device", "7:0 1024", "7:0 0"),
        ("0::/docker/abc\n", "docker/abc/io.max", "7:0 wbps=1024", "7:0 wbps=max"),
    ],
)
def test_the_limit_of_a_disk_is_that_of_either_version_of_control_groups(tmp_path, groups, file, line, unlimited):
    assert machine.throttle_file(groups, tmp_path) is None
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.touch()
    if path.name == "io.max":
        (tmp_path / "cgroup.controllers").touch()
    assert machine.throttle_file(groups, tmp_path) == path
    assert machine.throttle_line(path, "7:0", 1024) == line
    assert machine.throttle_line(path, "7:0", 0) == unlimited


def test_the_volumes_of_the_cluster_lie_on_the_disks_and_each_service_has_its_clock(tmp_path):
    disks = Disks(tmp_path, size_mib=8)
    override = compose_override(disks, tmp_path / "clocks")
    assert {name: volume["driver_opts"]["device"] for name, volume in override["volumes"].items()} == {
        disk: str(tmp_path / "disks" / disk) for disk in DISKS
    }
    assert set(override["services"]) == set(SERVICES)
    assert len({service["environment"]["SOAK_CLOCK"] for service in override["services"].values()}) == len(SERVICES)
    assert "services" not in compose_override(disks, None)
    json.dumps(override)


SHOW = "import sys, time\nfor _ in sys.stdin: print(time.time() - float(_), time.monotonic(), flush=True)"


@pytest.mark.slow
def test_a_clock_jumps_in_a_running_process_while_its_monotonic_clock_goes_on(tmp_path):
    assert machine.build_clock(tmp_path) == ""
    shift = tmp_path / "shift"
    machine.set_clock(shift, 0)
    environment = os.environ | {"LD_PRELOAD": str(tmp_path / "jumping_clock.so"), "SOAK_CLOCK": str(shift)}
    began_s, seen = time_s(), []
    with subprocess.Popen(
        [sys.executable, "-c", SHOW], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        for shift_s in (0, 3600, -3600, 0):
            machine.set_clock(shift, shift_s)
            process.stdin.write(f"{began_s}\n")
            process.stdin.flush()
            ahead, monotonic = map(float, process.stdout.readline().split())
            assert abs(ahead - shift_s) < 30
            seen.append(monotonic)
        process.stdin.close()
    assert seen == sorted(seen)
    assert seen[-1] - seen[0] < 30


def time_s() -> float:
    """Return the wall-clock time of this process, which loads no library."""
    return float(ctypes.CDLL(None).time(None))
