from __future__ import annotations

import subprocess
import sys
import time

import pytest
import structlog
import typer

from games.errors import IllegalMove
from zerofleet.cli import app as command_line
from zerofleet.cli.lazy import Command, lazy_group
from zerofleet.errors import ModelNotFound

ALL = {**command_line.COMMANDS, **{f"bench {name}": command for name, command in command_line.BENCHMARKS.items()}}


@pytest.mark.parametrize("name", ALL)
def test_the_help_of_every_command_shows_its_examples(zerofleet, name):
    outcome = zerofleet(*name.split(), "--help")
    assert outcome.code == 0
    assert "Usage: zerofleet" in outcome.out
    words = " ".join(outcome.out.split())
    for example in ALL[name].examples:
        assert example in words


def test_the_list_of_commands_is_grouped_and_complete(zerofleet):
    outcome = zerofleet("--help")
    assert outcome.code == 0
    positions = [outcome.out.index(title) for title in ("Train", "Play and analyse", "Inspect", "Operate")]
    assert positions == sorted(positions)
    assert all(command.summary in outcome.out for command in command_line.COMMANDS.values())


@pytest.mark.parametrize("words", [("nonsense",), ("version", "--nonsense"), ("bench", "nonsense")])
def test_an_unknown_word_prints_one_error_line_and_a_hint(zerofleet, words):
    outcome = zerofleet(*words)
    assert outcome.code == 2
    assert outcome.out == ""
    first, hint = outcome.err.splitlines()
    assert first.startswith("error: No such")
    assert "nonsense" in first
    assert hint.endswith("--help")


@pytest.mark.parametrize(
    "error", [ModelNotFound("no version 7; there are 1 to 3"), IllegalMove("'z9' is not legal"), OSError(28, "No space left")]
)
def test_an_expected_error_prints_one_line_and_exits_with_code_2(monkeypatch, zerofleet, error):
    _replace_app(monkeypatch, error)
    outcome = zerofleet("fail")
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err == f"error: {error}\n"


def test_debug_anywhere_on_the_command_line_keeps_the_traceback(monkeypatch):
    _replace_app(monkeypatch, ModelNotFound("no version 7"))
    with pytest.raises(ModelNotFound):
        command_line.main(["fail", "--debug"])


def test_a_defect_keeps_its_traceback(monkeypatch):
    _replace_app(monkeypatch, KeyError("slot"))
    with pytest.raises(KeyError):
        command_line.main(["fail"])


def test_an_exception_in_the_rules_of_a_game_prints_rule_and_line_without_a_traceback(monkeypatch, zerofleet, fault_in_rules):
    _replace_app(monkeypatch, fault_in_rules)
    outcome = zerofleet("fail")
    assert outcome.code == 2
    first, second = outcome.err.splitlines()
    assert first == "error: play of TicTacToe raised TypeError: 'NoneType' object is not subscriptable"
    assert "tic_tac_toe.py, line " in second


def test_an_interrupted_command_prints_no_traceback(monkeypatch, zerofleet):
    _replace_app(monkeypatch, KeyboardInterrupt())
    outcome = zerofleet("fail")
    assert (outcome.code, outcome.out, outcome.err) == (130, "", "")


def test_the_exit_code_of_a_command_is_that_of_the_process(monkeypatch, zerofleet):
    _replace_app(monkeypatch, typer.Exit(1))
    assert zerofleet("fail").code == 1


def test_a_traceback_in_the_log_of_a_command_shows_no_values(zerofleet, capsys):
    kept = structlog.get_config()
    structlog.reset_defaults()
    try:
        zerofleet("version", "--json")  # any command that is loaded
        token = "secret"
        try:
            raise KeyError(len(token))
        except KeyError:
            structlog.get_logger().exception("failed")
    finally:
        structlog.configure(**kept)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "KeyError: 6" in printed.err
    assert "secret" not in printed.err.replace('token = "secret"', "")


