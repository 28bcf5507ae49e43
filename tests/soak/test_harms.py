"""Faults as they are made and undone, on a cluster of stand-ins for containers."""

from types import SimpleNamespace

import pytest
import soak_harms
from soak_disks import Disks
from soak_faults import Planned
from soak_harms import CannotHarm, Harms


class Container:
    def __init__(self, name, on_start):
        self.name, self.status, self.calls, self._on_start = name, "running", [], on_start
        self.attrs = {"State": {"Pid": 1, "Health": {"Status": "healthy"}}}

    def pause(self):
        self.calls.append("pause")

    def unpause(self):
        self.calls.append("unpause")

    def stop(self, *, timeout):
        self.calls.append("stop")

    def start(self):
        self.calls.append("start")
        self._on_start(self)

    def exec_run(self, command):
        self.calls.append(command)


class Cluster:
    """Containers of three services; `on_start` is called when one is started."""

    def __init__(self, folder, on_start=lambda container: None):
        self.by_service = {
            name: [Container(f"{name}-{n}", on_start) for n in (1, 2)] for name in ("redis", "trainer", "selfplay_worker")
        }
        self._folder = folder

    def containers(self, service):
        return self.by_service[service]

    def clock(self, service):
        return self._folder / f"{service}.shift"


@pytest.fixture
def disks(tmp_path, monkeypatch):
    monkeypatch.setattr("soak_disks.cannot_mount", lambda folder: "a test mounts nothing")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    found = Disks(tmp_path, size_mib=1)
    found.open()
    return found


@pytest.fixture
def clock(monkeypatch):
    """A clock that advances by a second at each look, and waits that take no time."""
    moments = iter(range(10_000))
    monkeypatch.setattr(soak_harms, "threading", SimpleNamespace(Event=lambda: SimpleNamespace(wait=lambda seconds: None)))
    return lambda: float(next(moments))


def planned(kind, service, *, file="", lasts_s=10.0, rolls=(0.9, 0.2, 0.0, 0.0)):
    return Planned(kind, service, 0.0, lasts_s, rolls, file)


def test_a_pause_ends_when_it_is_undone(tmp_path, disks, clock):
    cluster = Cluster(tmp_path)
    harms = Harms(cluster, disks, clock)
    harm = harms.do(planned("pause", "redis"))
    assert (harm.kind, harm.service, harm.detail) == ("pause", "redis", {"container": "redis-2"})
    assert harm.until_s == float("inf")
    assert cluster.by_service["redis"][1].calls == ["pause"]
    harms.undo(harm)
    assert cluster.by_service["redis"][1].calls == ["pause", "unpause"]
    assert harm.at_s < harm.until_s < float("inf")


def test_a_service_without_a_running_container_is_not_harmed(tmp_path, disks, clock):
    cluster = Cluster(tmp_path)
    for container in cluster.by_service["redis"]:
        container.status = "restarting"
    with pytest.raises(CannotHarm, match="no container of redis"):
        Harms(cluster, disks, clock).do(planned("kill", "redis", lasts_s=0.0))


def test_a_clock_jumps_and_jumps_back(tmp_path, disks, clock):
    cluster = Cluster(tmp_path)
    harms = Harms(cluster, disks, clock)
    harm = harms.do(planned("clock", "trainer"))
    assert harm.detail == {"shift_s": "+3600"}
    assert int.from_bytes(cluster.clock("trainer").read_bytes(), "little", signed=True) == 3600
    harms.undo(harm)
    assert cluster.clock("trainer").read_bytes() == bytes(8)


def games_file(disks):
    path = disks.path("run") / "replay/00000000.games"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"0123456789")
    return path


def test_a_damaged_file_stays_where_the_service_starts(tmp_path, disks, clock):
    path, cluster = games_file(disks), Cluster(tmp_path)
    harm = Harms(cluster, disks, clock).do(planned("byte", "trainer", file="games", lasts_s=0.0))
    assert harm.detail == {"file": "games", "path": "00000000.games", "byte": "2", "outcome": "started"}
    assert path.read_bytes() == b"0133456789"
    assert all(container.calls == ["stop", "start", "start"] for container in cluster.by_service["trainer"])
    assert list(path.parent.iterdir()) == [path]


def test_a_damaged_file_is_restored_where_the_service_refuses_it(tmp_path, disks, clock):
    path = games_file(disks)

    def refuse(container):
        container.attrs["State"]["Health"]["Status"] = "starting"

    cluster = Cluster(tmp_path, refuse)
    harm = Harms(cluster, disks, clock).do(planned("byte", "trainer", file="games", lasts_s=0.0))
    assert harm.detail["outcome"] == "refused"
    assert path.read_bytes() == b"0123456789"
    assert cluster.by_service["trainer"][0].calls == ["stop", "start", "stop", "start"]


def test_a_service_that_ends_again_and_again_has_refused_its_file(tmp_path, disks, clock):
    games_file(disks)

    class EndingCluster(Cluster):
        def containers(self, service):
            for container in self.by_service[service]:
                container.attrs["RestartCount"] = container.attrs.get("RestartCount", 0) + 1
                container.attrs["State"]["Health"]["Status"] = "starting"
            return self.by_service[service]

    harms = Harms(EndingCluster(tmp_path), disks, lambda: 0.0)  # a clock that stands: no time-out ends the wait
    assert harms.do(planned("byte", "trainer", file="games", lasts_s=0.0)).detail["outcome"] == "refused"


def test_a_file_that_redis_cuts_off_is_restored_while_its_clients_are_frozen(tmp_path, disks, clock):
    path = disks.path("stream") / "appendonlydir/appendonly.aof.1.incr.aof"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"0123456789")

    def cut_off(container):
        path.write_bytes(path.read_bytes()[:4])

    cluster = Cluster(tmp_path, cut_off)
    harm = Harms(cluster, disks, clock).do(planned("byte", "redis", file="append-only file", lasts_s=0.0))
    assert harm.detail["outcome"] == "refused"
    assert cluster.by_service["trainer"][0].calls == cluster.by_service["selfplay_worker"][1].calls == ["pause", "unpause"]
    assert cluster.by_service["redis"][0].calls == ["stop", "start", "stop", "start"]


def test_a_kind_of_file_that_does_not_exist_yet_costs_nothing(tmp_path, disks, clock):
    harm = Harms(Cluster(tmp_path), disks, clock).do(planned("byte", "trainer", file="index", lasts_s=0.0))
    assert harm.detail == {"file": "index", "outcome": "no such file yet"}


def test_a_fault_whose_container_is_gone_is_over(tmp_path, disks, clock):
    cluster = Cluster(tmp_path)
    harms = Harms(cluster, disks, clock)
    harm = harms.do(planned("pause", "redis"))

    def gone():
        raise OSError("no such process")

    harms._undo = gone
    harms.undo(harm)
    assert harm.detail["undone"] == "no such process"
    assert harm.until_s < float("inf")
