"""`zerofleet backup` and `zerofleet restore`: what they are told to save and to fill."""

from __future__ import annotations

import pytest

from zerofleet.storage.runs import RunDirectory


def test_a_run_is_backed_up_by_its_name_below_runs(zerofleet, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    RunDirectory.create_or_open(tmp_path / "runs" / "first", "tic_tac_toe", {}, preset="tiny", seed=1).close()
    outcome = zerofleet("backup", "first", "--to", "backups")
    assert (outcome.code, outcome.err) == (0, "")
    assert zerofleet("restore", outcome.out.strip(), "--check").code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [((), "neither RUN_DIR nor --check is given"), (("again", "--check"), "both are given")],
)
def test_a_restore_wants_a_directory_or_a_check_and_says_what_was_given(zerofleet, words, said):
    outcome = zerofleet("restore", "backup", *words)
    assert outcome.code == 2
    assert f"{said}; want a RUN_DIR to restore to, or --check" in outcome.err
