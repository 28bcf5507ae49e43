"""`zerofleet bench learn`: results, their comparison, and clear errors."""

from __future__ import annotations

import asyncio
import json
import re
import tempfile

import pytest

from games.core import make
from zerofleet.cli.bench.learn import report
from zerofleet.cli.bench.learn.trials import run_trials
from zerofleet.errors import ConfigurationError, InvalidRequest, Unavailable
from zerofleet.presets.experiment import PARTS
from zerofleet.presets.trial import PARTS_OF_TRIAL, Trial, require_effect
from zerofleet.strength.learning.positions import kept_positions

SMALL = (
    "search.simulations=8",
    "search.fast_simulations=4",
    "network.channels=8",
    "selfplay.slots=32",
    "train.batch_size=32",
    "train.min_samples=100",
    "train.samples_per_candidate=100",
)
WORDS = ("bench", "learn", "tic_tac_toe", "--preset", "tiny", "--simulations", "0", "--judged", "20")
SETTINGS = tuple(word for setting in SMALL for word in ("--set", setting))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.slow
def test_seeds_are_judged_by_perfect_play_the_result_holds_everything_and_later_ones_are_compared_with_it(zerofleet, tmp_path):
    out, chart = tmp_path / "result.json", tmp_path / "curve.svg"
    words = (*WORDS, *SETTINGS, "--samples", "240", "--judge-every", "120")
    outcome = zerofleet(*words, "--seeds", "2", "--jobs", "2", "--out", str(out), "--json")
    assert outcome.code == 0, outcome.err
    result = outcome.json()
    assert json.loads(out.read_text()) == result
    check_result(result)
    stored = result | {"seeds": result["seeds"][:1]}
    out.write_text(json.dumps(stored))
    again = zerofleet(*words, "--against", str(out), "--plot", str(chart))
    assert again.code == 0, again.err
    check_tables(again.out, out)
    assert "<svg" in chart.read_text()
    other = zerofleet(*words, "--simulations", "5", "--against", str(out))
    assert (other.code, other.out) == (2, "")
    assert "cannot be compared: its judge.simulations is 0, here 5; measure one of them again" in " ".join(other.err.split())


def check_result(result):
    assert (result["game"], result["preset"], result["unit"], result["budget"]) == ("tic_tac_toe", "tiny", "samples", 240)
    assert result["settings"]["search.simulations"] == "8"
    assert result["preset_values"]["search"]["simulations"] == 8
    assert result["preset_values"]["warm_start"]["games"] == 0
    assert (result["judge"]["kind"], result["judge"]["positions"]) == ("perfect play", 20)
    assert result["machine"]["processor"]
    assert [seed["seed"] for seed in result["seeds"]] == [0, 1]
    for seed in result["seeds"]:
        assert [judgement["planned"] for judgement in seed["judgements"]] == [120, 240]
        names = [measure["name"] for measure in seed["judgements"][0]["measures"]]
        assert names == ["policy alone, sign", "policy alone, exact"]
        assert len(seed["end"]["weights"]) == 64
    assert result["seeds"][0]["end"]["weights"] != result["seeds"][1]["end"]["weights"]
    assert [(point["at"], point["seeds"], point["interval"]) for point in result["curve"][::2]] == [
        (120, 2, "seeds"),
        (240, 2, "seeds"),
    ]


def check_tables(text, stored):
    assert text.splitlines()[0].startswith("tic_tac_toe, preset tiny search.simulations=8")
    assert text.splitlines()[1].split()[:4] == ["samples", "policy", "alone,", "sign"]
    assert "evaluations per sample" in text
    assert f"difference to {stored} at 240 samples" in text
    rows = [line.split() for line in text.splitlines() if line.startswith("policy alone, sign")]
    assert rows[0][5] == "+0.0"  # equal seeds and a budget in samples repeat the trial exactly


