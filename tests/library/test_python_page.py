"""The page on Python: every snippet runs, one after the other, with a small game in the place of the large one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from zerofleet.library.metrics import COLUMNS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "python.md").read_text()
SNIPPET = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SMALLER = {
    '"connect_four", preset="laptop", minutes=10': '"tic_tac_toe", preset="tiny", minutes=0.05, settings=SMALL',
    "runs/connect_four-laptop": "runs/tic_tac_toe-tiny",
    '["d1", "d2", "c1"]': '["a1", "b2"]',
    'zf.position("connect_four"': 'zf.position("tic_tac_toe"',
    "alpha_beta:5": "random",
    "games=100": "games=4",
    "simulations=400": "simulations=16",
}
"""Substitutions in the snippets of the page, so that a run of seconds serves the test."""


@pytest.mark.slow
def test_every_snippet_of_the_page_and_of_the_readme_runs(
    trained: Path, small: Mapping[str, object], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(trained.parents[1])
    of_the_readme = [text for text in SNIPPET.findall((ROOT / "README.md").read_text()) if "import zerofleet as zf" in text]
    assert of_the_readme
    text = "\n".join([*SNIPPET.findall(PAGE), *of_the_readme])
    for said, smaller in SMALLER.items():
        assert said in text
        text = text.replace(said, smaller)
    exec(compile(text, "docs/python.md", "exec"), {"SMALL": small})
    printed = capsys.readouterr().out
    for words in ("the time is up", "player 1 to move", "expected line: ", "4 games: ", "Elo difference"):
        assert words in printed


def test_the_page_lists_the_columns_of_the_metrics() -> None:
    listed = dict(re.findall(r"^\| `((?:trainer|run)\.\w+)` \| (.*) \|$", PAGE, re.MULTILINE))
    assert listed == COLUMNS
