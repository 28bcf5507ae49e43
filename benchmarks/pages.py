"""Time, processor time and memory of `zerofleet ui` over a large run.

    python -m benchmarks.large_run --source runs/connect_four-laptop --target runs/large/million
    python -m benchmarks.pages --runs runs/large --requests 40 --polls 3000

Every page is opened on a freshly started server ("first"), then asked again and again, with nothing changed ("warm") and with a
row of the metrics, a game and a line of the gate's journal appended before each request ("changed"), as during a run. Then
clients ask for everything in turn for a long time, while the resident memory is sampled. The figures are Markdown tables. The
wall-clock times include the wait for a processor where other programs run; the processor time is that of the server alone.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from benchmarks.large_run import Growth
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.gate_journal import JOURNAL_FILE
from zerofleet.storage.runs import RunPaths

__all__ = ["Reply", "Server", "main", "pages_of", "started"]

API = "/api/v1"
MIB = 1 << 20
TARGET_MS = 300.0


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer to a request."""

    status: int
    size_bytes: int
    wall_ms: float
    processor_ms: float
    """Processor time of the server meanwhile."""


class Server:
    """Process of `zerofleet ui`."""

    def __init__(self, process: psutil.Process, port: int) -> None:
        self._process = process
        self._port = port
        self._local = threading.local()

    @property
    def address(self) -> str:
        """Address of the pages."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def processor_s(self) -> float:
        """Processor time so far."""
        used = self._process.cpu_times()
        return float(used.user + used.system)

    @property
    def resident_mib(self) -> float:
        """Resident memory, without the pages of files that the kernel may evict."""
        found = self._process.memory_info()
        return float(found.rss - found.shared) / MIB

    @property
    def peak_mib(self) -> float:
        """Highest resident memory so far, without the pages of files that are resident now. Linux only."""
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        peak_kib = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
        return peak_kib / 1024 - float(self._process.memory_info().shared) / MIB

    def ask(self, path: str) -> Reply:
        """Send a request and read its answer."""
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)
        used_s, began_s = self.processor_s, time.perf_counter()
        connection.request("GET", path)
        answer = connection.getresponse()
        content = answer.read()
        ended_s = time.perf_counter()
        return Reply(answer.status, len(content), 1000 * (ended_s - began_s), 1000 * (self.processor_s - used_s))


@contextmanager
def started(runs: Path, cache: Path | None = None, settle_s: float = 0.0) -> Iterator[Server]:
    """Start the pages over a folder of runs, with a cache directory or none; end them with the block.

    `settle_s`: pause before the first request, as long as a person needs to open the address.
    """
    command = [sys.executable, "-m", "ui", "--runs", str(runs), "--page-port", "0", "--log-format", "json"]
    command += ["--journal-cache", "" if cache is None else str(cache)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            port = _port(process)
            time.sleep(settle_s)
            yield Server(psutil.Process(process.pid), port)
        finally:
            process.terminate()


def _port(process: subprocess.Popen[str]) -> int:
    lines = []
    for line in process.stdout or ():
        lines.append(line)
        if '"service.ready"' in line:
            threading.Thread(target=(process.stdout or open(os.devnull)).read, daemon=True).start()  # noqa: PTH123, SIM115
            return int(json.loads(line)["address"].rstrip("/").rpartition(":")[2])
    raise SystemExit("the pages did not start:\n" + "".join(lines))


def pages_of(paths: RunPaths) -> dict[str, dict[str, str]]:
    """Return the requests of each page of a run as its modules send them, by the name of the page and of the request."""
    run = paths.root.name
    home, api = f"/runs/{run}", f"{API}/runs/{run}"
    with GameLog.open(paths.replay, writer=False) as log:
        newest, middle, oldest = (log.get(place).uid for place in (log.end_index - 1, log.end_index // 2, log.start_index))
        half = log.end_index // 2
    lines = (paths.gatekeeper / JOURNAL_FILE).read_text().splitlines()
    opened = [json.loads(line)["match_id"] for line in lines if line.startswith('{"event":"match"') and '"gate"' in line]
    versions = [int(one.name) for one in paths.models.glob("*/*") if one.name.isdecimal()]
    match_id, version = opened[len(opened) // 2], sorted(versions)[len(versions) // 2]
    return {
        "Runs": {"HTML": "/", "runs": f"{API}/runs"},
        "Overview": {"HTML": f"{home}/overview", "state": f"{api}/overview"},
        "Curves": {"HTML": f"{home}/curves", "series": f"{api}/curves", "runs": f"{API}/runs"},
        "Ladder": {
            "HTML": f"{home}/ladder",
            "ratings": f"{api}/ladder",
            "table of `zerofleet ladder`": f"{api}/ladder/games?games=20&every=1",
        },
        "Models": {
            "HTML": f"{home}/models",
            "newest 100": f"{api}/models?limit=100",
            "100 from the middle": f"{api}/models?limit=100&before={version}",
            "champions": f"{api}/models?limit=100&champions=1",
            "one version": f"{api}/models/{version}",
        },
        "Matches": {"HTML": f"{home}/matches", "list": f"{api}/matches", "one match": f"{api}/match?id={match_id}"},
        "Games": {
            "HTML": f"{home}/games",
            "newest 50": f"{api}/games?limit=50",
            "50 from the middle": f"{api}/games?limit=50&before={half}",
            "oldest 50": f"{api}/games?limit=50&before=50",
        },
        "Replay": {
            "HTML": f"{home}/games/{oldest}",
            "oldest game": f"{api}/games/{oldest}",
            "by 12 digits": f"{api}/games/{middle[:12]}",
            "board": f"{api}/games/{oldest}/boards/5",
        },
        "Watch": {"HTML": f"{home}/watch", "newest 9": f"{api}/watch?limit=9", "board": f"{api}/watch/{newest}/5"},
        "Cluster": {"HTML": f"{home}/cluster", "plan": f"{api}/cluster"},
    }


def _start_rows(runs: Path, asked_pages: dict[str, dict[str, str]], settle_s: float) -> Iterator[str]:
    """Yield a row for each request of each page: first answers of fresh servers without, with an empty and a filled cache."""
    with tempfile.TemporaryDirectory() as folder:
        for page, asked in asked_pages.items():
            cells: dict[str, list[str]] = {name: [] for name in asked}
            home = Path(folder) / page
            for cache in (None, home, home):
                with started(runs, cache, settle_s) as server:
                    for name, path in asked.items():
                        told = _good(server.ask(path), path)
                        cells[name] += [f"{told.wall_ms:.0f}", f"{told.processor_ms:.0f}"]
            for name in asked:
                yield f"| {page} | {name} | {' | '.join(cells[name])} |"


def _rows(runs: Path, paths: RunPaths, requests: int) -> Iterator[str]:
    """Yield a row for each request of each page: first, warm and changed times, and memory."""
    pages = pages_of(paths)
    first: dict[tuple[str, str], Reply] = {}
    memory = {}
    for page, asked in pages.items():
        with started(runs) as server:
            for name, path in asked.items():
                first[page, name] = _good(server.ask(path), path)
            memory[page] = (server.resident_mib, server.peak_mib)
    with started(runs) as server, Growth(paths) as growth:
        for page, asked in pages.items():
            for name, path in asked.items():
                _good(server.ask(path), path)
                warm = [server.ask(path) for _ in range(requests)]
                changed = []
                for _ in range(max(3, requests // 4)):
                    growth.grow()
                    changed.append(server.ask(path))
                told = first[page, name]
                cells = [f"{told.size_bytes / 1000:.0f}", f"{told.wall_ms:.0f}", f"{told.processor_ms:.0f}"]
                cells += [*_summary(warm), *_summary(changed)]
                of_page = " | ".join(f"{size:.0f}" for size in memory[page]) if name == [*asked][-1] else " | "
                yield f"| {page} | {name} | {' | '.join(cells)} | {of_page} |"


def _summary(replies: Sequence[Reply]) -> list[str]:
    walls = [one.wall_ms for one in replies]
    used = statistics.fmean(one.processor_ms for one in replies)
    return [f"{statistics.median(walls):.1f}", f"{np.percentile(walls, 95):.1f}", f"{used:.1f}"]


def _good(reply: Reply, path: str) -> Reply:
    if reply.status != http.client.OK:
        raise SystemExit(f"{path} has status {reply.status}")
    return reply


def _poll(server: Server, paths: Sequence[str], times: int, clients: int) -> list[Reply]:
    """Return the answers to `times` requests, divided among clients that ask at once."""
    replies: list[Reply] = []

    def ask(client: int) -> None:
        for number in range(times // clients):
            path = paths[(number + client * len(paths) // clients) % len(paths)]
            replies.append(_good(server.ask(path), path))

    threads = [threading.Thread(target=ask, args=(client,)) for client in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return replies


def _poll_rows(runs: Path, paths: RunPaths, polls: int, rounds: int = 6) -> Iterator[str]:
    """Yield a row for each round of polls: clients, requests, times and memory; the run grows between rounds."""
    asked = [path for page in pages_of(paths).values() for path in page.values()]
    with started(runs) as server, Growth(paths) as growth:
        yield f"| start | 0 | | | | {server.resident_mib:.0f} | {server.peak_mib:.0f} |"
        for number in range(rounds):
            clients = 1 if number % 2 == 0 else 3
            growth.grow()
            used_s, began_s = server.processor_s, time.perf_counter()
            replies = _poll(server, asked, polls // rounds, clients)
            wall_s = time.perf_counter() - began_s
            used_ms = 1000 * (server.processor_s - used_s) / len(replies)
            walls = sorted(one.wall_ms for one in replies)
            cells = f"{statistics.median(walls):.1f} | {np.percentile(walls, 95):.1f} | {used_ms:.1f}"
            memory = f"{server.resident_mib:.0f} | {server.peak_mib:.0f}"
            yield f"| {clients} | {len(replies):,} in {wall_s:.0f} s | {cells} | {memory} |"


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description="Measure the pages over a large run.")
    parser.add_argument("--runs", type=Path, required=True, help="folder with the large run alone; it grows a little")
    parser.add_argument("--requests", type=int, default=40, help="warm requests of each kind")
    parser.add_argument("--polls", type=int, default=3000, help="requests of the long poll; 0 for none")
    parser.add_argument("--starts", action="store_true", help="measure first answers alone, without and with a cache directory")
    parser.add_argument("--settle", type=float, default=0.0, help="seconds between a start and its first request, for --starts")
    parser.add_argument("--pages", nargs="*", default=(), help="pages of --starts, such as Models; all by default")
    given = parser.parse_args()
    paths = RunPaths(next(given.runs.glob("*/run.json")).parent)
    if given.starts:
        kinds = ("without", "proc.", "empty cache", "proc.", "second start", "proc.")
        sys.stdout.write(f"| page | request | {' | '.join(kinds)} |\n| --- | --- |{' ---: |' * 6}\n")
        chosen = {page: asked for page, asked in pages_of(paths).items() if not given.pages or page in given.pages}
        for row in _start_rows(given.runs, chosen, given.settle):
            sys.stdout.write(f"{row}\n")
            sys.stdout.flush()
        sys.stdout.write(f"\nload {os.getloadavg()[0]:.1f}; milliseconds\n")
        return
    head = "| page | request | kB | first ms | proc. ms | warm ms | p95 | proc. | changed ms | p95 | proc. | MiB | peak |"
    sys.stdout.write(f"{head}\n| --- | --- |{' ---: |' * 11}\n")
    for row in _rows(given.runs, paths, given.requests):
        sys.stdout.write(f"{row}\n")
        sys.stdout.flush()
    if given.polls:
        sys.stdout.write(
            "\n| clients | requests | median ms | p95 | processor ms each | MiB | peak |\n| --- |" + " ---: |" * 6 + "\n"
        )
        for row in _poll_rows(given.runs, paths, given.polls):
            sys.stdout.write(f"{row}\n")
            sys.stdout.flush()
    load = " ".join(f"{one:.1f}" for one in os.getloadavg())
    sys.stdout.write(f"\nload {load}; target {TARGET_MS:.0f} ms\n")


if __name__ == "__main__":
    main()
