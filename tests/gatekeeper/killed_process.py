"""Gatekeeper processes that are killed at crash points, and the stores they work on."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from zerofleet.storage.crash_points import VARIABLE
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


def run(script, directory, crash_at=""):
    """Run a script of this folder in a directory until it ends or reaches a crash point; return the finished process."""
    command = [sys.executable, str(Path(__file__).with_name(script)), str(directory)]
    environment = {**os.environ, VARIABLE: crash_at} if crash_at else dict(os.environ)
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=250, check=False)


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
