"""A stage continues, and its result counts, only with the values that its preset had."""

from __future__ import annotations

import json
from typing import Any

import pytest

from zerofleet.cli.reproduce.results import StageResults
from zerofleet.errors import InvalidRequest
from zerofleet.presets import preset
from zerofleet.presets.theses import preset_values as module
from zerofleet.presets.theses.preset_values import preset_values
from zerofleet.presets.theses.stages import fingerprint, read_stage

ALPHAZERO = read_stage(
    {"kind": "alphazero", "id": "a.b.0", "seed": 0, "game": "tic_tac_toe", "samples": 10, "judge_every": 10}
    | {"settings": {"search.temperature": "0.5"}}
)
LEARNER = read_stage(
    {"kind": "learner", "id": "a.b.0", "seed": 0, "game": "tic_tac_toe", "games": 10}
    | {"settings": {"train.learner": "td_lambda"}}
)
DQN = LEARNER.model_copy(update={"settings": {"train.learner": "dqn"}})
MATCH = read_stage({"kind": "match", "id": "a.b.0", "seed": 0, "game": "tic_tac_toe"})


@pytest.fixture
def upgrade(monkeypatch):
    """Return a function that changes values of every preset, as an upgrade does."""

    def change(values: dict[str, Any]) -> None:
        def changed(*given: Any) -> Any:
            found = preset(*given)
            for name, value in values.items():
                part, _, key = name.partition(".")
                found = found.model_copy(update={part: getattr(found, part).model_copy(update={key: value})})
            return found

        monkeypatch.setattr(module, "preset", changed)

    return change


def begun(tmp_path, stage) -> StageResults:
    """Return the results of a folder in which a stage was begun and ended."""
    results = StageResults(tmp_path)
    results.begin(stage)
    results.keep(stage, {"tallies": []}, seconds=1.0)
    return results


@pytest.mark.parametrize(
    ("stage", "name", "value"),
    [
        (ALPHAZERO, "search.simulations", 7),
        (ALPHAZERO, "network.channels", 7),
        (ALPHAZERO, "selfplay.slots", 7),
        (LEARNER, "selfplay.slots", 7),
        (LEARNER, "afterstates.temperature", 0.7),
        (LEARNER, "td_lambda.hidden", 7),
        (DQN, "deep_q.draws", 7),
    ],
)
def test_a_stage_of_a_preset_that_has_changed_is_refused_with_the_value(tmp_path, upgrade, stage, name, value):
    results, before = begun(tmp_path, stage), preset_values(stage)[name]
    assert results.read(stage)
    upgrade({name: value})
    message = rf"with other settings .*\({name} of its preset was {before} and is {value}\); give another folder"
    with pytest.raises(InvalidRequest, match=rf"a\.b\.0\.json was found {message}"):
        results.read(stage)
    with pytest.raises(InvalidRequest, match=rf"holds stage a\.b\.0 {message}"):
        results.require_settings([stage])


def test_a_stage_that_was_planned_and_not_begun_may_change(tmp_path, upgrade):
    results = begun(tmp_path, LEARNER)
    results.require_settings([LEARNER, ALPHAZERO.model_copy(update={"id": "a.c.0"})])
    results.require_settings([LEARNER, ALPHAZERO.model_copy(update={"id": "a.c.0", "samples": 20})])


def test_a_change_of_a_preset_that_a_stage_overrides_or_does_not_use_is_none(tmp_path, upgrade):
    results = begun(tmp_path, ALPHAZERO)
    upgrade({"search.temperature": 0.7, "gate.simulations": 7, "selfplay.lanes": 7, "td_lambda.hidden": 7})
    assert results.read(ALPHAZERO)
    results.require_settings([ALPHAZERO])


@pytest.mark.parametrize(
    ("stage", "name"), [(LEARNER, "sarsa_lambda.method"), (LEARNER, "deep_q.draws"), (DQN, "td_lambda.hidden")]
)
def test_a_change_of_the_settings_of_another_learner_is_none(tmp_path, upgrade, stage, name):
    results = begun(tmp_path, stage)
    upgrade({name: 7})
    assert results.read(stage)


@pytest.mark.parametrize(("value", "is_valid"), [(0.05, True), (0.5, False)], ids=["default", "another value"])
def test_a_setting_of_a_later_version_counts_where_the_preset_has_another_value_than_its_default(
    tmp_path, upgrade, value, is_valid
):
    results = begun(tmp_path, ALPHAZERO)
    stored = tmp_path / "results" / "a.b.0.json"
    content = json.loads(stored.read_text())
    del content["preset"]["selfplay.resign_false_rate"]
    stored.write_text(json.dumps(content))
    upgrade({"selfplay.resign_false_rate": value})
    if is_valid:
        assert results.read(ALPHAZERO)
    else:
        with pytest.raises(InvalidRequest, match=r"selfplay\.resign_false_rate of its preset was 0\.05 and is 0\.5"):
            results.read(ALPHAZERO)


def test_stages_of_versions_that_kept_no_values_of_the_preset_stay_valid(tmp_path, upgrade):
    results = begun(tmp_path, ALPHAZERO)
    stored, settings = tmp_path / "results" / "a.b.0.json", tmp_path / "settings.json"
    stored.write_text(json.dumps({"format": 1, "fingerprint": fingerprint(ALPHAZERO), "tallies": []}))
    settings.write_text(json.dumps({ALPHAZERO.id: fingerprint(ALPHAZERO)}))
    upgrade({"search.simulations": 7})
    assert results.read(ALPHAZERO)
    results.require_settings([ALPHAZERO])
    settings.write_text(json.dumps({ALPHAZERO.id: "of another release"}))
    with pytest.raises(InvalidRequest, match="those of the stage itself"):
        results.require_settings([ALPHAZERO])


@pytest.mark.parametrize("values", [7, ["search.simulations"], "a"])
def test_damaged_values_of_a_preset_are_refused(tmp_path, values):
    results = begun(tmp_path, ALPHAZERO)
    stored = tmp_path / "results" / "a.b.0.json"
    stored.write_text(json.dumps(json.loads(stored.read_text()) | {"preset": values}))
    with pytest.raises(InvalidRequest, match="its preset is damaged"):
        results.read(ALPHAZERO)


def test_a_stage_without_a_preset_keeps_no_values(tmp_path):
    assert preset_values(MATCH) == {}
    assert "preset" not in (begun(tmp_path, MATCH).read(MATCH) or {})
