"""The page of the cluster in a browser, for a game whose costs are known."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from zerofleet.storage.runs import RunDirectory


@pytest.fixture(scope="module")
def planned(runs: Path) -> Iterator[str]:
    """Return the name of a run of Connect Four that has not begun."""
    with RunDirectory.create_or_open(runs / "planned", "connect_four", {}, preset="tiny", seed=1):
        pass
    yield "planned"
    shutil.rmtree(runs / "planned")


@pytest.mark.parametrize("width", [1440, 390])
def test_the_first_part_to_saturate_is_named_and_marked(
    open_page: Callable[..., Page], planned: str, keep: Callable[[Page, str], None], width: int
) -> None:
    page = open_page(f"/runs/{planned}/cluster?gpus=2&workers=16", width=width)
    plan = json.loads(page.request.get(f"/api/v1/runs/{planned}/cluster?gpus=2&workers=16").text())["plan"]
    expect(page.locator("#first")).to_contain_text(f"First part to saturate by the plan: {plan['saturates_first']}.")
    expect(page.locator("#parts tr.champion")).to_have_count(1)
    expect(page.locator("#parts tr.champion")).to_contain_text("100 %")
    expect(page.locator("#about")).to_contain_text("Plan for 2 devices and 16 workers, preset laptop; costs measured on")
    expect(page.locator("#about")).to_contain_text("The run has preset tiny")
    keep(page, "cluster-plan")
