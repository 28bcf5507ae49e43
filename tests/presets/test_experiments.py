"""Experiment files: written whole, read strictly, and equal to what they were written from."""

from __future__ import annotations

import itertools
import tomllib
from pathlib import Path

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

import games
from gatekeeper.settings import GatekeeperSettings
from inference_server.settings import ServerSettings
from selfplay_worker.settings import WorkerSettings
from trainer.settings import TrainerSettings
from zerofleet.errors import ConfigurationError
from zerofleet.presets import PRESETS, Preset
from zerofleet.presets.commented import commented
from zerofleet.presets.descriptions import description
from zerofleet.presets.experiment import PARTS, SERVICES, Experiment, read_experiment
from zerofleet.service.settings import ServiceSettings, read_settings
from zerofleet.storage.runs import RunDirectory
from zerofleet.supervisor import RunRequest
from zerofleet.supervisor.fleet import plan_fleet
from zerofleet.testing import built_in_games

GAMES = built_in_games()
SETTINGS: dict[str, type[ServiceSettings]] = {
    "inference_server": ServerSettings,
    "gatekeeper": GatekeeperSettings,
    "trainer": TrainerSettings,
    "selfplay_worker": WorkerSettings,
}


def written(experiment: Experiment, directory: Path) -> Path:
    path = directory / "experiment.toml"
    path.write_text(commented(experiment))
    return path


@pytest.mark.parametrize("size", PRESETS)
@pytest.mark.parametrize("name", GAMES)
def test_a_written_experiment_is_read_as_the_same_preset_and_game(name, size, tmp_path):
    begun = Experiment(name, size)
    read = read_experiment(written(begun, tmp_path))
    assert read.build_preset() == begun.build_preset()
    assert (read.build_game(), read.preset, read.seed, read.parameters) == (begun.build_game(), size, None, {})
    assert set(read.settings) == {f"{part}.{key}" for part, model in PARTS.items() for key in model.model_fields}


CHANGES = {
    "search.puct_init": st.floats(1e-6, 1e6),
    "search.simulations": st.integers(1_000, 100_000),
    "network.hidden": st.lists(st.integers(1, 8192), min_size=1, max_size=4),
    "network.hex_kernels": st.booleans().map(lambda value: str(value).lower()),
    "gate.rungs": st.sampled_from(["[]", '["random", "alpha_beta:3"]']),
    "warm_start.agents": st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    "trainer.log_level": st.sampled_from(["debug", "5", "true", "0.50", 'a"b']),
    "gatekeeper.search.odd": st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(
        lambda text: "://" not in text
    ),
}


@pytest.mark.slow
@given(
    name=st.sampled_from(GAMES),
    size=st.sampled_from(PRESETS),
    seed=st.none() | st.integers(0, (1 << 63) - 1),
    settings=st.fixed_dictionaries({}, optional={name: values.map(str) for name, values in CHANGES.items()}),
)
@hypothesis.settings(max_examples=40)
def test_settings_seed_and_texts_survive_the_file(tmp_path_factory, name, size, seed, settings):
    begun = Experiment(name, size, seed, settings={key: value for key, value in settings.items() if "token" not in value})
    read = read_experiment(written(begun, tmp_path_factory.mktemp("experiment")))
    assert read.build_preset() == begun.build_preset()
    assert (read.game, read.preset, read.seed) == (name, size, seed)
    of_services = {key: value for key, value in begun.settings.items() if key.split(".")[0] in SERVICES}
    assert {key: value for key, value in read.settings.items() if key.split(".")[0] in SERVICES} == of_services


def test_parameters_survive_the_file_and_those_of_the_default_are_left_out(tmp_path):
    begun = Experiment("chinese_checkers_rhombus", "tiny", parameters={"anti_spoiling": "false"})
    read = read_experiment(written(begun, tmp_path))
    assert read.parameters == {"anti_spoiling": "False"}
    assert read.build_game() == begun.build_game() != games.make("chinese_checkers_rhombus")


