"""The overview in a browser while the gatekeeper of a run is restarted: its real process, killed, and a stand-in.

The stand-in decides a match while it is away, beside another service that stays alive.
"""

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
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.storage.run_paths import RunPaths
from zerofleet.testing.models import sample_files, sample_manifest

MODEL = "tic_tac_toe"
ROOT = Path(__file__).parents[2]
WON = MatchReport(2, 14, 4, 8, (0, 1, 2, 3, 4), 0.6, 0.5, 0.7, 3.0)
FIRST = Candidate(MODEL, 2, CandidateStatus.PROMOTED, WON, "stronger")
SECOND = Candidate(MODEL, 3, CandidateStatus.PROMOTED, WON, "stronger")


@pytest.fixture
def gatekeeper(runs: Path, copied: Callable[[str], Path], stand_in_gatekeeper: ModuleType) -> Iterator[Any]:
    """Return the gatekeeper of the run `restarted`, whose trainer is announced as alive."""
    copied("restarted")
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


@pytest.fixture
def killable(runs: Path, copied: Callable[[str], Path], real_gatekeeper: ModuleType, tmp_path: Path) -> Iterator[Any]:
    """Return the gatekeeper process of the run `killed`."""
    copied("killed")
    process = real_gatekeeper.RealGatekeeper(RunPaths(runs / "killed"), MODEL, ROOT)
    yield process
    process.kill()
    shutil.rmtree(runs / "killed")


def test_the_overview_goes_on_live_after_the_gatekeeper_was_killed_and_started_again(
    open_page: Callable[..., Page], runs: Path, killable: Any, keep: Callable[[Page, str], None]
) -> None:
    killable.start()
    page = open_page("/runs/killed/overview")
    candidates, service, state = page.locator("#candidates"), page.locator("#services"), page.locator("#state")
    expect(state).to_contain_text("alive")
    expect(service).to_contain_text("ready")
    expect(candidates).to_contain_text("2 ★")
    further: list[str] = []  # requests of the page after the first values: a reload, or another stream
    page.on("request", lambda request: further.append(request.url))

    killable.kill()
    expect(state).to_have_text("stopped")
    expect(page.locator("#notice")).to_contain_text("its services are away")
    expect(candidates).to_contain_text("2 ★")  # from the journal
    keep(page, "overview-gatekeeper-away")

    killable.start()
    expect(state).to_contain_text("alive")
    expect(service).to_contain_text("ready")
    expect(page.locator("#notice")).to_be_hidden()
    store = DirectoryStore(RunPaths(runs / "killed").models)
    version = store.publish(MODEL, sample_files(3.0), sample_manifest())
    killable.submit(version, store.manifest_sha256(MODEL, version))
    expect(candidates).to_contain_text("queued")  # an answer of the new process
    assert further == []
