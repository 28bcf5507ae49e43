"""Commands on the runs of `examples/*.toml`, as the pages and the files themselves print them, name the games of these runs."""

from __future__ import annotations

import re
import shlex
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest

import games

ROOT = Path(__file__).parents[2]
FILES = sorted([*ROOT.glob("examples/*.toml"), ROOT / "docs" / "learners.md"])
RUN = re.compile(r"zerofleet run --config (examples/\w+\.toml) --run-dir (\S+)")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_commands_on_the_run_of_an_example_name_its_game_with_its_parameters_or_leave_both_out(path):
    lines = [line.lstrip("#$ ") for line in path.read_text().splitlines()]
    runs = {match[2]: ROOT / match[1] for line in lines if (match := RUN.match(line))}
    assert runs
    for line in lines:
        words = shlex.split(line) if line.startswith("zerofleet ") and "--config" not in line else []
        if "--run-dir" not in words or (directory := words[words.index("--run-dir") + 1]) not in runs:
            continue
        experiment = tomllib.loads(runs[directory].read_text())
        named = [word for word in words if word in games.available()]
        settings = dict(value.split("=", 1) for option, value in pairwise(words) if option == "--set")
        wanted = {name: str(value) for name, value in experiment.get("parameters", {}).items()}
        assert (named, settings) in (([], {}), ([experiment["game"]], wanted)), line
