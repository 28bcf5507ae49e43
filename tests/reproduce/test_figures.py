"""Figures of claims have the decimals by which a reader can check their verdicts."""

from __future__ import annotations

from typing import Any

import pytest

from zerofleet.cli.reproduce.command import _show
from zerofleet.cli.reproduce.figures import figure_and_interval, with_interval


def claim(value: float, low: float, high: float, *, interval: str = "games", **bar: Any) -> dict[str, Any]:
    estimate = {"value": value, "low": low, "high": high, "games": 100, "seeds": 3, "interval": interval}
    return {"text": "a claim", "thesis": "1", "verdict": "matched", "estimate": estimate, "bar": {"match": 50.0} | bar}


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (claim(86.31, 84.02, 88.34), "86.3 (84.0 to 88.3)"),
        (claim(3187.43, 2900.0, 3400.0), "3,187.4 (2,900.0 to 3,400.0)"),
        (claim(0.4728, 0.4457, 0.4999, better="lower", match=0.45, tolerance=0.1), "0.47 (0.45 to 0.50)"),
        (claim(0.0, 0.0, 0.9512, better="lower", match=2.0, beat=1.0), "0.00 (0.00 to 0.95)"),
        (claim(80.0, 73.91, 84.95, match=85.0), "80.00 (73.91 to 84.95)"),
        (claim(100.0, 100.0, 100.0), "100.0 (100.0 to 100.0)"),
        (claim(60.0, 60.0, 60.0000001), "60.0 (60.0 to 60.0)"),
        (claim(3187.43, 3187.43, 3187.43, interval="count"), "3,187.4"),
    ],
)
def test_a_claim_has_the_fewest_decimals_from_which_its_verdict_follows(found, text):
    assert with_interval(found) == text


def test_a_claim_that_was_not_run_has_no_figure():
    assert figure_and_interval(claim(0.0, 0.0, 0.0) | {"estimate": None}) == ("", "")


def test_the_command_shows_the_figures_of_the_page(capsys):
    found = claim(0.4728, 0.4457, 0.4999, better="lower", match=0.45, tolerance=0.1)
    _show({"title": "A thesis", "profile": "full", "experiments": [{"claims": [found]}], "left_out_for_time": []})
    row = next(line for line in capsys.readouterr().out.splitlines() if "a claim" in line)
    assert " ".join(row.split()) == "a claim 1 0.47 0.45 to 0.50 matched"
