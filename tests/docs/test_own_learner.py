"""The page about a learner of one's own: its files are written out, installed and run as it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from trainer.learners.conformance import LAWS
from zerofleet.presets.commented import commented
from zerofleet.presets.experiment import Experiment, read_experiment

PAGE = (Path(__file__).parents[2] / "docs" / "own_learner.md").read_text()
ROOT = Path(__file__).parents[2]


def file_on_page(name: str) -> str:
    """The code block that begins with the comment `# name`."""
    blocks = re.findall(r"```\w+\n(.*?)```", PAGE, flags=re.DOTALL)
    return next(block for block in blocks if block.startswith(f"# {name}\n"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as an installer leaves it: the modules of the page, and what they offer."""
    folder = tmp_path_factory.mktemp("site")
    for name in ("table_values.py", "table_learner.py", "check_table.py", "table.toml"):
        (folder / name).write_text(file_on_page(name))
    project = tomllib.loads(file_on_page("pyproject.toml"))["project"]
    info = folder / "zerofleet_table_values-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 1.0\n")
    ((name, value),) = project["entry-points"]["zerofleet.learners"].items()
    (info / "entry_points.txt").write_text(f"[zerofleet.learners]\n{name} = {value}\n")
    return folder


def in_process(site: Path, *words: str) -> str:
    """Return the output of a process with the folder on its import path."""
    environment = {**os.environ, "PYTHONPATH": f"{site}:{ROOT}"}
    done = subprocess.run(
        [sys.executable, *words], cwd=site, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_laws_on_the_page_are_those_of_the_check() -> None:
    assert re.findall(r"^\| (\d) \| ([^|]+) \|", PAGE, flags=re.MULTILINE) == [(str(law), text) for law, text in LAWS.items()]


@pytest.mark.slow
def test_the_learner_on_the_page_keeps_the_laws_of_the_contract(site: Path) -> None:
    shown = re.search(r"```text\n(.*?)```", PAGE, flags=re.DOTALL)
    assert shown is not None
    assert in_process(site, "check_table.py") == shown[1]


@pytest.mark.slow
def test_a_trainer_process_takes_the_settings_of_the_learner_from_its_environment_and_command_line(site: Path) -> None:
    words = (
        "--game",
        "tic_tac_toe",
        "--preset",
        "tiny",
        "--train.learner",
        "table_values",
        "--table-values.learning-rate",
        "0.3",
    )
    printed = in_process(site, "-m", "trainer", *words, "--print-config")
    rows = {row.split()[0]: row.split()[1:] for row in printed.splitlines()}
    assert rows["table_values.learning_rate"] == ["0.3", "command", "line"]
    assert rows["table_values.publish_every_games"] == ["500", "default"]


def test_the_experiment_on_the_page_is_valid_and_its_own_table_is_saved(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(site)
    read = read_experiment(site / "table.toml")
    chosen = read.build_preset()
    assert chosen.own_learner.model_dump() == {"learning_rate": 0.2, "publish_every_games": 500}
    changed = Experiment(read.game, read.preset, settings={**read.settings, "table_values.learning_rate": "0.5"})
    saved = site / "saved.toml"
    saved.write_text(commented(changed))
    assert "[table_values]\n# alpha: share of its error by which a value changes." in saved.read_text()
    assert read_experiment(saved).build_preset() == changed.build_preset()
