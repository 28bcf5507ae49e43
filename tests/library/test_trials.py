"""Candidates whose match goes on, or has not begun, in the overview of a run: what is known about them."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

import games
from zerofleet.contracts.gate_events import Event, StatusChanged, Submitted
from zerofleet.contracts.promotions import CandidateStatus
from zerofleet.library.run_files import OpenRun
from zerofleet.presets.commented import commented
from zerofleet.presets.experiment import Experiment
from zerofleet.storage.gate_journal import JOURNAL_FILE, EventJournal
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.storage.runs import RunDirectory
from zerofleet.strength.matches import SequentialTest
from zerofleet.strength.ratings import Sprt
from zerofleet.testing.gate_matches import sample_match
from zerofleet.testing.models import sample_files, sample_manifest

MODEL = "tic_tac_toe"
GAME = games.make(MODEL)
TRIAL = SequentialTest(Sprt(-75.0, 0.0, 0.05, 0.05))
AT_MS = 1_795_399_200_000  # 2026-11-23T02:00:00Z, the time of the figures


@pytest.fixture
def opened(tmp_path: Path) -> OpenRun:
    """Return a run in mode watch with figures, whose versions were exported 1, 2 and 3 minutes before them."""
    with RunDirectory.create_or_open(tmp_path / "run", MODEL, {}, preset="tiny", seed=1) as run:
        settings = {"gate.mode": "watch", "gate.watch_elo0": "-75", "gate.watch_elo1": "0"}
        run.paths.experiment.write_text(commented(Experiment(MODEL, "tiny", 1, settings=settings)))
        row = {"at": datetime.fromtimestamp(AT_MS / 1000, UTC).isoformat(), "elapsed_s": 60.0, "step": 10}
        (run.paths.metrics / "run.jsonl").write_text(json.dumps(row) + "\n")
        (run.paths.metrics / "trainer.jsonl").write_text("")
        store = DirectoryStore(run.paths.models)
        for version in (1, 2, 3):
            manifest = dataclasses.replace(sample_manifest(), created_at_ms=AT_MS - 60_000 * version)
            store.publish(MODEL, sample_files(float(version)), manifest)
        return OpenRun("run", run.paths)


def write(run: OpenRun, *events: Event) -> None:
    EventJournal(run.paths.gatekeeper / JOURNAL_FILE, model=MODEL).rewrite(events)


def submitted(version: int, status: CandidateStatus, reason: str = "") -> list[Event]:
    return [Submitted(version=version, manifest_sha256="0" * 64), StatusChanged(version=version, status=status, reason=reason)]


def measurement(version: int, **options: object) -> list[Event]:
    return sample_match(GAME, TRIAL, match_id=f"watch/{version}/1/2", version=version, opponent=1, groups=5, **options)  # type: ignore[arg-type]


def test_a_measurement_that_goes_on_has_games_points_with_interval_and_the_test_between_its_bounds(opened: OpenRun) -> None:
    write(opened, *measurement(2, status=None), *submitted(2, CandidateStatus.TRIAL, "promoted at once"))
    (match,), now = opened.gate().matches.matches, opened.overview()
    (row,) = now.candidates
    assert (row.version, row.status) == (2, "trial")
    assert (row.wins, row.draws, row.losses) == (match.wins, match.draws, match.losses)
    assert row.wins + row.draws + row.losses == 10
    assert (row.share, row.share_low, row.share_high) == (pytest.approx(match.share), match.share_low, match.share_high)
    assert row.share_low < row.share < row.share_high
    assert (row.llr, row.llr_low, row.llr_high) == (match.log_likelihood_ratio, TRIAL.sprt.lower, TRIAL.sprt.upper)
    assert now.match is not None
    assert (now.match.version, now.match.share_low, now.match.llr) == (2, row.share_low, row.llr)


def test_a_version_without_a_game_has_its_age_alone(opened: OpenRun) -> None:
    write(opened, *submitted(2, CandidateStatus.UNPROVEN, "replaced"), *submitted(3, CandidateStatus.TRIAL, "promoted at once"))
    now = opened.overview()
    assert [(row.version, row.age_s) for row in now.candidates] == [(3, 180.0), (2, 120.0)]
    for row in now.candidates:
        assert {row.wins, row.share, row.share_low, row.llr, row.llr_low} == {None}
    assert now.match is None


def test_the_age_of_a_promoted_version_counts_from_its_last_promotion(opened: OpenRun) -> None:
    write(opened, *submitted(3, CandidateStatus.TRIAL, "promoted at once"))
    champion = DirectoryStore(opened.paths.models).write_champion(MODEL, 3, epoch=1, reason="promoted at once")
    found = opened.since(tuple(opened.gate().candidates.values()))
    assert found == {3: datetime.fromtimestamp(champion.promoted_at_ms / 1000, UTC)}
    (row,) = opened.overview().candidates
    assert row.age_s == 0.0  # promoted after the newest figures


def test_a_match_that_was_left_open_by_a_killed_process_is_no_match_in_progress(opened: OpenRun) -> None:
    write(opened, *measurement(2, status=None), *submitted(2, CandidateStatus.REJECTED, "weaker"))
    now = opened.overview()
    assert now.match is None
    assert now.candidates[0].llr_low is None


def test_a_version_that_was_deleted_has_no_age(opened: OpenRun) -> None:
    write(opened, *submitted(9, CandidateStatus.QUEUED))
    assert [row.age_s for row in opened.overview().candidates] == [None]
