"""Cost of three browsers that look at a live run: what self-play loses, and the processor time of the pages.

    python -m benchmarks.browsers --pairs 6 --seconds 20

Starts `zerofleet run connect_four --preset laptop --ui`, and then takes windows of equal length in turn, without clients and
with three of them, in the order without, with, with, without, which cancels a drift of the run. The clients send the requests
of the pages' scripts: one follows the overview, one replays games on nine boards at two moves a second, and one opens the
curves every ten seconds. Each window counts the network evaluations of self-play for each second of processor time, of the
services alone and of all processes of the run, pages and supervisor included; wall-clock times, which other programs change, do
not matter. Further windows have one client alone.
"""

from __future__ import annotations

import argparse
import http.client
import json
import math
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from zerofleet.supervisor.pages import MetricsPage

__all__ = ["Browsers", "Window", "main"]

PAGES, WORKER = "ui", "worker-0"
BOARDS, MOVES_PER_S, HOLD_S = 9, 2.0, 2.0  # the defaults of the page Watch
CURVES_EVERY_S = 10.0
WARM_S = 30.0
SETTLE_S = 3.0  # until the pages are open, or the streams of the window before have ended
START_WITHIN_S = 300.0
T_95 = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26, 10: 2.23, 11: 2.20}


@dataclass(frozen=True, slots=True)
class Window:
    """Figures of a stretch of time."""

    evaluations: float
    services_s: float
    """Processor time of the services that train."""
    pages_s: float
    supervisor_s: float
    wall_s: float
    requests: int

    @property
    def per_service_second(self) -> float:
        """Evaluations for each second of processor time of the services."""
        return self.evaluations / self.services_s

    @property
    def per_second(self) -> float:
        """Evaluations for each second of processor time of all processes of the run."""
        return self.evaluations / (self.services_s + self.pages_s + self.supervisor_s)


CLIENTS = ("overview", "watch", "curves")


class Browsers:
    """Clients of the pages of a run, each in threads."""

    def __init__(self, port: int, run: str, clients: Sequence[str]) -> None:
        self._port = port
        self._clients = clients
        self._api, self._home = f"/api/v1/runs/{run}", f"/runs/{run}"
        self._ended = threading.Event()
        self._guard = threading.Lock()
        self.requests = 0
        """Requests, and events of a stream, so far."""

    def __enter__(self) -> Browsers:
        tasks = {"overview": [self._follow_overview], "watch": [self._watch_board] * BOARDS, "curves": [self._open_curves]}
        for client in self._clients:
            for task in tasks[client]:
                threading.Thread(target=task, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def _get(self, connection: http.client.HTTPConnection, path: str) -> bytes:
        connection.request("GET", path)
        content = connection.getresponse().read()
        self._count()
        return content

    def _count(self) -> None:
        with self._guard:
            self.requests += 1

    def _connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)

    def _follow_overview(self) -> None:
        connection = self._connection()
        self._get(connection, f"{self._home}/overview")
        connection.request("GET", f"{self._api}/events")
        answer = connection.getresponse()
        while not self._ended.is_set() and (line := answer.readline()):
            if line.startswith(b"event:"):
                self._count()
        answer.close()
        connection.close()

    def _open_curves(self) -> None:
        while not self._ended.is_set():
            connection = self._connection()
            for path in (f"{self._home}/curves", f"{self._api}/curves", "/api/v1/runs"):
                self._get(connection, path)
            connection.close()
            self._ended.wait(CURVES_EVERY_S)

    def _watch_board(self) -> None:
        connection, newest = self._connection(), -1
        while not self._ended.is_set():
            after = f"&after={newest}" if newest >= 0 else ""
            found = json.loads(self._get(connection, f"{self._api}/watch?limit={BOARDS}{after}"))["games"]
            if found:
                game = found[threading.get_ident() % len(found)]
                newest = found[0]["index"]
                for ply in range(game["plies"] + 1):
                    self._get(connection, f"{self._api}/watch/{game['uid']}/{ply}")
                    if self._ended.wait(1.0 / MOVES_PER_S):
                        return
            self._ended.wait(HOLD_S)


