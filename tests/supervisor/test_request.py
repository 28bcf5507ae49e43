"""What is asked of a run, and how mistakes in it are answered."""

from dataclasses import replace
from pathlib import Path

import pytest

from games.errors import UnknownGame
from zerofleet.errors import ConfigurationError
from zerofleet.presets.devices import parse_devices
from zerofleet.supervisor import RunRequest, parse_duration, split_settings


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("30m", 1800), ("1h30m", 5400), ("2d", 172800), ("0.5h", 1800), (" 10s ", 10), ("1h0m5s", 3605)],
)
def test_durations_are_parsed(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "soon", "5 m", "-3m", "m", "30x", "1m2h", "nan s", "1e3s"])
def test_an_invalid_duration_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a duration; write it as 90s, 30m, 1h30m or 2d"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["0s", "0m", "0h0.0s"])
def test_a_duration_of_nothing_is_refused_for_its_value(text: str) -> None:
    with pytest.raises(ConfigurationError, match=f"'{text}' is out of range; want more than 0"):
        parse_duration(text)


def test_settings_with_a_dot_belong_to_services_and_the_others_to_the_game() -> None:
    assert split_settings(["rows=4", "search.simulations = 50", "trainer.log_level=debug"]) == (
        {"rows": "4"},
        {"search.simulations": "50", "trainer.log_level": "debug"},
    )


