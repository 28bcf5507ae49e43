"""A cluster suffers a fault every minute: no game is lost, no memory grows, no error is without a cause."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

import docker
import pytest
from soak_cluster import SERVICES, SoakCluster, compose, parse_time
from soak_disks import Disks
from soak_faults import DAMAGE_BY_NAME, Harm, chosen_kinds, games_allowed_lost, plan
from soak_harms import CannotHarm, Harms, missing
from soak_logs import Line, loud
from soak_memory import Sample
from soak_report import LIMIT_MIB_PER_MIN, Findings, write
from soak_slices import Run, begin_slice, load_run, load_slices, save_run, save_slice, total

import games
from zerofleet.contracts.naming import model_name
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.model_store import DirectoryStore

GAME = "connect_four"
LOOK_EVERY_S = 5.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(26 * 3600)]


class Soak:
    """Looks at the cluster every few seconds and makes the faults of a plan."""

    def __init__(self, cluster: SoakCluster, disks: Disks, findings: Findings) -> None:
        self._cluster = cluster
        self.findings = findings
        self._began_s = time.monotonic()
        self._began_at = time.time()
        self._harms = Harms(cluster, disks, self.now_s)
        self._recovering: Harm | None = None

    def run(self, number: int, minutes: float, every_s: float, kinds: list[str]) -> None:
        """Hurt the cluster for so long, then undo the last fault."""
        to_come = plan(self.findings.seed, number, 60 * minutes, every_s, kinds)
        present: tuple[Harm, float] | None = None
        while self.now_s() < 60 * minutes:
            self.look()
            if present is not None and self.now_s() >= present[1]:
                self._undo(present[0])
                present = None
            if present is None and to_come and self.now_s() >= to_come[0].at_s:
                planned = to_come.pop(0)
                harm = self._do(planned)
                present = None if harm is None else (harm, harm.at_s + planned.lasts_s)
            threading.Event().wait(LOOK_EVERY_S)
        if present is not None:
            self._undo(present[0])
        self.findings.minutes = self.now_s() / 60

    def now_s(self) -> float:
        return time.monotonic() - self._began_s

    def _do(self, planned) -> Harm | None:
        try:
            harm = self._harms.do(planned)
        except (CannotHarm, docker.errors.APIError) as error:
            print(f"{self.now_s() / 60:5.1f} min: no {planned.kind} of {planned.service}: {error}", flush=True)
            return None
        self.findings.harms.append(harm)
        print(f"{harm.at_s / 60:5.1f} min: {harm.kind} of {harm.service} {harm.detail}", flush=True)
        return harm

    def _undo(self, harm: Harm) -> None:
        self._harms.undo(harm)
        self._recovering = harm

    def look(self) -> None:
        """Note memory and lines of logs of every container."""
        for service, container in self._cluster.all_containers():
            try:
                self._note(service, container)
            except docker.errors.APIError:  # it is just being started again
                continue
        if self._recovering is not None and self._cluster.is_healthy():
            self._recovering.recovery_s = self.now_s() - self._recovering.until_s
            self._recovering = None

    def _note(self, service, container) -> None:
        state = container.attrs["State"]
        mib = self._cluster.memory_mib(container) if container.status == "running" else None
        if mib is not None:
            age_s = time.time() - parse_time(state["StartedAt"]).timestamp()
            life = f"{container.name} {state['StartedAt']}"
            self.findings.samples.append(Sample(service, life, self.now_s(), age_s, mib))
        for stamp, text in self._cluster.new_lines(container):
            line = Line(service, stamp.timestamp() - self._began_at, text)
            if loud(line):
                self.findings.loud.append(line)


@pytest.fixture(scope="module")
def folder(request):
    """Where a soak lies: the folder to go on with, or a new one, which is removed with everything in it at the end."""
    resumed = request.config.getoption("resume")
    if resumed is not None:
        yield resumed.resolve()
        return
    once: Path = request.config.getoption("report").resolve() / "cluster"
    Disks(once, size_mib=0).remove()  # those of an interrupted soak may be mounted
    shutil.rmtree(once, ignore_errors=True)
    yield once
    shutil.rmtree(once, ignore_errors=True)


@pytest.fixture(scope="module")
def disks(request, folder):
    folder.mkdir(parents=True, exist_ok=True)
    disks = Disks(folder, size_mib=request.config.getoption("disk_mib"))
    disks.open()
    yield disks
    disks.close()


@pytest.fixture(scope="module")
def run(request, folder):
    options = request.config.getoption
    return load_run(folder, Run(f"zerofleet-soak-{time.time_ns():x}", options("seed"), options("workers")))


@pytest.fixture(scope="module")
def cluster(request, folder, disks, run):
    cluster = SoakCluster(GAME, "tiny", folder, disks, workers=run.workers, project=run.project)
    cluster.compose("build")
    try:
        cluster.end()  # containers that an interrupted slice has left, with the faults made to them
        yield cluster
    finally:
        cluster.end()
        if request.config.getoption("resume") is None:
            cluster.compose("down", "--volumes")
            disks.remove()


@pytest.fixture(scope="module")
def findings(request, folder, disks, run, cluster):
    """Everything that this and earlier slices found; the report is written before the first test looks at it."""
    options = request.config.getoption
    kinds, not_made = chosen_kinds(options("faults"), missing(disks, cluster.clock_missing))
    for kind, why in not_made.items():
        print(f"NOT MADE: {kind}: {why}", flush=True)
    number = begin_slice(folder)
    found = Findings(seed=run.seed, workers=run.workers, not_made=not_made)
    cluster.up()
    cluster.wait("the first champion", lambda: cluster.champion() >= 1, seconds=600)
    soak = Soak(cluster, disks, found)
    soak.run(number, options("minutes"), options("every"), kinds)
    _rest(cluster, found)
    soak.look()
    cluster.end()
    _count(disks, run, found)
    save_slice(folder, number, found)
    save_run(folder, run)
    shutil.rmtree(disks.path("stream") / "appendonlydir")  # its games are counted; else every start of Redis reads them all
    slices, unfinished = load_slices(folder)
    summed = total(slices, unfinished=unfinished)
    print(write(summed, options("report")), flush=True)
    return summed


def _rest(cluster, found) -> None:
    """Let the cluster come to rest: no game under way, none in the stream."""
    cluster.wait("every service is healthy", cluster.is_healthy, seconds=300)
    cluster.compose("stop", "selfplay_worker")
    allowed = games_allowed_lost(found.harms)

    def is_drained():
        page = cluster.metrics("trainer")
        lag, pending, dead = (page.value(f"zerofleet_stream_{what}_entries") for what in ("lag", "pending", "dead"))
        return lag == pending == 0 and dead is not None and dead <= allowed

    cluster.wait("the stream is empty", is_drained, seconds=300)
    found.champion = cluster.champion()


def _count(disks, run, found) -> None:
    """Compare what was published with what is stored since the last slice that was counted."""
    logs = sorted((disks.path("stream") / "appendonlydir").glob("*.incr.aof"))
    sent = [uid for log in logs for uid in compose.added(log, b"games")]
    with GameLog.open(disks.path("run") / "replay", writer=False) as log:
        stored = [game.uid for game in log.scan(run.counted_games)]
        run.counted_games = log.end_index
    found.published, found.stored = len(set(sent)), len(stored)
    found.twice = len(stored) - len(set(stored))
    found.lost, found.unasked = len(set(sent) - set(stored)), len(set(stored) - set(sent))
    game = games.core.make(GAME)
    store = DirectoryStore(disks.path("models"))
    champion = store.champion(model_name(game))
    assert champion is not None
    store.verify(model_name(game), champion.version, game=game)


def test_every_published_game_is_counted_exactly_once(findings):
    assert findings.published > 0
    assert not findings.broken_rules()


def test_the_champion_is_a_trained_and_sound_one(findings):
    assert findings.champion >= 2


def test_damaged_files_are_refused_only_where_it_is_documented(findings):
    refused = {harm.detail["file"] for harm in findings.harms if harm.detail.get("outcome") == "refused"}
    assert all(DAMAGE_BY_NAME[name].refuses for name in refused), refused


def test_no_service_grows(findings):
    slopes = findings.slopes()
    assert set(slopes) == set(SERVICES)
    grown = {name: found for name, found in slopes.items() if found is None or found.high >= LIMIT_MIB_PER_MIN}
    assert not grown


def test_every_warning_and_error_is_explained(findings):
    unexplained = findings.unexplained()
    assert not unexplained, "\n".join(f"{line.at_s:.1f} {line.service}: {line.text[:400]}" for line in unexplained[:40])
