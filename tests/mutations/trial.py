"""Trial of a mutation: a copy of the tree, the change, and the tests that name the promise.

A copy is a tree of hard links, compiled code included, in which the changed files are written anew: it takes a fraction of a
second, and only what changed is compiled again. The tests of a promise come in two stages: those of its own file, which run in
one process, and then those with processes of their own, which only a mutation that survives the first stage meets.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mutations import ROOT, Mutation

Stage = Literal["own", "processes"]
COPIED = (
    *("games", "zerofleet", "inference_server", "selfplay_worker", "trainer", "gatekeeper", "laboratory"),
    *("tests/conftest.py", "tests/promises", "tests/gatekeeper", "tests/inference_server", "tests/processes"),
    *("tests/selfplay_worker", "tests/streams", "pyproject.toml"),
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


@contextmanager
def copy_of_tree(root: Path = ROOT) -> Iterator[Path]:
    """Yield a copy of the tree in `build/mutations`, removed afterwards."""
    home = root / "build" / "mutations"
    home.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(dir=home))
    try:
        for name in COPIED:
            source, target = root / name, place / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, copy_function=_link)
            else:
                _link(source, target)
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _link(source: str | Path, target: str | Path) -> None:
    try:
        os.link(source, target)
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


def run_tests(place: Path, arguments: list[str]) -> Outcome:
    """Run tests in a copy until the first failure."""
    began_s = time.monotonic()
    options = ("-x", "-q", "-rfE", "--tb=no", "-p", "no:xdist", "-p", "no:cacheprovider", f"--timeout={TEST_TIMEOUT_S}")
    try:
        found = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *arguments],
            cwd=place,
            env={**os.environ, "PYTHONPATH": str(place)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PROCESS_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return Outcome("", time.monotonic() - began_s, f"the tests did not end within {error.timeout:g} s")
    seconds = time.monotonic() - began_s
    if found.returncode == 0 and _PASSED.search(found.stdout):
        return Outcome("", seconds)
    killer = _FAILED.search(found.stdout)
    if found.returncode == 1 and killer:
        return Outcome(killer[1], seconds)
    return Outcome("", seconds, found.stdout[-2000:] or f"pytest ended with {found.returncode}")


def try_mutation(mutation: Mutation, stage: Stage) -> Outcome:
    """Run the tests of a promise on a mutated copy. Raises `StalePatch`."""
    texts = mutation.mutated(ROOT)
    with copy_of_tree() as copy:
        write(copy, texts)
        return run_tests(copy, tests_of(mutation.promise, stage))


def try_original(promise: str, stage: Stage) -> Outcome:
    """Run the tests of a promise on a copy without a mutation: none may fail."""
    with copy_of_tree() as copy:
        return run_tests(copy, tests_of(promise, stage))
