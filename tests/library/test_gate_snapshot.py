"""Snapshots of the journal: the same values as from the journal itself, and never those of another journal."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import structlog

import games
from zerofleet.contracts.gate_events import Event, Submitted, Tallied
from zerofleet.library import cache_files, gate_snapshot
from zerofleet.library.run_files import Gate, OpenRun
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


def events() -> list[Event]:
    """Return two decided matches, one in progress, and rated games."""
    matches = [
        event
        for version, options in ((2, {}), (3, {}), (4, {"status": None}))
        for event in sample_match(GAME, RULE, match_id=f"gate/{version}/1/1", version=version, opponent=1, groups=4, **options)
    ]
    return [*matches, Tallied(first="model:2", second="random", points=15, games=20)]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a run with a journal, of which every growth is worth a snapshot."""
    monkeypatch.setattr(gate_snapshot, "LEAST_GROWTH_BYTES", 1)
    with RunDirectory.create_or_open(tmp_path / "run", MODEL, {}, preset="tiny", seed=1) as run:
        settings = {"gate.mode": "sprt", "gate.elo0": "-30", "gate.elo1": "60"}
        run.paths.experiment.write_text(commented(Experiment(MODEL, "tiny", 1, settings=settings)))
        EventJournal(run.paths.gatekeeper / JOURNAL_FILE, model=MODEL).rewrite(events())
        return run.paths.root


def opened(root: Path, cache: Path | None) -> OpenRun:
    with RunDirectory.create_or_open(root, MODEL, {}, preset="tiny", seed=1) as run:
        return OpenRun("run", run.paths, cache=cache)


def parsed_lines(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return the list that receives each line of a journal when it is parsed."""
    lines: list[bytes] = []
    parse = Journal.parse
    monkeypatch.setattr(Journal, "parse", lambda self, text, number=1: (lines.append(text), parse(self, text, number))[1])
    return lines


def both(root: Path, cache: Path) -> tuple[Gate, Gate]:
    """Return what is read with the cache and without."""
    return opened(root, cache).gate(), opened(root, None).gate()


def test_a_second_start_has_the_same_values_without_parsing_a_line(root, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    first = opened(root, cache).gate()
    lines = parsed_lines(monkeypatch)
    assert opened(root, cache).gate() == first
    assert lines == []
    assert len(first.matches.matches) == 3
    assert opened(root, None).gate() == first
    assert lines


def test_a_journal_that_has_grown_is_read_on_from_the_snapshot(root, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    opened(root, cache).gate()
    EventJournal(root / "gatekeeper" / JOURNAL_FILE, model=MODEL).append(Submitted(version=9, manifest_sha256="0" * 64))
    lines = parsed_lines(monkeypatch)
    found = opened(root, cache).gate()
    assert len(lines) == 1
    assert found == opened(root, None).gate()
    assert 9 in found.candidates


@pytest.mark.parametrize("change", ["rewritten", "edited", "shortened"])
def test_a_journal_with_other_bytes_is_read_whole(root, tmp_path, change):
    cache, path = tmp_path / "cache", root / "gatekeeper" / JOURNAL_FILE
    opened(root, cache).gate()
    if change == "rewritten":
        EventJournal(path, model=MODEL).rewrite(events()[:-1])
    elif change == "edited":  # of the same size
        path.write_bytes(path.read_bytes().replace(b'"points":15', b'"points":12'))
    else:
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    with_cache, without = both(root, cache)
    assert with_cache == without


def test_other_rules_of_the_gate_are_not_those_of_the_snapshot(root, tmp_path):
    cache = tmp_path / "cache"
    before = opened(root, cache).gate()
    settings = {"gate.mode": "sprt", "gate.elo0": "0", "gate.elo1": "10"}
    (root / "experiment.toml").write_text(commented(Experiment(MODEL, "tiny", 1, settings=settings)))
    after, without = both(root, cache)
    assert after == without
    assert after.matches.rule != before.matches.rule


@pytest.mark.parametrize("damage", [b"", b"x", b"\n"])
def test_a_damaged_snapshot_is_ignored_and_replaced(root, tmp_path, monkeypatch, damage):
    cache = tmp_path / "cache"
    first = opened(root, cache).gate()
    (file,) = cache.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2] + damage + whole[len(whole) // 2 + 1 :])
    assert opened(root, cache).gate() == first
    lines = parsed_lines(monkeypatch)
    opened(root, cache).gate()
    assert lines == []


def test_a_snapshot_whose_fields_are_those_of_another_build_is_ignored_and_replaced(root, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    first = opened(root, cache).gate()
    (file,) = cache.iterdir()
    with monkeypatch.context() as changed:
        changed.setattr(cache_files, "_first_line", lambda key, content: b"right")
        file.write_bytes(b"right\n" + file.read_bytes().partition(b"\n")[2].replace(b'"wins":', b'"won":'))
        assert opened(root, cache).gate() == first
        lines = parsed_lines(changed)
        assert opened(root, cache).gate() == first
        assert lines == []


def test_unfinished_and_surplus_files_of_the_cache_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(cache_files, "MOST_FILES", 2)
    old = [tmp_path / f"{name}.cached" for name in ("a", "b")]
    left, fresh, other = (tmp_path / name for name in ("a.cached.7-0.tmp", "b.cached.8-0.tmp", "notes.txt"))
    for number, path in enumerate((*old, left, other)):
        path.write_bytes(b"")
        os.utime(path, (number, number))
    fresh.write_bytes(b"")
    cache_files.write_cached(tmp_path / "c.cached", "key", b"content")
    assert {path.name for path in tmp_path.iterdir()} == {"b.cached", "c.cached", fresh.name, other.name}


def test_a_file_that_another_process_removes_meanwhile_is_no_fault(tmp_path):
    (tmp_path / "gone.cached").symlink_to(tmp_path / "removed")
    with structlog.testing.capture_logs() as logged:
        cache_files.write_cached(tmp_path / "c.cached", "key", b"content")
    assert logged == []


def test_a_cache_directory_that_cannot_be_written_costs_the_snapshot_alone(root, tmp_path):
    (tmp_path / "file").write_text("")
    with_cache, without = both(root, tmp_path / "file" / "cache")
    assert with_cache == without


def test_the_games_of_a_match_in_progress_go_on_from_the_snapshot(root, tmp_path):
    cache = tmp_path / "cache"
    opened(root, cache).gate()
    assert opened(root, cache).match("gate/4/1/1") == opened(root, None).match("gate/4/1/1")
    assert opened(root, cache).match("gate/2/1/1") == opened(root, None).match("gate/2/1/1")
