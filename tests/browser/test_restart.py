"""The overview in a browser while the gatekeeper of a run is restarted."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from zerofleet.contracts.promotions import Candidate, CandidateStatus, Champion, MatchReport, Rung
from zerofleet.storage.run_paths import RunPaths

MODEL = "tic_tac_toe"
WON = MatchReport(2, 14, 4, 8, (0, 1, 2, 3, 4), 0.6, 0.5, 0.7, 3.0)
FIRST = Candidate(MODEL, 2, CandidateStatus.PROMOTED, WON, "stronger")
SECOND = Candidate(MODEL, 3, CandidateStatus.PROMOTED, WON, "stronger")


@pytest.fixture
def gatekeeper(runs: Path, stand_in_gatekeeper: ModuleType) -> Iterator[Any]:
    """Return the gatekeeper of the run `restarted`, whose trainer is announced as alive."""
    shutil.copytree(runs / "golden", runs / "restarted")
    paths = RunPaths(runs / "restarted")
    paths.services.mkdir(parents=True, exist_ok=True)
    said = {"service": "trainer", "pid": os.getpid(), "address": "127.0.0.1:1", "metrics_port": 0}
    paths.announce("trainer").write_text(json.dumps(said))
    stand_in = stand_in_gatekeeper.StandIn(paths, MODEL)
    yield stand_in
    stand_in.stop()
    shutil.rmtree(runs / "restarted")


def test_the_overview_follows_a_gatekeeper_through_its_restart(open_page: Callable[..., Page], gatekeeper: Any) -> None:
    gatekeeper.candidates, gatekeeper.champion = [FIRST], Champion(MODEL, 2, 2, "ab", 0, "stronger")
    gatekeeper.start()
    page = open_page("/runs/restarted/overview")
    candidates, service = page.locator("#candidates"), page.locator("#services tr", has_text="gatekeeper")
    expect(candidates).to_contain_text("2 ★")
    expect(service).to_contain_text("ready")
    expect(page.locator("#ladder")).to_contain_text("no rated games yet")
    further: list[str] = []  # streams after the first, whose values are on the page
    page.on("request", lambda request: further.append(request.url) if request.url.endswith("/events") else None)

    gatekeeper.stop()
    expect(service).to_contain_text("ended")
    expect(candidates).to_contain_text("2 ★")  # the last state stays
    expect(page.locator("#state")).to_contain_text("alive")

    gatekeeper.candidates, gatekeeper.champion = [FIRST, SECOND], Champion(MODEL, 3, 3, "cd", 0, "stronger")
    gatekeeper.rungs = [Rung("model:3", 900.0, 850.0, 950.0, 40, anchored=True)]
    gatekeeper.start()
    expect(candidates).to_contain_text("3 ★")
    expect(service).to_contain_text("ready")
    expect(service.locator("td").nth(3)).to_have_text("1")  # restarts
    expect(page.locator("#ladder")).to_contain_text("900")
    expect(page.locator("#events")).to_contain_text("candidate 3 promoted against 2")
    assert further == []  # one stream from first to last
