"""Text from outside that is not what it should be: every command prints one line and exits with code 2."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

NOWHERE = "127.0.0.1:9"


def refusal(outcome) -> str:
    assert outcome.code == 2
    first, *rest = outcome.err.splitlines()
    assert first.startswith("error: ")
    assert all(line.startswith("see zerofleet") for line in rest)  # the hint of a usage error
    return first


NO_TOKENS = [b"first-half-of-it\nsecond-half", "sch\u00f6nes-token-mit-umlaut".encode(), b"x" * 600]


@pytest.mark.parametrize(
    ("source", "token"), [("file", b"\xff\xfe\0"), *((source, token) for source in ("file", "variable") for token in NO_TOKENS)]
)
def test_what_is_not_a_token_is_refused_without_showing_it(zerofleet, monkeypatch, tmp_path, token, source):
    if source == "file":
        (tmp_path / "token").write_bytes(token)
        monkeypatch.setenv("ZEROFLEET_TOKEN_FILE", str(tmp_path / "token"))
    else:
        monkeypatch.setenv("ZEROFLEET_TOKEN", os.fsdecode(token))
    said = refusal(zerofleet("models", "list", "tic_tac_toe", "--address", NOWHERE))
    assert "token" in said.lower()
    assert "half" not in said
    assert "umlaut" not in said


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1:99999",
        "127.0.0.1:0",
        "[::1]:70000",
        "",
        "a b:1",
        "a\nb:1",
        "x\udcff:1",
        "dns:///a:123456",
        "localhost",
        "10.0.0.1:",
        "ipv4:10.0.0.1",
    ],
)
@pytest.mark.parametrize("command", [("models", "list", "tic_tac_toe"), ("evaluate", "tic_tac_toe")])
def test_an_address_that_is_not_one_is_refused(zerofleet, command, address):
    assert "address" in refusal(zerofleet(*command, "--address", address))


@pytest.mark.parametrize("address", ["localhost", "0.0.0.0", "10.0.0.1:", "ipv4:10.0.0.1"])
def test_an_address_without_a_port_is_refused(zerofleet, address):
    assert "has no port; want HOST:PORT" in refusal(zerofleet("models", "list", "tic_tac_toe", "--address", address))


def test_a_host_name_that_cannot_exist_is_refused(zerofleet):
    refusal(zerofleet("models", "list", "tic_tac_toe", "--address", "a" * 70 + ":80"))


@pytest.mark.parametrize("seed", ["-1", str(1 << 63), str(1 << 80)])
@pytest.mark.parametrize(
    "command",
    [
        ("openings", "tic_tac_toe"),
        ("games", "draw", "tic_tac_toe"),
        ("match", "random", "random", "--game", "tic_tac_toe"),
        ("play", "tic_tac_toe", "--opponent", "random"),
        ("evaluate", "tic_tac_toe"),
        ("run", "tic_tac_toe"),
    ],
)
def test_a_seed_out_of_range_is_refused(zerofleet, monkeypatch, tmp_path, command, seed):
    monkeypatch.chdir(tmp_path)
    assert "seed" in refusal(zerofleet(*command, "--seed", seed))


@pytest.mark.parametrize("words", [("--model", str(1 << 80)), ("--simulations", str(1 << 80))])
def test_a_number_that_no_message_holds_is_refused(zerofleet, words):
    assert "cannot be sent" in refusal(zerofleet("evaluate", "tic_tac_toe", *words, "--address", NOWHERE))


def test_a_version_that_no_message_holds_is_refused(zerofleet, run_with_champion):
    refusal(zerofleet("models", "show", "tic_tac_toe", str(1 << 80), "--run-dir", str(run_with_champion)))


@pytest.mark.parametrize("player", ["model:\u00b2", "model:" + "1" * 5000])
def test_a_model_that_is_not_a_number_is_refused(zerofleet, run_with_champion, player):
    words = ("--game", "tic_tac_toe", "--run-dir", str(run_with_champion))
    assert "is not a model" in refusal(zerofleet("match", player, "random", *words))


def test_a_header_nested_without_end_breaks_no_other_run(zerofleet, monkeypatch, tmp_path, run_with_champion):
    (tmp_path / "runs" / "bad").mkdir(parents=True)
    (tmp_path / "runs" / "bad" / "run.json").write_text("[" * 100_000)
    (tmp_path / "runs" / "good").symlink_to(run_with_champion)
    monkeypatch.chdir(tmp_path)
    assert zerofleet("models", "list", "tic_tac_toe").code == 0
    assert "run.json cannot be read" in refusal(zerofleet("models", "list", "tic_tac_toe", "--run-dir", "runs/bad"))


def test_an_experiment_nested_without_end_is_refused(zerofleet, tmp_path):
    (tmp_path / "deep.toml").write_text("game = " + "[" * 10_000)
    assert "is not TOML" in refusal(zerofleet("run", "--config", str(tmp_path / "deep.toml")))


RUN = """
import sys
from zerofleet.cli import main
main(sys.argv[1:])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "environment"),
    [(b"run-\xff", {}), ("l\u00e4ufe".encode(), {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"})],
)
def test_a_run_directory_that_is_not_text_is_refused_by_every_command(tmp_path, name, environment):
    for command in (("run", "tic_tac_toe"), ("models", "list", "tic_tac_toe"), ("curves", "--json")):
        done = subprocess.run(
            [sys.executable, "-c", RUN, *command, "--run-dir", Path(os.fsdecode(bytes(tmp_path) + b"/" + name))],
            env={**os.environ, **environment},
            capture_output=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 2, done.stderr
        assert done.stderr.startswith(b"error: the path ")
        assert done.stderr.count(b"\n") == 1
        assert b"is not text in this locale" in done.stderr
