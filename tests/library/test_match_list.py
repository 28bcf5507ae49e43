"""Matches of a run, read from the gatekeeper's journal: figures, path of the test, pairs of games, and what remains of them."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

import games
from zerofleet.contracts.gate_events import Event, StatusChanged
from zerofleet.contracts.plain_files import append_plain
from zerofleet.contracts.promotions import CandidateStatus
from zerofleet.errors import InvalidRequest, ModelNotFound
from zerofleet.library.run_files import OpenRun
from zerofleet.presets.commented import commented
from zerofleet.presets.experiment import Experiment
from zerofleet.storage.gate_journal import JOURNAL_FILE, EventJournal
from zerofleet.storage.journal import Journal
from zerofleet.storage.runs import RunDirectory
from zerofleet.strength.matches import SequentialTest
from zerofleet.strength.ratings import Sprt
from zerofleet.testing.gate_matches import sample_match

MODEL = "tic_tac_toe"
GAME = games.make(MODEL)
RULE = SequentialTest(Sprt(-30.0, 60.0, 0.05, 0.05))


def gate_match(version: int, **options: object) -> list[Event]:
    return sample_match(GAME, RULE, match_id=f"gate/{version}/1/1", version=version, opponent=1, groups=5, **options)  # type: ignore[arg-type]


@pytest.fixture
def opened(tmp_path: Path) -> OpenRun:
    """Return a run whose gate tests 60 against -30 Elo."""
    with RunDirectory.create_or_open(tmp_path / "run", MODEL, {}, preset="tiny", seed=1) as run:
        settings = {"gate.mode": "sprt", "gate.elo0": "-30", "gate.elo1": "60", "gate.alpha": "0.05", "gate.beta": "0.05"}
        run.paths.experiment.write_text(commented(Experiment(MODEL, "tiny", 1, settings=settings)))
        return OpenRun("run", run.paths)


def write(run: OpenRun, *events: Event) -> None:
    EventJournal(run.paths.gatekeeper / JOURNAL_FILE, model=MODEL).rewrite(events)


def test_a_decided_match_has_the_figures_of_its_verdict_and_the_bounds_of_the_settings(opened: OpenRun) -> None:
    write(opened, *gate_match(2))
    gate = opened.gate()
    (row,), report = gate.matches.matches, gate.candidates[2].match
    assert report is not None
    assert (row.kind, row.state, row.status, row.version, row.opponent) == ("gate", "decided", "rejected", 2, 1)
    assert (row.wins, row.draws, row.losses, row.pentanomial) == (report.wins, report.draws, report.losses, report.pentanomial)
    assert row.log_likelihood_ratio == report.log_likelihood_ratio
    assert (row.llr_low, row.llr_high) == (RULE.sprt.lower, RULE.sprt.upper)


def test_the_path_of_the_test_leads_from_0_to_its_last_value(opened: OpenRun) -> None:
    write(opened, *gate_match(2))
    found = opened.match("gate/2/1/1")
    assert (len(found.path), found.path[0]) == (found.pairs + 1, 0.0)
    assert found.path[-1] == pytest.approx(found.log_likelihood_ratio)
    assert found.log_likelihood_ratio != 0.0


def test_the_games_of_a_pair_share_their_opening_and_have_the_seats_exchanged(opened: OpenRun) -> None:
    write(opened, *gate_match(2))
    pairs = opened.match("gate/2/1/1").games
    assert [pair.number for pair in pairs] == [1, 2, 3, 4, 5]
    for pair in pairs:
        first, second = pair.games
        assert first.moves[: pair.opening_plies] == second.moves[: pair.opening_plies]
        assert (first.seats, second.seats) == ((1,), (2,))
        assert pair.points == (first.points + second.points) / 2
    state = opened.match_position("gate/2/1/1", pair=1, number=2, ply=len(pairs[0].games[1].moves))
    assert games.core.is_over(GAME, state)


def test_results_after_the_decision_are_shown_and_do_not_count(opened: OpenRun) -> None:
    *before, verdict, closed = gate_match(2)
    longer = sample_match(GAME, RULE, match_id="gate/2/1/1", version=2, opponent=1, groups=7)
    write(opened, *longer[:-2], verdict, closed)  # the verdict is that of five pairs
    found = opened.match("gate/2/1/1")
    assert len(before) < len(longer) - 2
    assert [pair.is_counted for pair in found.games] == [True] * 5 + [False] * 2
    assert len(found.path) == 6


def test_an_open_match_is_in_progress_and_one_without_a_verdict_has_ended(opened: OpenRun) -> None:
    *requeued, _, closed = gate_match(3)
    write(opened, *requeued, closed, *gate_match(4, status=None))
    newest, oldest = opened.gate().matches.matches
    assert (newest.version, newest.state, newest.status) == (4, "open", "playing")
    assert (oldest.version, oldest.state) == (3, "ended")
    assert opened.match(newest.id).pairs == 5


def test_a_match_without_a_game_that_counts_has_no_figure_of_its_points_yet(opened: OpenRun) -> None:
    submitted, begun, *_, playing = gate_match(4, status=None)
    write(opened, *gate_match(3), submitted, begun, playing)
    newest, oldest = opened.gate().matches.matches
    assert (newest.version, newest.is_begun) == (4, False)
    assert (oldest.version, oldest.is_begun) == (3, True)


def test_the_report_remains_where_a_restart_has_dropped_the_games(opened: OpenRun) -> None:
    events = gate_match(2, status=CandidateStatus.PROMOTED)
    write(opened, *events)
    (before,) = opened.gate().matches.matches
    write(opened, events[0], events[-2])  # as the gatekeeper rewrites its journal
    (after,) = opened.gate().matches.matches
    assert after.id == ""
    shared = ("version", "opponent", "status", "pairs", "wins", "draws", "losses", "pentanomial", "share")
    assert [getattr(after, name) for name in shared] == [getattr(before, name) for name in shared]
    with pytest.raises(ModelNotFound, match="no games of match"):
        opened.match("gate/2/1/1")


def test_a_position_that_no_game_has_is_refused(opened: OpenRun) -> None:
    write(opened, *gate_match(2))
    with pytest.raises(InvalidRequest, match="no game 3"):
        opened.match_position("gate/2/1/1", pair=1, number=3, ply=0)
    with pytest.raises(InvalidRequest, match="no position 99"):
        opened.match_position("gate/2/1/1", pair=1, number=1, ply=99)


def test_without_the_settings_of_the_run_there_are_no_bounds_and_a_reason(opened: OpenRun) -> None:
    opened.paths.experiment.unlink()
    write(opened, *gate_match(2))
    found = opened.gate().matches
    assert "cannot be read" in found.fault
    (row,) = found.matches
    assert (row.llr_low, row.llr_high) == (None, None)
    assert row.log_likelihood_ratio != 0.0  # that of the report
    assert opened.match(row.id).path == ()


def test_matches_that_are_read_on_are_those_of_a_fresh_look(opened: OpenRun) -> None:
    events = [one for version in (2, 3, 4) for one in gate_match(version)]
    file = opened.paths.gatekeeper / JOURNAL_FILE
    writer = EventJournal(file, model=MODEL)
    writer.rewrite([])
    for event in events:
        writer.append(event)
        fresh = OpenRun("run", opened.paths).gate()
        assert opened.gate() == fresh
    writer.rewrite(events[:4])
    assert opened.gate() == OpenRun("run", opened.paths).gate()
    opened.paths.experiment.write_text(commented(Experiment(MODEL, "tiny", 1, settings={"gate.mode": "off"})))
    assert opened.gate() == OpenRun("run", opened.paths).gate()


def test_a_closed_match_is_kept_while_the_journal_grows_and_its_status_is_the_present_one(
    opened: OpenRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = EventJournal(opened.paths.gatekeeper / JOURNAL_FILE, model=MODEL)
    journal.rewrite(gate_match(2))
    before = opened.match("gate/2/1/1")
    with monkeypatch.context() as patch:
        patch.setattr("zerofleet.library.run_files.find_matches", None)
        journal.append(StatusChanged(version=2, status=CandidateStatus.WEAKER, reason="measured again"))
        after = opened.match("gate/2/1/1")
        assert (before.status, after.status) == ("rejected", "weaker")
        assert after.games == before.games
        assert opened.match_position("gate/2/1/1", pair=1, number=1, ply=0) is not None
    journal.rewrite(gate_match(3))
    with pytest.raises(ModelNotFound):
        opened.match("gate/2/1/1")
    with pytest.raises(ModelNotFound):
        opened.match_position("gate/2/1/1", pair=1, number=1, ply=0)


def test_a_look_at_an_open_match_reads_what_the_journal_has_gained(opened: OpenRun, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = [one for version in range(3, 12) for one in gate_match(version)]
    events, match_id = gate_match(2), "gate/2/1/1"
    first = next(place for place, one in enumerate(events) if one.event == "game") + 1
    file = opened.paths.gatekeeper / JOURNAL_FILE
    writer = EventJournal(file, model=MODEL)
    writer.rewrite([*closed, *events[:first]])
    assert opened.match(match_id) == OpenRun("run", opened.paths).match(match_id)
    reads: list[int] = []
    content = Journal._content

    def counted(journal: Journal[Event], offset: int, size_bytes: int = -1) -> bytes:
        found = content(journal, offset, size_bytes)
        reads.append(len(found))
        return found

    for event in events[first:-2]:
        before = file.stat().st_size
        writer.append(event)
        gained = file.stat().st_size - before
        with monkeypatch.context() as patch:
            patch.setattr(Journal, "_content", counted)
            shown = opened.match(match_id)
            assert opened.match_position(match_id, pair=1, number=1, ply=1) is not None
        assert sum(reads) <= gained + 2 * 512 < before / 10  # the end that is known is compared before each part
        reads.clear()
        assert shown == OpenRun("run", opened.paths).match(match_id)
    assert len([game for pair in shown.games for game in pair.games]) == 10
    for event in events[-2:]:
        writer.append(event)
        assert opened.match(match_id) == OpenRun("run", opened.paths).match(match_id)


def test_an_open_match_is_read_anew_after_a_rewrite_of_the_journal(opened: OpenRun) -> None:
    events, others = gate_match(2), gate_match(3)
    journal = EventJournal(opened.paths.gatekeeper / JOURNAL_FILE, model=MODEL)
    journal.rewrite(events[:6])
    before = opened.match("gate/2/1/1")
    journal.rewrite([*others, *events[:2], events[4]])
    after = opened.match("gate/2/1/1")
    assert after == OpenRun("run", opened.paths).match("gate/2/1/1")
    assert [len(found.games) for found in (before, after)] == [2, 1]


def test_a_game_that_ended_since_an_open_match_was_read_has_positions(opened: OpenRun) -> None:
    events = gate_match(2)
    games_at = [place for place, one in enumerate(events) if one.event == "game"]
    journal = EventJournal(opened.paths.gatekeeper / JOURNAL_FILE, model=MODEL)
    journal.rewrite(events[: games_at[1]])
    found = opened.match("gate/2/1/1")
    assert [len(pair.games) for pair in found.games] == [1]
    pair = found.games[0].number
    with pytest.raises(InvalidRequest):
        opened.match_position("gate/2/1/1", pair=pair, number=2, ply=0)
    for event in events[games_at[1] : games_at[-1]]:
        journal.append(event)
    assert opened.match_position("gate/2/1/1", pair=pair, number=2, ply=0) is not None


def test_a_game_of_a_pair_keeps_its_number_while_the_game_before_it_goes_on(opened: OpenRun) -> None:
    events, match_id = gate_match(2), "gate/2/1/1"
    first, second = [place for place, one in enumerate(events) if one.event == "game"][:2]
    journal = EventJournal(opened.paths.gatekeeper / JOURNAL_FILE, model=MODEL)
    journal.rewrite([*events[:first], events[second]])
    (pair,) = opened.match(match_id).games
    assert [(one.number, one.seats) for one in pair.games] == [(2, (2,))]
    with pytest.raises(InvalidRequest):
        opened.match_position(match_id, pair=1, number=1, ply=0)
    before = opened.match_position(match_id, pair=1, number=2, ply=4)
    journal.append(events[first])
    (pair,) = opened.match(match_id).games
    assert [(one.number, one.seats) for one in pair.games] == [(1, (1,)), (2, (2,))]
    assert opened.match_position(match_id, pair=1, number=2, ply=4).tolist() == before.tolist()
    assert opened.match_game(match_id, pair=1, number=2).result.seating == (1, 0)


@pytest.mark.slow
def test_threads_that_read_a_growing_run_find_what_a_fresh_look_finds(opened: OpenRun) -> None:
    events = gate_match(2)
    journal = EventJournal(opened.paths.gatekeeper / JOURNAL_FILE, model=MODEL)
    journal.rewrite(events[:2])
    opened.paths.metrics.mkdir(exist_ok=True)
    metrics, ended, faults = opened.paths.metrics / "run.jsonl", threading.Event(), []
    timed = {"at": "2026-11-24T10:00:00+00:00", "elapsed_s": 1.0}
    append_plain(metrics, json.dumps({**timed, "step": 0}) + "\n")

    def read() -> None:
        try:
            while not ended.is_set():
                rows = opened.metrics()["run.step"]
                assert list(rows) == [*range(len(rows))]
                found = opened.match("gate/2/1/1")
                if found.games:
                    opened.match_position("gate/2/1/1", pair=1, number=1, ply=0)
                assert found.pairs <= 5
                opened.overview()
        except Exception as error:  # a thread reports it to the test
            faults.append(error)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for step, event in enumerate(events[2:], start=1):
        journal.append(event)
        append_plain(metrics, json.dumps({**timed, "step": step}) + "\n")
    for version in (3, 2):  # as a gatekeeper that is started again
        journal.rewrite(gate_match(version) + gate_match(2))
    ended.set()
    for thread in threads:
        thread.join()
    assert faults == []
    fresh = OpenRun("run", opened.paths)
    assert opened.gate() == fresh.gate()
    assert opened.match("gate/2/1/1") == fresh.match("gate/2/1/1")
    assert list(opened.metrics()["run.step"]) == [*range(len(events) - 1)]
