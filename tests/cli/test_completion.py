"""Completion of command lines in a shell."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys

import pytest
from stored_completion import table, text

from games.core import ENTRY_POINT_GROUP
from zerofleet.cli import completion, main
from zerofleet.cli.options import PRESETS

BASH = {"_ZEROFLEET_COMPLETE": "complete_bash"}


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Work in a folder with two runs and a directory that is none."""
    monkeypatch.chdir(tmp_path)
    for name in ("connect_four-laptop", "othello-tiny", "notes"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        if name != "notes":
            (tmp_path / "runs" / name / "run.json").write_text("{}")


@pytest.fixture
def offered(monkeypatch, capsys):
    """Return the function that returns what bash is offered for the last word of a command line."""

    def complete(line):
        words = line.split(" ")
        for name, value in {**BASH, "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit) as ended:
            main([])
        assert ended.value.code == 0
        return capsys.readouterr().out.split()

    return complete


def test_the_stored_table_is_that_of_the_commands():
    """`python tests/cli/stored_completion.py` stores it anew."""
    assert completion.TABLE.read_text() == text(table())
    assert completion.GAMES_OF_PACKAGES == ENTRY_POINT_GROUP


def test_games_are_offered_where_a_command_takes_one(offered):
    assert offered("zerofleet run conn") == ["connect_four"]
    assert offered("zerofleet games list oth") == ["othello"]
    assert offered("zerofleet match random greedy --game tic") == ["tic_tac_toe"]
    assert offered("zerofleet bench perft ") == json.loads(completion.TABLE.read_text())["games"]
    assert offered("zerofleet games check tic_tac_toe conn") == ["connect_four"]


def test_presets_and_words_of_an_option_are_offered(offered):
    assert offered("zerofleet run connect_four --preset ") == list(PRESETS)
    assert offered("zerofleet bench train --preset l") == ["laptop"]
    assert offered("zerofleet ladder --over ") == ["version", "hours"]
    assert "resigned" in offered("zerofleet games list connect_four --ending ")
    assert "openings" in offered("zerofleet behaviour open")


def test_names_and_directories_of_runs_are_offered(offered, runs):
    assert offered("zerofleet report ") == ["connect_four-laptop", "othello-tiny"]
    assert offered("zerofleet status oth") == ["othello-tiny"]
    for command in ("run", "ladder", "ui", "play connect_four", "models list connect_four"):
        assert offered(f"zerofleet {command} --run-dir runs/c") == ["runs/connect_four-laptop"]
    assert offered("zerofleet backup runs/o") == ["runs/othello-tiny"]


def test_nothing_is_offered_without_runs(offered, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert offered("zerofleet report ") == []


def test_agents_are_offered_with_the_models_of_a_run(offered):
    assert {"champion", "model:", "random", "perfect", "uct:", "mcts:"} <= set(offered("zerofleet match "))
    assert offered("zerofleet match champion alpha") == ["alpha_beta:"]
    assert offered("zerofleet play connect_four --opponent perf") == ["perfect"]
    assert "greedy" in offered("zerofleet tournament random gre")


def test_commands_and_options_are_offered(offered):
    assert offered("zerofleet tour") == ["tournament"]
    assert offered("zerofleet models comp") == ["compare"]
    assert offered("zerofleet bench per") == ["perft"]
    assert offered("zerofleet run connect_four --run") == ["--run-dir"]
    assert "--preset" not in offered("zerofleet run connect_four --preset tiny --")
    assert "--set" in offered("zerofleet run connect_four --set rows=4 --")


@pytest.mark.parametrize(("shell", "line"), [("bash", "complete -o default -F"), ("zsh", "#compdef zerofleet")])
def test_the_script_of_a_shell_is_printed(monkeypatch, capsys, shell, line):
    monkeypatch.setenv("_ZEROFLEET_COMPLETE", f"source_{shell}")
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert line in printed
    assert f"_ZEROFLEET_COMPLETE=complete_{shell}" in printed


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Put a command `zerofleet` of this Python first in the path of programs, and use a home directory of its own."""
    script = tmp_path / "bin" / "zerofleet"
    script.parent.mkdir()
    script.write_text(f"#!{sys.executable}\nimport sys\nfrom zerofleet.cli import main\nsys.exit(main())\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.slow
def test_bash_completes_after_an_installation(command):
    ask = "COMP_WORDS=(zerofleet run conn); COMP_CWORD=2; _zerofleet_completion zerofleet; echo ${COMPREPLY[@]}"
    script = f"zerofleet --install-completion && source {shlex.quote(str(command))}/.bashrc && complete -p zerofleet && {ask}"
    child = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, check=True)
    *_, how, found = child.stdout.splitlines()
    assert how == "complete -o default -F _zerofleet_completion zerofleet"
    assert found == "connect_four"


@pytest.mark.slow
def test_completion_is_fast_and_imports_no_heavy_package():
    code = (
        "import sys, time\n"
        "from zerofleet.cli import main\n"
        "try: main([])\n"
        "except SystemExit: pass\n"
        "heavy = {'numba', 'torch', 'grpc', 'numpy', 'games'} & set(sys.modules)\n"
        "print(heavy or 'light', time.process_time(), file=sys.stderr)\n"
    )
    environment = {**os.environ, **BASH, "COMP_WORDS": "zerofleet run conn", "COMP_CWORD": "2"}
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert child.stdout.split() == ["connect_four"]
    light, processor_s = child.stderr.split()
    assert light == "light"
    assert float(processor_s) < 2.0
