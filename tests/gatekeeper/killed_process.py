"""Gatekeeper processes that are killed at crash points, and the stores they work on."""

import atexit
import functools
import json
import signal
import subprocess
import sys
from pathlib import Path

from zerofleet.storage.model_store import DirectoryStore

MODEL = "tic_tac_toe"

PROMOTION = [
    ("gatekeeper_before_promotion", 1),
    ("gatekeeper_after_epoch_before_champion", 1),
    ("store_before_champion", 1),
    ("store_after_champion_before_history", 2),
    ("gatekeeper_after_champion", 2),
    ("gatekeeper_before_verdict", 2),
    ("gatekeeper_after_verdict", 2),
]
"""Crash points of the promotion of version 2 in their order, and the champion that each leaves behind."""


def fill(models, versions):
    """Publish versions 1, 2, ...; 1 is the champion."""
    for _ in range(versions):
        models.publish()
    models.store.write_champion(MODEL, 1, epoch=5, reason="first")


@functools.cache
def _nursery():
    """Start the process that forks the others, for all tests of this one."""
    command = [sys.executable, str(Path(__file__).with_name("nursery.py"))]
    started = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(_end, started)
    return started


def _end(nursery):
    nursery.stdin.close()
    nursery.wait()
    nursery.stdout.close()


def run(script, directory, crash_at=""):
    """Run a script of this folder in a directory until it ends or reaches a crash point; return the finished process."""
    out, errors = directory / "output.txt", directory / "errors.txt"
    nursery = _nursery()
    print(json.dumps([script, *map(str, (directory, crash_at, out, errors))]), file=nursery.stdin, flush=True)
    code = int(nursery.stdout.readline())
    return subprocess.CompletedProcess(script, code, out.read_text(), errors.read_text())


def result_of(finished):
    """Return the result that a process printed before it ended without a kill."""
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout.splitlines()[-1])


def kill(script, directory, point, *, champion):
    """Run a script that is killed at a crash point and leaves this version, complete, as champion; return the store."""
    killed = run(script, directory, point)
    assert killed.returncode == -signal.SIGKILL, (point, killed.stderr)
    store = DirectoryStore(directory / "models")
    assert store.champion(MODEL).version == champion
    store.verify(MODEL, champion)
    return store