def test_a_written_file_explains_every_setting_and_marks_what_differs(tmp_path):
    text = commented(Experiment("tic_tac_toe", "tiny", settings={"search.simulations": "21", "trainer.log_level": "debug"}))
    assert "simulations = 21  # preset: 16\n" in text
    assert text.count("# preset:") == 1
    assert "(at least 0, at most 100,000)\nsimulations = 21" in text
    assert '("puct", "gumbel")\nroot_policy = "puct"\n' in text
    assert '[trainer]\nlog_level = "debug"\n' in text
    lines = text[text.index("[search]") : text.index("[trainer]")].splitlines()
    assert all(above.startswith("#") for above, line in itertools.pairwise(lines) if line[:1].islower())


@pytest.mark.parametrize("part", [Preset, *PARTS.values()])
def test_every_setting_says_what_it_means(part):
    assert [name for name in part.model_fields if not description(part, name)] == []


def test_devices_are_written_and_read(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text(commented(Experiment("tic_tac_toe", "tiny", devices=("cuda:0", "cuda:1"))))
    assert read_experiment(path).devices == ("cuda:0", "cuda:1")
    path.write_text(commented(Experiment("tic_tac_toe", "tiny")))
    assert read_experiment(path).devices == ()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ('"cuda:0"', 'devices = "cuda:0" is a string; want an array'),
        ("[0]", "devices: entry = 0 is an integer; want a string"),
        ('["gpu0"]', "devices: 'gpu0' is not a device; want cpu or cuda:N"),
    ],
)
def test_invalid_devices_are_refused_with_file_and_key(tmp_path, value, message):
    path = tmp_path / "a.toml"
    path.write_text(f'game = "tic_tac_toe"\ndevices = {value}\n')
    with pytest.raises(ConfigurationError) as refused:
        read_experiment(path)
    assert str(refused.value).startswith(f"{path}: {message}")


def test_secrets_of_services_are_not_written():
    secrets = {
        "trainer.token": "hush",
        "gatekeeper.metrics_token": "hush",
        "selfplay_worker.stream_url": "redis://worker:hush@queue:6379/0",
    }
    text = commented(Experiment("tic_tac_toe", "tiny", settings=secrets))
    assert "hush" not in text
    assert "# token: a secret, not stored here" in text
    assert set(tomllib.loads(text)) >= set(SERVICES) - {"inference_server"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("game = ", "is not TOML: Invalid value"),
        ('gam = "othello"', "gam: no such key; did you mean game"),
        ('preset = "tiny"', "game is missing; add a line such as game ="),
        ('game = "chess"', "game: no game is called 'chess'"),
        ("game = 3", "game = 3 is an integer; want a string"),
        ('game = "othello"\npreset = "huge"', "preset = 'huge' does not exist; choose one of tiny, laptop, gpu"),
        ('game = "othello"\nseed = -1', "seed -1 is out of range"),
        ('game = "othello"\nseed = true', "seed = true is a boolean; want an integer"),
        ('game = "othello"\nsimulations = 3', "simulations: no such key; did you mean search.simulations"),
        ('game = "othello"\nsearch = 3', "search = 3 is an integer; want a table"),
        ('game = "othello"\n[trainr]', "trainr: no such key; did you mean train"),
        ('game = "othello"\n[parameters]\nsiz = 6', "parameters.siz: othello has no such parameter; did you mean size"),
        ('game = "othello"\n[parameters]\nsize = "6"', 'parameters.size = "6" is a string; want an integer'),
        ('game = "othello"\n[parameters]\nsize = 5', "parameters: othello: size=5"),
        ('game = "othello"\n[search]\nsimulation = 5', "search.simulation: no such setting; did you mean search.sim"),
        ('game = "othello"\n[train]\nlanes = 5', "train.lanes: no such setting; did you mean selfplay.lanes"),
        (
            'game = "othello"\n[search]\nsimulations = "5"',
            'search.simulations: Input should be a valid integer, got "5"; correct it',
        ),
        ('game = "othello"\n[search]\nsimulations = 5.0', "search.simulations: Input should be a valid integer, got 5.0"),
        (
            'game = "othello"\n[selfplay]\nslots = 0',
            "slots: Input should be greater than or equal to 1, got 0; .* preset's 512|128",
        ),
        ('game = "othello"\n[train]\nlearning_rate = inf', "train.learning_rate: Input should be a finite number"),
        ('game = "othello"\n[train]\nbatch_size = 2026-01-01', 'batch_size: Input should be a valid integer, got "2026-01-01"'),
        ('game = "othello"\n[network]\nhidden = [8, 0]', r"network.hidden: Input should be greater .* got \[8, 0\]"),
        ('game = "othello"\n[trainer]\n"" = 3', 'trainer: a key is ""; want the name of a setting'),
        (
            'game = "connect_four"\n[search]\nfull_search_share = 0.5\nfast_simulations = 500',
            "search: fast_simulations=500 exceeds simulations=16",
        ),
    ],
)
def test_a_wrong_file_is_refused_with_its_name_and_the_key(text, message, tmp_path):
    path = tmp_path / "my.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=rf"my.toml:? .*{message}"):
        read_experiment(path)