class LiveRun:
    """Run in progress, by its announce files."""

    def __init__(self, root: Path, supervisor: int) -> None:
        self.root = root
        self._supervisor = psutil.Process(supervisor)
        self._about = {file.stem: json.loads(file.read_bytes()) for file in (root / "services").glob("*.json")}
        self._processes = {name: psutil.Process(about["pid"]) for name, about in self._about.items()}

    @property
    def pages_port(self) -> int:
        """Port of the pages."""
        return int(str(self._about[PAGES]["address"]).rstrip("/").rpartition(":")[2])

    def evaluations(self) -> float:
        """Return the network evaluations of self-play so far."""
        address = f"http://127.0.0.1:{self._about[WORKER]['metrics_port']}/metrics"
        with urllib.request.urlopen(address, timeout=30) as answer:
            return MetricsPage(answer.read().decode()).total("zerofleet_evaluations_total", source="network")

    def processor_s(self) -> tuple[float, float, float]:
        """Return the processor times of the services that train, of the pages and of the supervisor."""
        used = {name: sum(process.cpu_times()[:2]) for name, process in self._processes.items()}
        pages = used.pop(PAGES)
        return sum(used.values()), pages, sum(self._supervisor.cpu_times()[:2])

    def window(self, seconds: float, clients: Sequence[str]) -> Window:
        """Measure for a time, with these clients."""
        with Browsers(self.pages_port, self.root.name, clients) as browsers:
            time.sleep(SETTLE_S)
            return self._measured(seconds, browsers)

    def _measured(self, seconds: float, browsers: Browsers) -> Window:
        before, evaluations, requests, began_s = self.processor_s(), self.evaluations(), browsers.requests, time.monotonic()
        time.sleep(seconds)
        after, ended_s = self.processor_s(), time.monotonic()
        services_s, pages_s, supervisor_s = (late - early for early, late in zip(before, after, strict=True))
        return Window(
            evaluations=self.evaluations() - evaluations,
            services_s=services_s,
            pages_s=pages_s,
            supervisor_s=supervisor_s,
            wall_s=ended_s - began_s,
            requests=browsers.requests - requests,
        )


@contextmanager
def running(root: Path, seed: int) -> Iterator[LiveRun]:
    """Start a run with pages, wait until it has games and a champion, and end it with the block."""
    words = ["run", "connect_four", "--preset", "laptop", "--ui", "--seed", str(seed), "--run-dir", str(root)]
    command = [str(Path(sys.executable).with_name("zerofleet")), *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            until_s = time.monotonic() + START_WITHIN_S
            names = [
                root / "services" / f"{name}.json" for name in (PAGES, WORKER, "trainer", "gatekeeper", "inference_server")
            ]
            while not all(file.exists() for file in names):
                if process.poll() is not None or time.monotonic() > until_s:
                    raise SystemExit(f"the run in {root} did not start")
                time.sleep(0.5)
            time.sleep(WARM_S)
            yield LiveRun(root, process.pid)
        finally:
            process.terminate()


def loss(pairs: Sequence[tuple[float, float]]) -> str:
    """Return the mean loss of the second against the first of each pair, in percent, with its 95 % interval (Student's t)."""
    lost = [100.0 * (1.0 - math.exp(math.log(on) - math.log(off))) for off, on in pairs]
    if len(lost) < 2:
        return f"{lost[0]:+.1f} %"
    half = T_95.get(len(lost) - 1, 1.96) * statistics.stdev(lost) / math.sqrt(len(lost))
    mean = statistics.fmean(lost)
    return f"{mean:+.1f} % (95 % interval {mean - half:+.1f} to {mean + half:+.1f})"


def main() -> None:
    """Measure and print the windows and their comparison."""
    parser = argparse.ArgumentParser(description="Measure what three browsers cost a live run.")
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=20.0, help="length of a window")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    pairs = []
    head = "| clients | evaluations | services s | pages s | supervisor s | wall s | requests/s |"
    sys.stdout.write(f"{head}\n| --- |{' ---: |' * 6}\n")
    with tempfile.TemporaryDirectory() as folder, running(Path(folder) / "run", given.seed) as run:

        def measured(clients: Sequence[str]) -> Window:
            one = run.window(given.seconds, clients)
            cells = f"{one.services_s:.2f} | {one.pages_s:.2f} | {one.supervisor_s:.2f} | {one.wall_s:.1f}"
            name = ", ".join(clients) or "none"
            sys.stdout.write(f"| {name} | {one.evaluations:,.0f} | {cells} | {one.requests / one.wall_s:.1f} |\n")
            sys.stdout.flush()
            return one

        measured(CLIENTS)  # opens the pages, which compiles the rules
        for number in range(given.pairs):
            first, second = (measured(clients) for clients in (((), CLIENTS) if number % 2 == 0 else (CLIENTS, ())))
            pairs.append((first, second) if number % 2 == 0 else (second, first))
        for client in CLIENTS:
            measured([client])
    for text in _summary(pairs):
        sys.stdout.write(f"{text}\n")


def _summary(pairs: Sequence[tuple[Window, Window]]) -> Iterator[str]:
    alone = loss([(off.per_service_second, on.per_service_second) for off, on in pairs])
    whole = loss([(off.per_second, on.per_second) for off, on in pairs])
    yield f"\nself-play loses, for each processor second of the services: {alone}"
    yield f"for each processor second of the whole run, pages included: {whole}"
    with_clients = [on for _, on in pairs]
    wall_s, used_s = (sum(getattr(one, name) for one in with_clients) for name in ("wall_s", "pages_s"))
    requests = sum(one.requests for one in with_clients)
    yield f"pages with three clients: {used_s / wall_s:.3f} of a core, {requests / wall_s:.0f} requests a second"
    yield f"{1000 * used_s / max(1, requests):.1f} ms of processor time a request"


if __name__ == "__main__":
    main()
