"""A cluster loses a container to SIGKILL every minute: no game is lost, no memory grows, no error is without a cause."""

from __future__ import annotations

import random
import threading
import time

import docker
import pytest
from soak_cluster import SERVICES, SoakCluster, parse_time
from soak_logs import Kill, Line, loud
from soak_memory import Sample
from soak_report import LIMIT_MIB_PER_MIN, Findings, write

import games
from zerofleet.contracts.naming import model_name
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.model_store import DirectoryStore

GAME = "connect_four"
KILL_EVERY_S = 60.0
LOOK_EVERY_S = 5.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(4 * 3600)]


class Soak:
    """Looks at the cluster every few seconds and kills a container every minute."""

    def __init__(self, cluster: SoakCluster, findings: Findings) -> None:
        self._cluster = cluster
        self.findings = findings
        self._rng = random.Random(findings.seed)
        self._began_s = time.monotonic()
        self._began_at = time.time()
        self._killed_s: float | None = None

    def run(self, minutes: float) -> None:
        """Hurt the cluster for so long, then let it come to rest."""
        next_kill_s, end_s = KILL_EVERY_S, 60 * minutes
        while self.now_s() < end_s:
            self.look()
            if self.now_s() >= next_kill_s:
                next_kill_s += KILL_EVERY_S
                self.kill()
            _pause(LOOK_EVERY_S)
        self.findings.minutes = self.now_s() / 60

    def now_s(self) -> float:
        return time.monotonic() - self._began_s

    def kill(self) -> None:
        """Kill any of the containers that run."""
        running = [(name, c) for name, c in self._cluster.all_containers() if c.status == "running"]
        service, container = self._rng.choice(running)
        self.findings.kills.append(Kill(service, self.now_s()))
        self._killed_s = self.now_s()
        self._cluster.kill_container(container)
        print(f"{self.now_s() / 60:5.1f} min: killed {container.name}", flush=True)

    def look(self) -> None:
        """Note memory and lines of logs of every container."""
        for service, container in self._cluster.all_containers():
            try:
                self._note(service, container)
            except docker.errors.APIError:  # it is just being started again
                continue
        if self._killed_s is not None and self._cluster.is_healthy():
            self.findings.recovery_s.append(self.now_s() - self._killed_s)
            self._killed_s = None

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


def _pause(seconds: float) -> None:
    threading.Event().wait(seconds)


@pytest.fixture(scope="module")
def cluster(request):
    cluster = SoakCluster(GAME, "tiny", workers=request.config.getoption("workers"))
    cluster.compose("build")
    try:
        yield cluster
    finally:
        cluster.compose("down", "--volumes", "--timeout", "5")


@pytest.fixture(scope="module")
def findings(request, cluster, tmp_path_factory):
    """Everything a soak found; its report is written before the first test looks at it."""
    options = request.config.getoption
    found = Findings(seed=options("seed"), workers=cluster.workers)
    cluster.up()
    cluster.wait("the first champion", lambda: cluster.champion() >= 1, seconds=600)
    soak = Soak(cluster, found)
    try:
        soak.run(options("minutes"))
        _count(cluster, found, tmp_path_factory.mktemp("soak"))
        soak.look()
    finally:
        print(write(found, options("report")), flush=True)
    return found


def _count(cluster, found, folder) -> None:
    """Let the cluster come to rest and compare what was published with what is stored."""
    cluster.wait("every service is healthy", cluster.is_healthy, seconds=300)
    cluster.compose("stop", "selfplay_worker")

    def is_drained():
        page = cluster.metrics("trainer")
        return [page.value(f"zerofleet_stream_{what}_entries") for what in ("lag", "pending", "dead")] == [0, 0, 0]

    cluster.wait("the stream is empty", is_drained, seconds=300)
    found.champion = cluster.champion()
    cluster.compose("stop", "trainer")
    sent = cluster.published(folder)
    with GameLog.open(cluster.copy("trainer", "/data/replay", folder), writer=False) as log:
        stored = list(log.uids())
    found.published, found.stored = len(set(sent)), len(stored)
    found.twice = len(stored) - len(set(stored))
    found.lost, found.unasked = len(set(sent) - set(stored)), len(set(stored) - set(sent))
    game = games.core.make(GAME)
    store = DirectoryStore(cluster.copy("gatekeeper", "/data/models", folder))
    champion = store.champion(model_name(game))
    assert champion is not None
    store.verify(model_name(game), champion.version, game=game)


def test_every_published_game_is_counted_exactly_once(findings):
    assert findings.published > 0
    assert (findings.lost, findings.twice, findings.unasked) == (0, 0, 0)


def test_the_champion_is_a_trained_and_sound_one(findings):
    assert findings.champion >= 2


def test_no_service_grows(findings):
    slopes = findings.slopes()
    assert set(slopes) == set(SERVICES)
    grown = {name: found for name, found in slopes.items() if found is None or found.high >= LIMIT_MIB_PER_MIN}
    assert not grown


def test_every_warning_and_error_is_explained(findings):
    unexplained = findings.unexplained()
    assert not unexplained, "\n".join(f"{line.at_s:.1f} {line.service}: {line.text[:400]}" for line in unexplained[:40])