@pytest.mark.slow
def test_a_game_without_perfect_play_is_judged_by_matches_against_the_agents_asked_for(zerofleet):
    words = ("--opponents", "random,rock_paper_scissors_order:1", "--games", "8", "--samples", "120", "--judge-every", "120")
    game = ("bench", "learn", "rock_paper_scissors", "--preset", "tiny", "--set", "train.batch_size=32")
    outcome = zerofleet(*game, *words, "--simulations", "0", "--set", "train.min_samples=100", "--json")
    assert outcome.code == 0, outcome.err
    result = outcome.json()
    measures = result["seeds"][0]["judgements"][-1]["measures"]
    assert [one["name"] for one in measures] == ["points against random", "points against rock_paper_scissors_order:1"]
    assert all(one["of"] == 8 and 0 <= one["low"] <= one["value"] <= one["high"] <= 1 for one in measures)
    assert result["judge"]["opponents"] == ["random", "rock_paper_scissors_order:1"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "want a budget: --cpu-seconds S or --samples N"),
        (("--cpu-seconds", "5", "--samples", "10"), "one of the two"),
        (("--samples", "10", "--set", "search.simulation=5"), "did you mean search.simulations?"),
        (("--samples", "10", "--set", "search.simulations=many"), "--set search.simulations=many"),
        (("--samples", "10", "--set", "gate.simulations=5"), "has no effect in one process: there is no gate"),
        (("--samples", "10", "--set", "selfplay.lanes=2"), "has no effect in one process"),
        (("--samples", "10", "--set", "warm_start.parallel=2"), "has no effect in one process"),
        (
            ("--samples", "10", "--set", "td_lambda.hidden=5"),
            "no effect in one process: a trial measures the learner alphazero",
        ),
        (("--samples", "10", "--set", "afterstates.epsilon=0.5"), "a trial measures the learner alphazero"),
        (
            ("--samples", "10", "--set", "train.learner=outcome"),
            "train.learner=outcome: a trial measures the learner alphazero",
        ),
        (("--samples", "10", "--set", "trainer.seed=2"), "is a setting of a service"),
        (("--samples", "10", "--set", "rows"), "is not NAME=VALUE"),
        (("--samples", "10", "--judge-every", "0"), "--judge-every 0 is out of range"),
        (("--samples", "10", "--judge-every", "inf"), "'--judge-every': inf is out of range; want a finite number"),
        (("--samples", "10", "--judge-every", "nan"), "'--judge-every': nan is out of range"),
        (("--cpu-seconds", "inf"), "'--cpu-seconds': inf is out of range"),
        (("--samples", "10", "--opponents", "bob"), "no agent is called 'bob'"),
        (("--samples", "10", "--opponents", "model:1"), "is not a rung"),
        (("--samples", "10", "--opponents", "random", "--positions", "x"), "two ways to judge"),
        (("--samples", "10", "--positions", "none.txt"), "positions cannot be read from none.txt"),
        (("--samples", "10", "--plot", "curve.pdf"), "must end in .svg or .png"),
        (("--samples", "10", "--plot", "none/curve.svg"), "none/curve.svg cannot be written"),
        (("--samples", "10", "--out", "none/result.json"), "none is not a directory; create it, or choose another place"),
        (("--samples", "10", "--out", "."), ". cannot be written: it is a directory; name a file"),
        (("--samples", "10", "--against", "none.json"), "is not a result of `zerofleet bench learn --out`"),
    ],
)
def test_an_impossible_trial_is_rejected_before_it_starts(zerofleet, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    outcome = zerofleet(*WORDS, *words)
    assert outcome.code == 2
    assert outcome.out == ""
    assert said in outcome.err


@pytest.mark.parametrize("part", [part for part in PARTS if part not in PARTS_OF_TRIAL])
def test_a_setting_of_a_part_that_a_trial_does_not_take_is_rejected(part):
    name = f"{part}.{next(iter(PARTS[part].model_fields))}"
    with pytest.raises(ConfigurationError, match=f"{name}=1 has no effect in one process"):
        require_effect({name: "1"})


@pytest.mark.slow
def test_a_warm_start_that_spends_the_budget_is_an_error_and_not_an_empty_table(zerofleet, tmp_path):
    out = tmp_path / "result.json"
    outcome = zerofleet(*WORDS, *SETTINGS, "--set", "warm_start.games=200", "--samples", "60", "--out", str(out))
    assert (outcome.code, outcome.out) == (2, "")
    assert "games of the warm start with" in outcome.err
    assert "lower warm_start.games" in outcome.err
    assert json.loads(out.read_text())["seeds"][0]["end"]["samples"] >= 60


def test_a_stored_result_of_another_format_is_rejected(tmp_path):
    path = tmp_path / "old.json"
    path.write_text(json.dumps({"format": 99, "seeds": [1]}))
    with pytest.raises(InvalidRequest, match="has format 99"):
        report.read_result(path)


@pytest.fixture
def judged(tmp_path):
    """Return the function that describes trials which perfect play judges with a number of simulations."""
    positions = kept_positions(tmp_path, make("tic_tac_toe"), count=4, seed=0)

    def described(simulations):
        terms = {"samples": 10, "judge_every": 10.0, "positions": str(positions), "simulations": simulations}
        return report.about(Trial(game="tic_tac_toe", preset="tiny", **terms))

    return described


def test_a_result_states_the_root_of_its_judge_and_whether_it_proves_replies(judged):
    assert judged(16)["judge"]["search"] == "root=gumbel,replies=true"
    assert "search" not in judged(0)["judge"]  # the policy alone
    by_matches = Trial(game="take_six", preset="tiny", samples=10, judge_every=10.0, opponents=("random",))
    assert report.about(by_matches)["judge"]["search"] == "root=puct"


def test_results_with_the_same_terms_are_compared_whatever_their_settings(judged):
    report.require_comparable(judged(16), judged(16) | {"settings": {"search.simulations": "8"}}, "old.json")


def test_a_result_that_does_not_state_the_search_of_its_judge_is_compared_for_the_policy_alone_only(judged):
    report.require_comparable(judged(0), judged(0), "old.json")
    now = judged(16)
    unstated = {name: value for name, value in now["judge"].items() if name != "search"}
    said = "old.json cannot be compared: it states no judge.search, here root=gumbel,replies=true; measure it again"
    with pytest.raises(InvalidRequest, match=re.escape(said)):
        report.require_comparable(now, now | {"judge": unstated}, "old.json")


def test_the_term_in_which_results_differ_is_named(judged):
    now = judged(16)
    for changed, said in (
        ({"unit": "processor seconds"}, "its unit is processor seconds, here samples; measure one of them again"),
        (
            {"judge": now["judge"] | {"search": "root=puct,replies=true"}},
            "its judge.search is root=puct,replies=true, here root=g",
        ),
        ({"judge": now["judge"] | {"games": 40}}, "its judge.games is 40, here none"),
        ({"judge": None}, "it states no judge.kind, here perfect play"),
    ):
        with pytest.raises(InvalidRequest, match=re.escape(f"old.json cannot be compared: {said}")):
            report.require_comparable(now, now | changed, "old.json")


@pytest.mark.slow
def test_a_trial_that_is_ended_leaves_no_run_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    positions = kept_positions(tmp_path, make("tic_tac_toe"), count=4, seed=0)
    settings = dict(setting.split("=") for setting in SMALL)
    terms = {"settings": settings, "samples": 10**9, "judge_every": 100.0, "positions": str(positions), "simulations": 0}
    trial = Trial(game="tic_tac_toe", preset="tiny", **terms)
    found = []

    def stop(*_):
        found.extend(tmp_path.glob("zerofleet-learn-*/models"))
        raise InterruptedError

    with pytest.raises(InterruptedError):
        asyncio.run(run_trials([trial], jobs=1, on_event=stop))
    assert len(found) == 1
    assert not list(tmp_path.glob("zerofleet-learn-*"))


@pytest.mark.slow
async def test_a_trial_that_fails_is_reported_with_its_last_lines():
    trial = Trial(game="tic_tac_toe", preset="tiny", samples=50, judge_every=50.0, positions="/nowhere/positions.json")
    with pytest.raises(Unavailable, match=r"the trial of seed 0 exited with code 1: .*/nowhere/positions\.json"):
        await run_trials([trial], jobs=1, on_event=lambda *_: None)
