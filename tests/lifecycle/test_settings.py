"""Settings: every layer, where values came from, and what wrong ones are told."""

from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import Field, SecretStr, ValidationError

from games.errors import GameError
from zerofleet.errors import ConfigurationError
from zerofleet.search.settings import SearchSettings
from zerofleet.service.settings import ServiceSettings, describe, load_settings, read_settings


class ProbeSettings(ServiceSettings):
    """A service of the tests."""

    SERVICE: ClassVar[str] = "probe"
    PRESET_PARTS: ClassVar[tuple[str, ...]] = ("search",)

    search: SearchSettings
    token: SecretStr = SecretStr("")
    """Password of something."""
    inference_address: str
    rooms: list[str] = Field(default_factory=list)


def test_the_command_line_overrides_the_environment_the_preset_and_the_default() -> None:
    environment = {"ZEROFLEET_SEARCH__SIMULATIONS": "31", "ZEROFLEET_SEARCH__FAST_SIMULATIONS": "7"}
    settings, origins = read_settings(
        ProbeSettings, ["--game", "tic_tac_toe", "--preset=tiny", "--search.simulations", "44"], environment
    )
    assert (settings.search.simulations, origins["search.simulations"]) == (44, "command line")
    assert (settings.search.fast_simulations, origins["search.fast_simulations"]) == (7, "environment")
    assert (settings.search.cache_positions, origins["search.cache_positions"]) == (1 << 13, "preset tiny")
    assert origins["metrics_port"] == "default"


def test_addresses_follow_from_the_run_directory_unless_they_are_given() -> None:
    settings, origins = read_settings(ProbeSettings, ["--run-dir", "/r"], {})
    assert (settings.inference_address, origins["inference_address"]) == ("unix:/r/sockets/inference.sock", "run directory")
    settings, origins = read_settings(ProbeSettings, ["--inference-address", "host:1"], {})
    assert (settings.inference_address, origins["inference_address"]) == ("host:1", "command line")


def test_an_option_name_may_use_dashes_dots_or_double_underscores() -> None:
    for option in ("--search.fast-simulations", "--search.fast_simulations", "--search__fast_simulations"):
        assert read_settings(ProbeSettings, [option, "9"], {})[0].search.fast_simulations == 9


def test_a_secret_comes_from_a_file_and_is_masked(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("swordfish\n")
    settings, origins = read_settings(ProbeSettings, [], {"ZEROFLEET_TOKEN_FILE": str(file)})
    assert settings.token.get_secret_value() == "swordfish"
    table = describe(settings, origins)
    assert "swordfish" not in table
    assert "********" in table
    assert origins["token"] == "secret file"


def test_a_missing_secret_file_is_reported_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"ZEROFLEET_TOKEN_FILE=.*/absent cannot be read: No such file"):
        read_settings(ProbeSettings, [], {"ZEROFLEET_TOKEN_FILE": str(tmp_path / "absent")})


def test_an_empty_variable_of_the_announce_file_counts_as_unset() -> None:
    assert read_settings(ProbeSettings, [], {"ZEROFLEET_ANNOUNCE": ""})[0].announce is None


def test_an_empty_secret_file_is_refused_in_place_of_a_server_without_a_secret(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("\n")
    with pytest.raises(ConfigurationError, match=r"ZEROFLEET_TOKEN_FILE=.*/token is empty; write the secret into it, or unset"):
        read_settings(ProbeSettings, [], {"ZEROFLEET_TOKEN_FILE": str(tmp_path / "token")})


@pytest.mark.parametrize(
    ("arguments", "environment", "text"),
    [
        (["--", "3"], {}, r"--: the name of the setting has an empty part; want --name value"),
        (["--search.=3"], {}, r"--search\.: the name of the setting has an empty part"),
        (["--search.simulation", "3"], {}, "unknown setting --search.simulation; did you mean --search.simulations?"),
        (["--search.simulations", "many"], {}, "setting search.simulations: .*got 'many' .from the command line."),
        ([], {"ZEROFLEET_METRICS_PORT": "70000"}, "setting metrics_port: .*65535, got '70000' .from the environment."),
        (["--metrics-port"], {}, "--metrics-port needs a value"),
        (["tic_tac_toe"], {}, "unexpected argument 'tic_tac_toe'"),
        (["--rooms", "[a,b"], {}, "is not a JSON list.*lists are written as JSON or with commas"),
        ([], {"ZEROFLEET_ROOMS": "a,,b"}, "'a,,b' has an empty item; write A,B or"),
        ([], {"ZEROFLEET_SEARCH__SIMS": "1"}, "setting search.sims: Extra inputs"),
        (["--preset", "huge"], {}, "unknown preset 'huge'; want one of tiny, laptop, gpu"),
        (
            ["--search.fast-simulations", "500", "--search.full-search-share", "0.5"],
            {},
            "fast_simulations=500 exceeds simulations=",
        ),
    ],
)
def test_an_invalid_setting_is_reported_with_its_value(arguments: list[str], environment: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        read_settings(ProbeSettings, arguments, environment)


@pytest.mark.parametrize("text", ["hall,bath", '["hall", "bath"]', " hall , bath "])
def test_a_list_has_the_same_forms_in_the_environment_and_on_the_command_line(text: str) -> None:
    assert read_settings(ProbeSettings, ["--rooms", text], {})[0].rooms == ["hall", "bath"]
    assert read_settings(ProbeSettings, [], {"ZEROFLEET_ROOMS": text})[0].rooms == ["hall", "bath"]


def test_an_unknown_game_is_reported_with_the_known_ones() -> None:
    with pytest.raises((ConfigurationError, GameError), match=r"no game is called 'chess'; available: .*tic_tac_toe"):
        read_settings(ProbeSettings, ["--game", "chess"], {})


def test_the_value_of_an_invalid_secret_is_not_reported() -> None:
    class Strict(ProbeSettings):
        token: SecretStr = Field(default=SecretStr(""), max_length=3)

    with pytest.raises(ConfigurationError, match="got a secret") as caught:
        read_settings(Strict, [], {"ZEROFLEET_TOKEN": "swordfish"})
    assert "swordfish" not in str(caught.value)


def test_environment_variables_of_other_services_are_ignored() -> None:
    assert read_settings(ProbeSettings, [], {"ZEROFLEET_TRAIN__BATCH_SIZE": "8", "HOME": "/"})[0].preset == "laptop"


def test_settings_are_frozen_and_read_no_environment_when_built_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZEROFLEET_GAME", "elsewhere")
    settings = ProbeSettings(game="tic_tac_toe", game_parameters={}, search=SearchSettings(simulations=3, full_search_share=1))
    assert settings.game == "tic_tac_toe"
    with pytest.raises(ValidationError):
        settings.game = "connect_four"  # type: ignore[misc]


def test_print_config_prints_the_table_and_exits_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        load_settings(ProbeSettings, ["--print-config", "--game", "tic_tac_toe"])
    assert ended.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split() == ["game", "tic_tac_toe", "command", "line"] for line in lines)
    assert any(line.split() == ["search.simulations", "16", "preset", "laptop"] for line in lines)


def test_help_explains_each_setting_and_exits_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        load_settings(ProbeSettings, ["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert "--grace-s" in text
    assert "Password of something." in text
    assert "fast_simulations" in text


def test_an_invalid_command_line_prints_one_line_and_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        load_settings(ProbeSettings, ["--gmae", "x"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == "probe: unknown setting --gmae; did you mean --game?\n"
