"""The processes of a load test: a server over networks of random weights, and clients that flood it; all on loopback."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from games.core import Game
from trainer.export import Lineage, export_network
from trainer.network import new_network
from zerofleet.contracts.encodings import sample_positions
from zerofleet.contracts.naming import model_name
from zerofleet.contracts.priorities import Priority
from zerofleet.evaluators.base import LeafBatch
from zerofleet.evaluators.kserve import KServeEvaluator
from zerofleet.presets import preset
from zerofleet.storage.model_store import DirectoryStore

FOLDER = Path(__file__).parent
MIB = 1 << 20


class Lines:
    """A process that answers a line of JSON with a line of JSON."""

    def __init__(self, command: Sequence[str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, wanted: object) -> None:
        self.process.stdin.write(json.dumps(wanted) + "\n")
        self.process.stdin.flush()

    def hear(self):
        line = self.process.stdout.readline()
        assert line, f"{self.process.args} ended with {self.process.wait()}"
        return json.loads(line)


@contextlib.contextmanager
def talking(*command: str) -> Iterator[Lines]:
    """Start a process of lines; end it afterwards."""
    peer = Lines([sys.executable, *command])
    try:
        yield peer
    finally:
        peer.process.terminate()
        peer.process.communicate()


class Flood:
    """Client processes that share the clients evenly."""

    def __init__(self, peers: Sequence[Lines]) -> None:
        self._peers = peers

    def start(self, *, seconds: float, clients: int, pause_s: float = 0.0) -> None:
        """Let `clients` ask for `seconds`."""
        used = self._peers[:clients]
        shares = [clients // len(used) + (index < clients % len(used)) for index in range(len(used))]
        for peer, share in zip(used, shares, strict=True):
            peer.tell({"seconds": seconds, "clients": share, "pause_s": pause_s})
        self._asked = used

    def result(self) -> dict[str, list[float]]:
        """Wait for the end; return all latencies in ms by status."""
        merged: dict[str, list[float]] = defaultdict(list)
        for peer in self._asked:
            for status, latencies in peer.hear().items():
                merged[status] += latencies
        return merged

    def ask(self, **wanted: float) -> dict[str, list[float]]:
        """Start and wait."""
        self.start(**wanted)
        return self.result()


@contextlib.contextmanager
def flooding(target: str, request: Path, *, processes: int, nice: int) -> Iterator[Flood]:
    """Start client processes; end them afterwards."""
    words = (str(FOLDER / "load_client.py"), "--target", target, "--request", str(request), "--nice", str(nice))
    with contextlib.ExitStack() as stack:
        yield Flood([stack.enter_context(talking(*words)) for _ in range(processes)])


def publish(store: DirectoryStore, game: Game, *, preset_name: str, seed: int) -> int:
    """Store a network of random weights, which costs as much to evaluate as a trained one; return its version."""
    settings = preset(game, preset_name).network
    return export_network(store, game, new_network(game.spec(), settings, seed=seed), settings, lineage=Lineage())


def write_request(path: Path, game: Game, *, rows: int, version: int) -> Path:
    """Write a request for `rows` positions of random games, as a worker sends it."""
    states, legal = sample_positions(game, games=1 + rows // 4, seed=1)
    while len(states) < rows:
        raise AssertionError(f"{len(states)} positions, want {rows}")
    batch = LeafBatch(states[:rows], legal[:rows])
    request = KServeEvaluator._request(_Asker(model_name(game)), batch, version)  # the worker's own way to word it
    path.write_bytes(request.SerializeToString())
    return path


class _Asker:
    """What the worker's evaluator needs to know to word a request."""

    def __init__(self, model: str) -> None:
        self._model, self._priority = model, Priority.DEFAULT


class Server:
    """Our inference server as a process."""

    def __init__(self, process: subprocess.Popen[bytes], address: str) -> None:
        self.address = address
        self.about = psutil.Process(process.pid)
        self.fronts = self.about.children()

    def memory_mib(self) -> float:
        """Resident memory of all its processes."""
        return sum(part.memory_info().rss for part in (self.about, *self.fronts)) / MIB

    def processor_s(self) -> tuple[float, float]:
        """Processor time so far of the device's process, and of the front ends."""
        device, *fronts = (sum(part.cpu_times()[:2]) for part in (self.about, *self.fronts))
        return device, sum(fronts)

    @contextlib.contextmanager
    def watched(self, every_s: float = 0.5) -> Iterator[list[float]]:
        """Sample the memory while the block runs."""
        samples: list[float] = []
        over = threading.Event()

        def look() -> None:
            while not over.wait(every_s):
                samples.append(self.memory_mib())

        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield samples
        finally:
            over.set()
            thread.join()


@contextlib.contextmanager
def serving(store: Path, log: Path, *arguments: str) -> Iterator[Server]:
    """Run our server on a free port until the block ends; it must end cleanly."""
    command = [sys.executable, "-m", "inference_server", "--model-store", str(store), "--address", "127.0.0.1:0", *arguments]
    with log.open("wb") as out:
        process = subprocess.Popen([*command, "--announce", str(log.with_suffix(".json"))], stdout=out, stderr=out)
    try:
        yield Server(process, _announced(process, log))
    finally:
        process.terminate()
        process.wait(timeout=60)
        assert process.returncode == 0, log.read_text()[-2000:]


def _announced(process: subprocess.Popen[bytes], log: Path) -> str:
    pause = threading.Event()
    end_s = time.monotonic() + 120
    while time.monotonic() < end_s and process.poll() is None:
        with contextlib.suppress(OSError, ValueError):
            return json.loads(log.with_suffix(".json").read_bytes())["address"]
        pause.wait(0.1)
    raise AssertionError(f"the server did not start:\n{log.read_text()[-2000:]}")
