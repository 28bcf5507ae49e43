"""Ctrl-C while an agent searches: the command ends, whatever the agent does."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

COMMAND = """
import signal, sys, threading
from zerofleet.agents.depth_first.alpha_beta import AlphaBetaAgent
from zerofleet.cli.app import main

def choose(agent, game, state, rng):
    print("searching", flush=True)
    threading.Event().wait()

AlphaBetaAgent.choose = choose
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background of a shell ignores it
main(sys.argv[1:])
"""
"""The command line, with an `alpha_beta` that never answers."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("match", "alpha_beta:2", "random", "--game", "tic_tac_toe", "--games", "2"),
        ("play", "tic_tac_toe", "--opponent", "alpha_beta:2", "--seat", "2"),
    ],
    ids=["match", "play"],
)
def test_ctrl_c_ends_a_command_while_an_agent_searches(words: tuple[str, ...]) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert any("searching" in line for line in process.stdout)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130
    finally:
        process.kill()
        process.communicate()