def test_a_file_that_is_absent_or_not_text_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match=r"none.toml cannot be read: No such file or directory"):
        read_experiment(tmp_path / "none.toml")
    (tmp_path / "picture.toml").write_bytes(b"\x89PNG\xff")
    with pytest.raises(ConfigurationError, match=r"picture.toml is not TOML"):
        read_experiment(tmp_path / "picture.toml")


def test_a_short_file_takes_the_rest_from_the_preset(tmp_path):
    path = tmp_path / "my.toml"
    path.write_text(
        'game = "connect_four"\n[parameters]\nrows = 5\n[search]\nsimulations = 31\n[selfplay_worker.search]\na = [1]\n'
    )
    read = read_experiment(path)
    assert read == Experiment(
        "connect_four",
        parameters={"rows": "5"},
        settings={"search.simulations": "31", "selfplay_worker.search.a": "[1]"},
    )
    assert (read.build_preset().search.simulations, read.build_preset().selfplay.slots) == (31, 128)


def test_the_file_shown_in_the_documents_is_read(tmp_path):
    page = Path(__file__).parents[2] / "docs" / "experiments.md"
    path = tmp_path / "my.toml"
    path.write_text(page.read_text().split("```toml\n")[1].split("```")[0])
    read = read_experiment(path)
    assert (read.seed, read.parameters, read.build_preset().search.simulations) == (7, {"rows": "5"}, 200)


@pytest.mark.parametrize("name", ["tic_tac_toe", "take_six", "chinese_checkers_star37"])
def test_every_service_takes_the_numbers_of_the_file_whatever_the_environment_says(name, tmp_path):
    kept = read_experiment(written(Experiment(name, "tiny", settings={"network.hidden": "[8, 4]"}), tmp_path))
    lists = {"network.heads": "plies_left", "gate.rungs": "random,uct:9,final=visits"}
    request = RunRequest(name, tmp_path / "run", preset="tiny", configured=kept.settings, overrides=lists)
    around = {"ZEROFLEET_SEARCH__SIMULATIONS": "77", "ZEROFLEET_TRAIN__BATCH_SIZE": "7"}
    chosen = request.build_preset()
    assert (chosen.network.heads, chosen.gate.rungs) == (("plies_left",), ("random", "uct:9,final=visits"))
    with RunDirectory.create_or_open(tmp_path / "run", name, {}, preset="tiny", seed=1) as run:
        plans = plan_fleet(request, run, chosen, around)
    for plan in plans:
        settings, _ = read_settings(SETTINGS[plan.kind], plan.command[3:], plan.environment)
        for part in type(settings).PRESET_PARTS:
            assert getattr(settings, part) == getattr(chosen, part)