@pytest.mark.parametrize(
    ("items", "text"),
    [
        (["rows"], "is not NAME=VALUE"),
        (["=3"], "is not NAME=VALUE"),
        (["a=1", "a=2"], "a is given twice"),
        (["trainer.=3"], r"--set: the name 'trainer\.' has an empty part; want GROUP\.KEY, such as trainer\.log_level"),
        ([".rows=3"], r"the name '\.rows' has an empty part"),
        (["trainer..log_level=3"], r"the name 'trainer\.\.log_level' has an empty part"),
    ],
)
def test_an_unparsable_setting_is_reported_by_name(items: list[str], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        split_settings(items)


def request(**overrides: str) -> RunRequest:
    return RunRequest(
        "tic_tac_toe", Path("r"), preset="tiny", overrides={k.replace("__", "."): v for k, v in overrides.items()}
    )


def test_a_setting_overrides_a_number_of_the_preset() -> None:
    chosen = request(search__simulations="21", train__batch_size="32").build_preset()
    assert (chosen.search.simulations, chosen.train.batch_size) == (21, 32)


def test_settings_of_the_environment_belong_to_the_experiment_below_those_of_the_file_and_the_command() -> None:
    variables = {
        "ZEROFLEET_SEARCH__SIMULATIONS": "50",
        "ZEROFLEET_NETWORK__BLOCKS": "3",
        "ZEROFLEET_TRAIN__BATCH_SIZE": "64",
        "ZEROFLEET_TOKEN": "hush",
        "ZEROFLEET_SEARCH__UNKNOWN": "1",
        "SEARCH__PUCT_INIT": "9",
    }
    asked = replace(request(search__simulations="21"), configured={"network.blocks": "2"}).with_environment(variables)
    assert asked.experiment.settings == {"search.simulations": "21", "network.blocks": "2", "train.batch_size": "64"}
    assert "64" not in asked.command()


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("search__simulation", "3", "no such setting; did you mean search.simulations"),
        (
            "kitchen__sink",
            "3",
            "settings begin with afterstates, combined, deep_q, gate, inference, models, network, outcome, sarsa_lambda, "
            "search, selfplay, td_lambda, train, warm_start",
        ),
        ("search__simulations", "many", "--set search.simulations=many: Input should be a valid integer"),
        ("search__fast_simulations", "900", "fast_simulations=900 exceeds simulations="),
    ],
)
def test_an_invalid_number_is_refused_before_anything_starts(name: str, value: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        request(**{name: value}).build_preset()


def test_settings_that_are_valid_together_are_accepted_in_any_order() -> None:
    chosen = request(search__fast_simulations="900", search__simulations="1000", network__hidden="[8, 4]").build_preset()
    assert (chosen.search.fast_simulations, chosen.search.simulations, chosen.network.hidden) == (900, 1000, (8, 4))


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("network__hidden", "[64, 32]", (64, 32)),
        ("network__hidden", "64,32", (64, 32)),
        ("network__hidden", "64", (64,)),
        ("network__heads", "opponents, plies_left", ("opponents", "plies_left")),
        ("network__heads", "[]", ()),
        ("gate__rungs", '["random", "uct:100,final=visits"]', ("random", "uct:100,final=visits")),
        ("gate__rungs", "random,uct:100,final=visits,alpha_beta:3", ("random", "uct:100,final=visits", "alpha_beta:3")),
        ("selfplay__deep_opening_plies", "3,9", (3, 9)),
    ],
)
def test_a_list_is_written_in_json_or_with_commas(name: str, text: str, value: tuple[object, ...]) -> None:
    part, _, key = name.partition("__")
    assert getattr(getattr(request(**{name: text}).build_preset(), part), key) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("64,,32", r"--set network\.hidden: '64,,32' has an empty item; write A,B or"),
        ("[64, 32", r"--set network\.hidden: '\[64, 32' is not a JSON list: .*write A,B or"),
        ("64,wide", r"--set network\.hidden=64,wide: Input should be a valid integer"),
        ("64,0", r"--set network\.hidden=64,0: Input should be greater than or equal to 1"),
    ],
)
def test_a_malformed_list_is_refused_with_the_forms_of_a_list(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        request(network__hidden=text).build_preset()


def test_set_overrides_the_experiment_file_and_the_file_overrides_the_preset() -> None:
    chosen = RunRequest(
        "tic_tac_toe",
        Path("r"),
        preset="tiny",
        overrides={"search.simulations": "21"},
        configured={"search.simulations": "31", "search.fast_simulations": "5"},
    ).build_preset()
    assert (chosen.search.simulations, chosen.search.fast_simulations, chosen.selfplay.slots) == (21, 5, 64)


@pytest.mark.parametrize("seed", [-1, 1 << 63])
def test_a_seed_outside_the_services_range_is_refused(seed: int) -> None:
    with pytest.raises(ConfigurationError, match=rf"seed {seed} is out of range; give one from 0 to 2\^63 - 1, or none"):
        RunRequest("tic_tac_toe", Path("r"), seed=seed)


def test_settings_of_a_service_are_validated_by_the_service() -> None:
    request(trainer__anything="x").build_preset()


@pytest.mark.parametrize("service", ["inference_server", "gatekeeper"])
def test_an_address_at_which_the_other_services_do_not_look_is_refused(service: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"{service}\.address=127\.0\.0\.1:9123: .* omit it"):
        RunRequest("nim", Path("run"), overrides={f"{service}.address": "127.0.0.1:9123"})


@pytest.mark.parametrize("name", ["trainer.metrics_host", "selfplay_worker.metrics-host"])
def test_a_host_of_metrics_at_which_the_supervisor_does_not_look_is_refused(name: str) -> None:
    for host in ("192.168.7.7", "::1"):
        with pytest.raises(ConfigurationError, match=rf"{name}={host}: .* want 127\.0\.0\.1 or 0\.0\.0\.0"):
            RunRequest("nim", Path("run"), configured={name: host})
    RunRequest("nim", Path("run"), overrides={name: "0.0.0.0"})


def test_a_run_without_workers_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="needs at least 1"):
        RunRequest("tic_tac_toe", Path("r"), workers=0)


def test_an_unknown_game_is_refused() -> None:
    with pytest.raises(UnknownGame):
        RunRequest("chess", Path("r")).build_preset()