def test_version_lists_the_main_dependencies(zerofleet):
    versions = zerofleet("version", "--json").json()
    assert {"zerofleet", "python", "torch", "numba", "grpcio", "protobuf"} <= set(versions)
    assert versions["zerofleet"] in zerofleet("version").out


@pytest.mark.slow
def test_help_starts_fast_and_imports_no_heavy_package():
    code = (
        "import sys, time; began = time.perf_counter()\n"
        "from zerofleet.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numba', 'torch', 'grpc', 'numpy', 'pydantic', 'games'} & set(sys.modules)\n"
        "print(heavy or 'light', time.process_time(), file=sys.stderr)\n"
    )
    began = time.monotonic()
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    light, processor_s = child.stderr.split()
    assert light == "light"
    assert float(processor_s) < 2.0, f"took {time.monotonic() - began:.2f} s of wall time"


def _replace_app(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(sys.modules[__name__], "_failing", fail, raising=False)
    app = lazy_group(
        {"fail": Command(f"{__name__}:_failing", "Fails"), "other": Command("os:getcwd", "Other")}, summary="Test."
    )
    monkeypatch.setattr(command_line, "app", app)


@pytest.mark.parametrize("words", [("-h",), ("run", "-h"), ("models", "list", "-h")])
def test_h_is_help_everywhere(zerofleet, words):
    outcome = zerofleet(*words)
    assert outcome.code == 0
    assert "Usage: zerofleet" in outcome.out


def test_the_version_is_printed_by_an_option_too(zerofleet):
    outcome = zerofleet("--version")
    assert outcome.code == 0
    assert outcome.out.startswith("zerofleet ")


@pytest.mark.parametrize(("asked", "meant"), [("conect_four", "connect_four"), ("tictactoe", "tic_tac_toe")])
def test_an_unknown_game_gets_a_suggestion(zerofleet, asked, meant):
    assert zerofleet("solve", asked).err.splitlines()[-1] == f"did you mean {meant}?"


def test_a_name_unlike_any_game_gets_none(zerofleet):
    assert "did you mean" not in zerofleet("solve", "zzzzzz").err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "tic_tac_toe", "--workers", "0"), "'--workers': want 1 or more"),
        (("run", "tic_tac_toe", "--workers", "x"), "'--workers': want a whole number"),
        (("plan", "--gpus", "1.5"), "'--gpus': want a whole number"),
    ],
)
def test_a_wrong_option_says_what_was_wanted_in_plain_words(zerofleet, words, said):
    outcome = zerofleet(*words)
    assert outcome.code == 2
    assert said in outcome.err.splitlines()[0]
    assert "Input should" not in outcome.err


def test_an_option_without_its_value_leads_to_the_list_of_options(zerofleet):
    outcome = zerofleet("run", "tic_tac_toe", "--for")
    assert outcome.code == 2
    assert "Option '--for' needs a value; --help lists the options" in outcome.err


@pytest.mark.parametrize("words", [("match", "random", "random", "--openings"), ("accuracy", "random", "--from")])
def test_a_missing_file_is_named_without_the_number_of_the_error(zerofleet, tmp_path, words):
    outcome = zerofleet(*words, str(tmp_path / "none.txt"), "--game", "tic_tac_toe")
    assert outcome.code == 2
    assert outcome.err.endswith(f"cannot be read from {tmp_path / 'none.txt'}: No such file or directory\n")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("games list", "played out (result)"),
        ("games list", "played on after a resignation (soft_resigned)"),
        ("games list", "N|draw"),
        ("run", "runs/othello-size6-tiny"),
        ("bench learn", "this or --samples is required"),
        ("restore", "or hold an interrupted restore"),
    ],
)
def test_help_states_what_the_values_of_an_option_mean(zerofleet, monkeypatch, command, said):
    monkeypatch.setenv("COLUMNS", "240")
    shown = zerofleet(*command.split(), "--help").out
    assert said in shown
    assert "[default: ()]" not in shown
