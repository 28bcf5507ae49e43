"""Curves of a run from the rows of its supervisor."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from zerofleet.errors import InvalidRequest
from zerofleet.library.curves import CURVES, Curves, run_curves
from zerofleet.library.metrics import read_metrics
from zerofleet.supervisor.lines import row
from zerofleet.supervisor.readings import Readings

NO_DIAGNOSTICS = {"elapsed_s": 10.0, "games": 5}


def counts(elapsed_s: float, **numbers: float | None) -> dict[str, float | None]:
    """Return a row of the supervisor; counts that are not given are 0."""
    return {
        **dict.fromkeys(("ended_result", "ended_cut", "ended_resigned", "ended_soft_resigned"), 0),
        **dict.fromkeys(("wins_taken", "wins_overlooked", "selfplay_samples", "adoptions", "adoption_total_s"), 0),
        **dict.fromkeys(("selfplay_evaluations", "match_evaluations", "ladder_evaluations"), 0),
        "elapsed_s": elapsed_s,
        **numbers,
    }


def of_rows(directory: Path, rows: list[dict[str, float | None]], points: int) -> Curves:
    lines = [json.dumps({"at": "2026-11-22T10:00:00+00:00", **each}) for each in rows]
    (directory / "run.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return run_curves(read_metrics(directory), points=points)


def values(curves: Curves, name: str) -> list[float]:
    (curve,) = (curve for curve in curves.curves if curve.name == name)
    return list(curve.values)


def test_shares_are_those_of_each_period(tmp_path: Path) -> None:
    rows = [
        counts(0.0),
        counts(5.0, ended_result=90, ended_resigned=8, ended_soft_resigned=2, wins_taken=99, wins_overlooked=1),
        counts(10.0, ended_result=110, ended_resigned=48, ended_soft_resigned=42, wins_taken=129, wins_overlooked=71),
    ]
    curves = of_rows(tmp_path, rows, points=2)
    assert curves.hours == pytest.approx((5 / 3600, 10 / 3600))
    # 5.0 s belongs to the second period: from its own beginning on.
    assert values(curves, "resigned_share") == pytest.approx([np.nan, 0.45], nan_ok=True)
    assert values(curves, "overlooked_share") == pytest.approx([np.nan, 0.355], nan_ok=True)
    assert values(of_rows(tmp_path, rows, points=1), "resigned_share") == [0.45]


def test_a_game_that_is_played_on_after_a_resignation_counts_among_the_resigned_ones_and_alone(tmp_path: Path) -> None:
    ended = {"ended_result": 50, "ended_cut": 20, "ended_resigned": 5, "ended_soft_resigned": 25}
    curves = of_rows(tmp_path, [counts(0.0), counts(10.0, **ended)], points=1)
    shares = {name: values(curves, f"{name}_share") for name in ("resigned", "soft_resigned", "cut")}
    assert shares == {"resigned": [0.3], "soft_resigned": [0.25], "cut": [0.2]}


def test_evaluations_are_those_of_self_play_gate_and_ladder_for_each_sample(tmp_path: Path) -> None:
    rows = [
        counts(1.0, selfplay_evaluations=700, match_evaluations=200, ladder_evaluations=100, selfplay_samples=50),
        counts(9.0, selfplay_evaluations=1_600, match_evaluations=250, ladder_evaluations=150, selfplay_samples=100),
    ]
    curves = of_rows(tmp_path, rows, points=2)
    assert values(curves, "evaluations_per_sample") == [20.0, 20.0]
    assert values(curves, "gate_share") == [0.2, 0.05]


def test_states_are_averaged_over_the_rows_that_have_them(tmp_path: Path) -> None:
    rows = [
        counts(0.0, target_entropy=None, network_age_s=None),
        counts(1.0, target_entropy=1.5, network_age_s=3.0),
        counts(4.0, target_entropy=1.3, network_age_s=None),
        counts(10.0, target_entropy=None, network_age_s=8.0),
    ]
    curves = of_rows(tmp_path, rows, points=2)
    assert values(curves, "target_entropy") == pytest.approx([1.4, np.nan], nan_ok=True)
    assert values(curves, "network_age_s") == [3.0, 8.0]


def test_counts_of_a_resumed_run_begin_again_and_its_time_continues(tmp_path: Path) -> None:
    first = [counts(10.0 * i, ended_result=10 * i, ended_resigned=0, adoptions=i, adoption_total_s=20.0 * i) for i in range(4)]
    second = [counts(10.0 * i, ended_resigned=10 * i, adoptions=i, adoption_total_s=50.0 * i) for i in range(4)]
    curves = of_rows(tmp_path, first + second, points=2)
    assert curves.hours[-1] == pytest.approx(60 / 3600)
    assert values(curves, "adoption_s") == pytest.approx([20.0, 42.5])
    assert values(of_rows(tmp_path, first + second, points=1), "resigned_share") == [0.5]


def test_a_second_session_with_larger_counts_at_once_is_not_taken_for_the_first(tmp_path: Path) -> None:
    rows = [counts(0.0), counts(100.0, ended_result=10), counts(50.0, ended_resigned=30, ended_result=10)]
    assert values(of_rows(tmp_path, rows, points=1), "resigned_share") == [0.6]


@pytest.mark.parametrize(
    "damage", [{"elapsed_s": None}, {"elapsed_s": float("nan")}, {"elapsed_s": "9"}, {"at": ""}, {"at": None}]
)
def test_damaged_rows_without_a_time_do_not_count(tmp_path: Path, damage: dict[str, object]) -> None:
    rows = [counts(10.0 * i, ended_result=9 * i, ended_resigned=i, target_entropy=1.0) for i in range(6)]
    whole = repr(of_rows(tmp_path, rows, points=2))  # text, as nan differs from itself
    damaged = {**rows[3], "ended_resigned": 1_000, "target_entropy": 99.0, **damage}
    for place in (0, 3, 6):
        assert repr(of_rows(tmp_path, [*rows[:place], damaged, *rows[place:]], points=2)) == whole
    again = [counts(10.0 * i, ended_result=50, ended_resigned=50) for i in range(1, 3)]
    assert repr(of_rows(tmp_path, [*rows, damaged, *again], points=3)) == repr(of_rows(tmp_path, [*rows, *again], points=3))
    with pytest.raises(InvalidRequest, match="has no diagnostics"):
        of_rows(tmp_path, [damaged], points=2)


def test_a_row_without_a_count_leaves_its_growth_to_the_next_one(tmp_path: Path) -> None:
    rows = [counts(10.0 * i, ended_result=9 * i, ended_resigned=i) for i in range(6)]
    rows[3] |= {"ended_result": None, "ended_resigned": None}
    assert values(of_rows(tmp_path, rows, points=1), "resigned_share") == [pytest.approx(0.1)]
    rows = [counts(0.0), counts(10.0, wins_taken=60, wins_overlooked=40), counts(20.0, wins_taken=None, wins_overlooked=40)]
    rows.append(counts(30.0, wins_taken=60, wins_overlooked=140))
    assert values(of_rows(tmp_path, rows, points=1), "overlooked_share") == [0.7]


def test_rows_of_earlier_releases_have_no_values(tmp_path: Path) -> None:
    rows = [{**NO_DIAGNOSTICS, "elapsed_s": 10.0 * i} for i in range(5)]
    rows += [counts(10.0 * i, ended_result=i, target_entropy=1.0) for i in range(5)]
    curves = of_rows(tmp_path, rows, points=2)
    assert values(curves, "target_entropy") == pytest.approx([np.nan, 1.0], nan_ok=True)
    assert values(curves, "resigned_share") == pytest.approx([np.nan, 0.0], nan_ok=True)


@pytest.mark.parametrize("rows", [[], [NO_DIAGNOSTICS]], ids=["none", "earlier release"])
def test_a_run_without_diagnostics_is_rejected(tmp_path: Path, rows: list[dict[str, float | None]]) -> None:
    with pytest.raises(InvalidRequest, match="no diagnostics: it has not written a row yet, or an earlier release"):
        of_rows(tmp_path, rows, points=3)


def test_a_single_row_is_a_curve(tmp_path: Path) -> None:
    curves = of_rows(tmp_path, [counts(0.0, ended_result=1)], points=3)
    assert len(curves.hours) == 3
    assert [curve.name for curve in curves.curves] == list(CURVES)


def test_the_supervisor_writes_every_column_of_the_curves(tmp_path: Path) -> None:
    (tmp_path / "run.jsonl").write_text(json.dumps({"at": "2026-11-22T10:00:00+00:00", **row(Readings())}) + "\n")
    assert len(run_curves(read_metrics(tmp_path), points=1).curves) == len(CURVES)
    assert set(counts(0.0)) <= set(row(Readings()))


@pytest.mark.parametrize("seed", range(5))
def test_random_histories_agree_with_a_plain_loop(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows: list[dict[str, float | None]] = []
    for _ in range(3):
        elapsed, result, resigned = 0.0, 0, 0
        for _ in range(int(rng.integers(1, 40))):
            elapsed += float(rng.uniform(1.0, 15.0))
            result, resigned = result + int(rng.integers(0, 9)), resigned + int(rng.integers(0, 9))
            rows.append(counts(elapsed, ended_result=result, ended_resigned=resigned))
    expected = _plain(rows, points=7)
    assert values(of_rows(tmp_path, rows, points=7), "resigned_share") == pytest.approx(expected, nan_ok=True)


def _plain(rows: list[dict[str, float | None]], points: int) -> list[float]:
    """Return the share of resigned games of each period, row by row."""
    told, before, clock = [], None, 0.0
    for each in rows:
        now = tuple(each[name] or 0.0 for name in ("elapsed_s", "ended_result", "ended_resigned"))
        last = (0.0, 0.0, 0.0) if before is None or now[0] < before[0] else before
        clock += now[0] - last[0]
        told.append((clock, now[1] - last[1], now[2] - last[2]))
        before = now
    shares = []
    for period in range(points):
        inside = [t for t in told if min(int(t[0] / (clock / points)), points - 1) == period]
        games = sum(t[1] + t[2] for t in inside)
        shares.append(sum(t[2] for t in inside) / games if games else float("nan"))
    return shares