def test_the_command_of_a_request_reproduces_the_request() -> None:
    asked = RunRequest("connect_four", Path("my runs/a"), {"rows": "4"}, "tiny", 90.0, 2, overrides={"search.simulations": "9"})
    assert asked.command() == (
        "zerofleet run connect_four --preset tiny --set rows=4 --set search.simulations=9 "
        "--run-dir 'my runs/a' --workers 2 --for 90s"
    )
    assert "--for" not in asked.command(with_duration=False)


def test_the_command_of_a_request_uses_the_experiment_file_instead_of_its_settings() -> None:
    asked = RunRequest(
        "tic_tac_toe",
        Path("r"),
        preset="tiny",
        overrides={"gate.mode": "off"},
        config=Path("my.toml"),
        configured={"search.simulations": "9"},
    )
    assert asked.command() == "zerofleet run tic_tac_toe --preset tiny --config my.toml --set gate.mode=off --run-dir r"


def test_games_in_lockstep_with_versions_are_for_one_worker():
    changes = {
        "train.learner": "td_lambda",
        "td_lambda.publish_every_games": "1",
        "selfplay.mode": "afterstates",
        "selfplay.sync": "true",
        "selfplay.lanes": "1",
        "selfplay.slots": "1",
        "selfplay.forked_opening_share": "0",
        "gate.mode": "off",
    }
    assert RunRequest("tic_tac_toe", Path("r"), preset="tiny", overrides=changes).build_preset().selfplay.sync
    with pytest.raises(ConfigurationError, match=r"--workers 2: selfplay\.sync=true is for one worker"):
        RunRequest("tic_tac_toe", Path("r"), preset="tiny", overrides=changes, workers=2).build_preset()


def on_devices(*devices: str, workers: int = 2, **overrides: str) -> RunRequest:
    names = {name.replace("__", "."): value for name, value in overrides.items()}
    return RunRequest("tic_tac_toe", Path("r"), preset="tiny", workers=workers, overrides=names, devices=devices)


def test_the_devices_of_a_request_are_in_its_command_and_its_experiment() -> None:
    asked = on_devices("cuda:0", "cuda:1")
    assert asked.command().endswith("--workers 2 --devices cuda:0,cuda:1")
    assert asked.experiment.devices == ("cuda:0", "cuda:1")


def test_devices_replace_the_device_of_an_experiment_file() -> None:
    asked = replace(on_devices("cpu", "cpu"), configured={"inference_server.device": "cuda:0"})
    assert asked.settings_of("inference_server") == {}


@pytest.mark.parametrize("device", ["", "gpu", "auto", "cuda", "cuda:", "cuda:-1", "cuda:01", "cuda:0 cuda:1", "CPU"])
def test_an_invalid_device_is_refused_with_the_forms_of_one(device: str) -> None:
    with pytest.raises(ConfigurationError, match=r"is not a device; want cpu or cuda:N, as in cuda:0,cuda:1"):
        on_devices("cpu", device)
    with pytest.raises(ConfigurationError, match="is not a device"):
        parse_devices(f"cpu,{device}")


@pytest.mark.parametrize(
    ("workers", "overrides", "text"),
    [
        (1, {}, "--workers 1: devices cpu,cpu are 2 servers, and each worker uses one; want at least 2"),
        (2, {"inference_server__device": "cpu"}, "the devices of this run are cpu,cpu; use --devices"),
        (2, {"inference_server__announce": "here.json"}, r"inference_server\.announce=here\.json: .* cannot share it"),
        (
            2,
            {"inference_server__http_address": "8000"},
            r"inference_server\.http_address=8000: .*; omit it, or give one device",
        ),
    ],
)
def test_settings_that_several_servers_cannot_share_are_refused(workers: int, overrides: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        on_devices("cpu", "cpu", workers=workers, **overrides)
    on_devices("cpu", workers=1, **{name: value for name, value in overrides.items() if not name.endswith("device")})


def test_several_servers_may_each_have_a_free_port() -> None:
    on_devices("cpu", "cpu", inference_server__http_address="127.0.0.1:0", inference_server__metrics_port="0")
