"""SIGKILL between every two effects of a promotion at once, a measurement and a rollback: the next start finishes the work."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from zerofleet.storage.crash_points import VARIABLE
from zerofleet.storage.model_store import DirectoryStore

MODEL = "tic_tac_toe"
VICTIM = Path(__file__).with_name("watch_victim.py")

# In the order in which a promotion at once and a rollback pass them; the champion they leave behind.
POINTS = [
    ("gatekeeper_before_promotion", 1),
    ("gatekeeper_after_epoch_before_champion", 1),
    ("store_before_champion", 1),
    ("store_after_champion_before_history", 2),
    ("gatekeeper_after_champion", 2),
    ("gatekeeper_before_verdict", 2),
    ("gatekeeper_after_verdict", 2),
    ("gatekeeper_after_result", 2),
    ("gatekeeper_after_result:7", 2),
    ("gatekeeper_before_rollback", 2),
    ("gatekeeper_after_epoch_before_champion:2", 2),
    ("store_before_champion:2", 2),
    ("store_after_champion_before_history:2", 1),
    ("gatekeeper_after_champion:2", 1),
    ("gatekeeper_after_rollback", 1),
    ("gatekeeper_after_verdict:2", 1),
]


def run(directory, crash_at=""):
    environment = {**os.environ, VARIABLE: crash_at} if crash_at else dict(os.environ)
    return subprocess.run(
        [sys.executable, str(VICTIM), str(directory)], capture_output=True, text=True, env=environment, timeout=250, check=False
    )


def fill(models):
    for _ in range(3):
        models.publish()
    models.store.write_champion(MODEL, 1, epoch=5, reason="first")


def said(finished):
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout.splitlines()[-1])


@pytest.fixture(scope="session")
def expected(tmp_path_factory, fakes):
    """Output of a run without a kill."""
    directory = tmp_path_factory.mktemp("undisturbed")
    fill(fakes[0](directory / "models"))
    return said(run(directory))


@pytest.mark.slow
@pytest.mark.parametrize(("point", "champion"), POINTS)
def test_a_kill_leaves_a_valid_champion_and_the_weaker_version_is_rolled_back(tmp_path, models, expected, point, champion):
    fill(models)
    killed = run(tmp_path, point)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    store = DirectoryStore(tmp_path / "models")
    assert store.champion(MODEL).version == champion
    store.verify(MODEL, champion)
    finished = said(run(tmp_path))
    assert finished["statuses"] == expected["statuses"] == {"2": "weaker", "3": "promoted"}
    assert finished["matches"] == expected["matches"]  # as if nothing had happened: no game counted twice, none lost
    assert finished["epochs"] == sorted(set(finished["epochs"]))
    # The rollback happened once, and version 2 was not promoted again.
    assert [c.version for c in store.history(MODEL)] == [1, 2, 1, 3]
