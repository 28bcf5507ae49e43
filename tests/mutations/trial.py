"""Trial of a mutation: a copy of the tree, the change, and the tests that name the promise.

A copy is a tree of hard links, compiled code included, in which the changed files are written anew: it takes a fraction of a
second, and only what changed is compiled again. The process of the tests is forked from one that has imported other packages.

The tests of a promise come in two stages: those of its own file, which run in one process, and then those with processes of
their own, which only a mutation that survives the first stage meets.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn, Self

from mutations import ROOT

PRELOADED = (
    *("pytest", "_pytest.assertion.rewrite", "asyncio", "tracemalloc"),
    *("numpy.random", "numba", "numba.core.caching", "scipy.linalg", "torch", "safetensors.numpy", "grpc.aio"),
    *("grpc_health.v1.health", "grpc_reflection.v1alpha.reflection", "tritonclient.grpc", "google.protobuf.json_format"),
    *("pydantic_settings", "structlog", "prometheus_client", "psutil", "redis.asyncio", "opentelemetry.sdk.trace.export"),
    *("cryptography.x509", "rich.console"),
)
Stage = Literal["own", "processes"]
COPIED = (
    *("games", "zerofleet", "inference_server", "selfplay_worker", "trainer", "gatekeeper", "laboratory"),
    *("tests/conftest.py", "tests/promises", "tests/gatekeeper", "tests/inference_server", "tests/processes"),
    *("tests/selfplay_worker", "tests/simulation", "tests/streams", "pyproject.toml"),
)
"""Entries of the tree that the tests of the promises reach."""
TEST_TIMEOUT_S = 120  # of one test: a caller that is never answered is found after its own time limit, far below
PROCESS_TIMEOUT_S = 1200
_FAILED = re.compile(r"^(?:FAILED|ERROR) \S+::(\w+)", re.MULTILINE)
_PASSED = re.compile(r"\b\d+ passed\b")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of the tests of a promise on one tree."""

    killed_by: str
    """First test that failed; empty when all passed."""
    seconds: float
    fault: str = ""
    """Output of a run in which the tests could not be run at all."""


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy of the tree in `build/mutations`, and beside it the output of its tests."""

    place: Path

    @classmethod
    def make(cls) -> Self:
        """Copy the tree."""
        home = ROOT / "build" / "mutations"
        home.mkdir(parents=True, exist_ok=True)
        copy = cls(Path(tempfile.mkdtemp(dir=home)))
        for name in COPIED:
            source, target = ROOT / name, copy.place / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, copy_function=_link)
            else:
                _link(source, target)
        return copy

    @property
    def output(self) -> Path:
        return self.place / "output.txt"

    def remove(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)


def _link(source: str | Path, target: str | Path) -> None:
    try:
        os.link(source, target)
    except FileNotFoundError:
        if "__pycache__" not in Path(source).parts:  # compiled code goes when another process compiles its source anew
            raise
    except OSError:  # a file system without hard links; the time stamp is what compiled code is compared with
        shutil.copy2(source, target)


def write(place: Path, texts: dict[str, str]) -> None:
    """Replace files of a copy; the linked original keeps its content."""
    for name, text in texts.items():
        (place / name).unlink()
        (place / name).write_text(text)


def tests_of(promise: str, stage: Stage) -> list[str]:
    """Return the arguments of pytest that select the tests of a promise."""
    pattern = f"test_{promise}_*.py" if stage == "own" else "test_promises_of_*.py"
    found = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests" / "promises").glob(pattern))
    return found if stage == "own" else [*found, "-k", f"test_{promise}_"]


class Bench:
    """Tests on copies of the tree, each in a process forked from this one, up to `jobs` at a time.

    Modules of other packages are imported once, here, which would be most of the time of a run of a few tests. Modules of
    this project are imported by the forked process, from its copy. For a process of one thread.
    """

    def __init__(self, jobs: int) -> None:
        if any(name.partition(".")[0] in COPIED for name in sys.modules):
            raise AssertionError("a process that has imported modules of this project cannot try mutations of them")
        for name in PRELOADED:
            importlib.import_module(name)
        self._jobs = jobs
        self._running: dict[int, tuple[int, Copy, float]] = {}  # place in the order, copy and start, by process

    def run(self, trials: Sequence[tuple[dict[str, str], list[str]]]) -> Iterator[Outcome]:
        """Yield the outcome of each trial, in order: new texts of files, and arguments of pytest."""
        waiting, ended = deque(enumerate(trials)), {}
        for place in range(len(trials)):
            while place not in ended:
                while waiting and len(self._running) < self._jobs:
                    number, (texts, arguments) = waiting.popleft()
                    self._start(number, texts, arguments)
                number, outcome = self._next_end()
                ended[number] = outcome
            yield ended.pop(place)

    def close(self) -> None:
        """End the tests that still run and remove their copies."""
        for process, (_, copy, _) in self._running.items():
            with suppress(ProcessLookupError):
                os.killpg(process, signal.SIGKILL)
            os.waitpid(process, 0)
            copy.remove()
        self._running.clear()

    def _start(self, number: int, texts: dict[str, str], arguments: list[str]) -> None:
        copy = Copy.make()
        write(copy.place, texts)
        began_s = time.monotonic()
        process = os.fork()
        if not process:
            _run_tests(copy, arguments)
        self._running[process] = number, copy, began_s

    def _next_end(self) -> tuple[int, Outcome]:
        process, status = os.waitpid(-1, 0)
        number, copy, began_s = self._running.pop(process)
        with suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)  # processes that a failed test left behind
        output = copy.output.read_text(errors="replace")
        copy.remove()
        return number, outcome_of(os.waitstatus_to_exitcode(status), output, time.monotonic() - began_s)


def _run_tests(copy: Copy, arguments: list[str]) -> NoReturn:
    """Become the process of a trial; its exit code is that of pytest."""
    code = 3
    try:
        os.setpgid(0, 0)
        with copy.output.open("wb") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        os.chdir(copy.place)
        os.environ["PYTHONPATH"] = str(copy.place)  # of processes that the tests start
        sys.path[0] = str(copy.place)
        signal.alarm(PROCESS_TIMEOUT_S)
        options = ("-x", "-q", "-rfE", "--tb=no", "-p", "no:xdist", "-p", "no:cacheprovider", f"--timeout={TEST_TIMEOUT_S}")
        code = int(importlib.import_module("pytest").main([*options, *arguments]))
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def outcome_of(code: int, output: str, seconds: float) -> Outcome:
    """Return the outcome of a run of pytest with this exit code and output."""
    if code == 0 and _PASSED.search(output):
        return Outcome("", seconds)
    killer = _FAILED.search(output)
    if killer and code in (1, 3):  # 3: a test that hung was ended by its time limit
        return Outcome(killer[1], seconds)
    return Outcome("", seconds, output[-2000:] or f"pytest ended with {code}")
