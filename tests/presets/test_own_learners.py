"""Learners of other packages: found by entry point, with settings of their own; broken ones name their package."""

from __future__ import annotations

from pathlib import Path

import pytest

from zerofleet.errors import ConfigurationError
from zerofleet.presets.experiment import Experiment, read_experiment
from zerofleet.presets.learners import LEARNERS, available, declared, own_settings

MODULE = """
from pydantic import BaseModel, ConfigDict
from zerofleet.errors import ConfigurationError
from zerofleet.presets.learners import LearnerDeclaration

class Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    rate: float = 0.1
    sizes: tuple[int, ...] = (1, 2)

class Unfinished(BaseModel):
    rate: float

class Shouting(BaseModel):
    Rate: float = 0.1

def require(preset, settings):
    if settings.rate > preset.gate.simulations:
        raise ConfigurationError("the rate is above the simulations")

MINE = LearnerDeclaration(implementation="not_installed:Mine", settings=Settings, require=require)
PLAIN = LearnerDeclaration(implementation="not_installed:Plain")
UNFINISHED = LearnerDeclaration(implementation="not_installed:Mine", settings=Unfinished)
SHOUTING = LearnerDeclaration(implementation="not_installed:Mine", settings=Shouting)
DICTIONARY = LearnerDeclaration(implementation="not_installed:Mine", settings=dict)
HALF_CALLED = LearnerDeclaration(implementation="not_installed:Mine", settings=Settings, require=lambda preset: None)
NO_DECLARATION = Settings
"""
OFFERS = {
    "mine": "own_learner_module:MINE",
    "plain": "own_learner_module:PLAIN",
    "gone": "a_module_that_is_not_there:LEARNER",
    "unfinished": "own_learner_module:UNFINISHED",
    "shouting": "own_learner_module:SHOUTING",
    "no_declaration": "own_learner_module:NO_DECLARATION",
    "dictionary": "own_learner_module:DICTIONARY",
    "half_called": "own_learner_module:HALF_CALLED",
    "search": "own_learner_module:MINE",
    "td_lambda": "own_learner_module:MINE",
}


@pytest.fixture(autouse=True)
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the import path in which a package that offers learners is installed."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_learner_module.py").write_text(MODULE)
    info = tmp_path / "some_learners-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-learners\nVersion: 1.0\n")
    lines = "".join(f"{name} = {value}\n" for name, value in OFFERS.items())
    (info / "entry_points.txt").write_text(f"[zerofleet.learners]\n{lines}")
    return tmp_path


def built(**settings: str):
    named = {name.replace("__", "."): value for name, value in settings.items()}
    return Experiment("tic_tac_toe", "tiny", settings=named).build_preset()


def test_installed_learners_are_listed_after_the_built_in_ones_which_they_do_not_replace() -> None:
    assert available() == (*LEARNERS, *sorted(OFFERS.keys() - {"td_lambda"}))
    assert declared("td_lambda") is LEARNERS["td_lambda"]


def test_settings_of_an_own_learner_are_a_part_of_the_preset() -> None:
    chosen = built(train__learner="mine", mine__rate="0.5", mine__sizes="3,4")
    assert chosen.own_learner.model_dump() == {"rate": 0.5, "sizes": (3, 4)}
    assert built(train__learner="mine").own_learner.model_dump() == {"rate": 0.1, "sizes": (1, 2)}
    assert built(mine__rate="0.5").own_learner is None  # checked, but of another learner
    assert built(train__learner="plain").own_learner is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"train__learner": "nope"},
            r"no such learner; there are alphazero, .*td_lambda.*, gone, half_called, mine, .*zerofleet\.learners",
        ),
        ({"train__learner": "gone"}, r"some-learners offers it as 'a_module.*No module named"),
        ({"train__learner": "no_declaration"}, "some-learners .*is ModelMetaclass, no LearnerDeclaration"),
        (
            {"train__learner": "dictionary"},
            "some-learners .*has the settings <class 'dict'>; want a class of pydantic's BaseModel",
        ),
        (
            {"train__learner": "half_called"},
            r"some-learners .*`require` for other arguments than \(preset, settings\): too many",
        ),
        ({"train__learner": "unfinished"}, "some-learners .*without valid defaults"),
        ({"train__learner": "shouting"}, "some-learners .*names Rate; want lower-case"),
        ({"train__learner": "search"}, "some-learners .*no table can have its name"),
        ({"train__learner": "mine", "mine__rat": "1"}, r"did you mean mine\.rate\?"),
        ({"train__learner": "mine", "mine__rate": "fast"}, r"--set mine\.rate=fast: Input should be a valid number"),
        ({"train__learner": "mine", "mine__rate": "1000"}, "the rate is above the simulations"),
        ({"gone__rate": "1"}, "some-learners offers it"),
        ({"nowhere__rate": "1"}, "no such setting"),
    ],
)
def test_a_fault_of_a_learner_or_of_its_settings_is_named(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        built(**settings)


def test_a_broken_package_affects_no_other_learner() -> None:
    assert built(train__learner="td_lambda").train.learner == "td_lambda"
    assert own_settings("plain") is None
    assert own_settings("search_of_nothing") is None


def test_a_table_of_an_experiment_file_is_checked_strictly(tmp_path: Path) -> None:
    file = tmp_path / "experiment.toml"
    file.write_text('game = "tic_tac_toe"\n[train]\nlearner = "mine"\n[mine]\nsizes = [7]\n')
    assert read_experiment(file).build_preset().own_learner.sizes == (7,)
    for text, message in (
        ('rate = "0.5"', r"mine\.rate: Input should be a valid number.*the preset's 0\.1"),
        ("speed = 1", r"mine\.speed: no such setting"),
    ):
        file.write_text(f'game = "tic_tac_toe"\n[mine]\n{text}\n')
        with pytest.raises(ConfigurationError, match=message):
            read_experiment(file)
    file.write_text('game = "tic_tac_toe"\nmine = 3\n')
    with pytest.raises(ConfigurationError, match="mine = 3 is an integer; want a table"):
        read_experiment(file)
