"""Comparison of two versions: where known networks differ, the means with their intervals, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

import games
from zerofleet.contracts.gate_events import StatusChanged, Submitted
from zerofleet.contracts.promotions import CandidateStatus, MatchReport
from zerofleet.errors import CorruptModel, InvalidRequest, ModelNotFound
from zerofleet.library.chosen_positions import MOST_POSITIONS, Sample, drawn_position, line_positions, sampled_positions
from zerofleet.library.model_comparison import (
    MOST_ROWS,
    Network,
    compare_opinions,
    compare_versions,
    in_this_process,
    models_of,
    version_named,
)
from zerofleet.library.opinion_figures import divergence, mean_figure, normalised, total_variation
from zerofleet.library.run_files import OpenRun
from zerofleet.storage.gate_journal import JOURNAL_FILE, EventJournal
from zerofleet.storage.runs import RunDirectory, RunPaths
from zerofleet.testing import FunctionEvaluator
from zerofleet.testing.compared_runs import game_uid, make_compared_run

GAME = games.make("tic_tac_toe")
CENTRE = 4


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs") / "compared"
    make_compared_run(root, action=CENTRE)
    opened = OpenRun("compared", RunPaths(root))
    yield opened
    opened.close()


async def compared(run, chosen, versions=(1, 2)):
    async with models_of(run, versions) as network:
        return await compare_opinions(chosen, (network, network), versions, seed=0)


def fake(policy_of, value):
    """Return a network whose policy is `policy_of(legal)` and whose value for the player to move is constant."""

    def answer(batch, version):
        return policy_of(batch.legal), np.tile(np.array([value, -value], np.float32), (len(batch), 1))

    return Network(FunctionEvaluator(answer), "a fake")


def uniform(legal):
    listed = legal >= 0
    return listed / listed.sum(axis=1, keepdims=True)


@pytest.mark.slow
async def test_identical_models_differ_nowhere(run):
    async with models_of(run, (2,)) as network:
        found = (await compare_opinions(sampled_positions(run, Sample()), (network, network), (2, 2))).view()
    means = (found.total_variation, found.divergence, found.reverse_divergence, found.value_gap, found.value_shift)
    assert [(one.mean, one.low, one.high) for one in means] == [(0.0, 0.0, 0.0)] * 5
    assert found.same_best.mean == 1.0
    assert {row.total_variation for row in found.rows} == {0.0}


async def test_a_changed_policy_head_is_found_where_its_move_is_legal(run):
    chosen = sampled_positions(run, Sample())
    outputs = await compared(run, chosen)
    is_legal = (chosen.legal == CENTRE).any(axis=1)
    several = (chosen.legal >= 0).sum(axis=1) > 1  # of one legal move the prior is 1 whatever its logit
    np.testing.assert_array_equal(outputs.distance > 1e-3, is_legal & several)
    view = outputs.view("policy", limit=5)
    distances = [row.total_variation for row in view.rows]
    assert distances == sorted(distances, reverse=True)
    assert distances[0] == pytest.approx(outputs.distance.max())
    centre = next(one for one in view.rows[0].priors if one.move == "b2")
    assert centre.second - centre.first == pytest.approx(view.rows[0].total_variation, abs=2e-3)
    assert view.evaluated_in == "this process"


async def test_a_changed_value_head_is_found_and_orders_the_rows(run):
    found = (await compared(run, sampled_positions(run, Sample()))).view("value", limit=MOST_ROWS)
    gaps = [abs(row.second_value - row.first_value) for row in found.rows]
    assert gaps == sorted(gaps, reverse=True)
    assert 0 < found.value_shift.mean == found.value_gap.mean
    assert found.value_shift.low < found.value_shift.mean < found.value_shift.high


def test_a_sample_follows_from_its_seed_and_has_no_position_twice(run):
    first, again, other = (sampled_positions(run, Sample(30, seed)) for seed in (1, 1, 2))
    places = [[(one.uid, one.ply) for one in sample.positions] for sample in (first, again, other)]
    assert places[0] == places[1] != places[2]
    keys = {(state.tobytes(), legal.tobytes()) for state, legal in zip(first.states, first.legal, strict=True)}
    assert len(keys) == len(first) == 30
    assert first.before == 9


def test_a_sample_before_a_game_has_older_games_alone(run):
    found = sampled_positions(run, Sample(500, before=3))
    assert {one.uid for one in found.positions} <= {game_uid(number) for number in range(3)}
    assert (found.before, found.games) == (3, 3)


def test_a_stopped_sample_reads_no_further_game(run):
    with pytest.raises(InvalidRequest, match="no stored game"):
        sampled_positions(run, Sample(), is_stopped=lambda: True)


async def test_a_line_of_moves_gives_each_of_its_positions_without_an_interval(run):
    chosen = line_positions(GAME, "b2 a1 c3")
    assert [one.moves for one in chosen.positions] == [(), ("b2",), ("b2", "a1"), ("b2", "a1", "c3")]
    assert [one.seat for one in chosen.positions] == [0, 1, 0, 1]
    found = (await compared(run, chosen)).view()
    assert (found.source, found.seed, found.before, found.positions) == ("moves", 0, None, 4)
    assert found.total_variation.low is None


def test_the_end_of_a_game_is_no_position():
    assert len(line_positions(GAME, "a1 b1 a2 b2 a3")) == 5


@pytest.mark.parametrize("positions", [0, -1, MOST_POSITIONS + 1])
def test_a_number_of_positions_out_of_range_is_refused(positions):
    with pytest.raises(InvalidRequest, match="out of range"):
        Sample(positions)


async def test_a_number_of_rows_out_of_range_is_refused(run):
    outputs = await compared(run, line_positions(GAME, ""))
    with pytest.raises(InvalidRequest, match="out of range"):
        outputs.view(limit=MOST_ROWS + 1)


def test_a_run_without_games_says_so(tmp_path):
    with RunDirectory.create_or_open(tmp_path / "run", "tic_tac_toe", {}, preset="tiny", seed=1) as made:
        opened = OpenRun("run", made.paths)
    with pytest.raises(InvalidRequest, match="no stored game"):
        sampled_positions(opened, Sample())


def test_moves_name_no_position_where_something_is_hidden():
    with pytest.raises(InvalidRequest, match="hidden information"):
        line_positions(games.make("take_six"), "")


async def test_models_without_policies_are_ordered_by_value():
    chosen = line_positions(GAME, "b2 a1")
    found = (await compare_opinions(chosen, (fake(uniform, 0.25), fake(uniform, -0.5)), (1, 2))).view()
    assert (found.has_policies, found.order) == (False, "value")
    assert found.value_shift.mean == pytest.approx(-0.75)


async def test_answers_that_are_not_finite_are_refused():
    with pytest.raises(CorruptModel, match="not finite"):
        await compare_opinions(line_positions(GAME, ""), (fake(uniform, math.nan), fake(uniform, 0.0)), (1, 2))


async def test_progress_counts_the_positions_of_both_versions():
    seen = []
    networks = (fake(uniform, 0.0), fake(uniform, 0.0))
    await compare_opinions(line_positions(GAME, "b2 a1"), networks, (1, 2), advance=seen.append)
    assert sum(seen) == 6


def test_divergence_and_distance_are_those_of_their_definitions():
    legal = np.array([[0, 1, -1]], np.int16)
    first, second = (normalised(np.array([[p, 1 - p, 0.0]], np.float16), legal) for p in (0.75, 0.25))
    assert total_variation(first, second)[0] == pytest.approx(0.5, abs=1e-6)
    assert divergence(first, second)[0] == pytest.approx(0.75 * math.log(3) + 0.25 * math.log(1 / 3), abs=1e-6)
    certain = normalised(np.array([[1.0, 0.0, 0.0]], np.float16), legal)
    assert math.isfinite(divergence(first, certain)[0])


def test_the_interval_of_a_mean_counts_positions_of_one_game_as_dependent():
    numbers = np.array([0.0, 0.0, 1.0, 1.0])
    together = mean_figure(numbers, np.array([0, 0, 1, 1]), is_sample=True)
    apart = mean_figure(numbers, np.arange(4), is_sample=True)
    assert together.mean == apart.mean == 0.5
    assert together.high - together.low > apart.high - apart.low
    bounded = mean_figure(numbers, np.array([0, 0, 1, 1]), is_sample=True, within=(0.0, 1.0))
    assert (bounded.low, bounded.high) == (0.0, 1.0)


def test_manifests_are_compared_entry_by_entry(run):
    found = compare_versions(run, 1, 2)
    entries = {one.name: one for one in found.settings}
    assert (entries["parent version"].first, entries["parent version"].second) == ("none", "1")
    assert entries["train steps"].differs
    assert entries["file: weights.safetensors"].differs
    assert not entries["network: kind"].differs
    assert found.matches == ()


@pytest.mark.slow
def test_the_match_between_two_versions_is_found(tmp_path):
    make_compared_run(tmp_path / "run", games=1)
    run = OpenRun("run", RunPaths(tmp_path / "run"))
    report = MatchReport(1, 6, 2, 2, (0, 1, 1, 2, 1), 0.7, 0.5, 0.9, 2.94)
    EventJournal(run.paths.gatekeeper / JOURNAL_FILE, model="tic_tac_toe").rewrite(
        [
            Submitted(version=2, manifest_sha256="0" * 64),
            StatusChanged(version=2, status=CandidateStatus.PROMOTED, reason="stronger", report=report),
        ]
    )
    for pair in ((1, 2), (2, 1)):
        (match,) = compare_versions(run, *pair).matches
        assert (match.version, match.opponent, match.wins) == (2, 1, 6)
    run.close()


def test_versions_that_cannot_be_compared_are_refused_with_the_reason(run):
    with pytest.raises(InvalidRequest, match="with itself"):
        compare_versions(run, 2, 2)
    with pytest.raises(ModelNotFound):
        compare_versions(run, 1, 9)
    with pytest.raises(InvalidRequest, match="not a version"):
        version_named(run, "newest")
    assert [version_named(run, name) for name in ("champion", "1", "model:2")] == [2, 1, 2]


@pytest.mark.slow
async def test_a_damaged_version_is_refused(tmp_path):
    make_compared_run(tmp_path / "run", games=1)
    (tmp_path / "run" / "models" / "tic_tac_toe" / "2" / "weights.safetensors").write_bytes(b"nothing")
    with pytest.raises(CorruptModel):
        await in_this_process(OpenRun("run", RunPaths(tmp_path / "run")), (1, 2))


@pytest.mark.slow
def test_a_position_with_hidden_cards_is_drawn_as_its_player_sees_it(tmp_path):
    make_compared_run(tmp_path / "run", "take_six", games=1)
    run = OpenRun("run", RunPaths(tmp_path / "run"))
    _, stored = run.stored(game_uid(0))
    own, seat = stored.game, int(stored.movers[0])
    picture = drawn_position(run, uid=game_uid(0), ply=0)
    assert picture == own.draw_svg_for(stored.states[0], seat)
    assert picture != own.draw_svg_for(stored.states[0], (seat + 1) % own.spec().num_players)
    with pytest.raises(InvalidRequest, match="no position with a move"):
        drawn_position(run, uid=game_uid(0), ply=len(stored.movers))
    run.close()
