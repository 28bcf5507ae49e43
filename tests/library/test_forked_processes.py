"""The library in a process that was forked from one which used it, as those of `multiprocessing` are on Linux."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "forked_process.py"


def printed_by(program: str) -> list[object]:
    done = subprocess.run([sys.executable, PROGRAM, program], capture_output=True, text=True, timeout=120, check=True)
    return json.loads(done.stdout)


@pytest.mark.slow
def test_calls_are_answered_in_a_forked_process_and_in_one_forked_from_it() -> None:
    assert printed_by("idle") == ["an answer"] * 4


@pytest.mark.slow
def test_calls_in_a_process_forked_after_a_call_that_failed_end_as_those_of_its_parent() -> None:
    assert printed_by("after_a_failure") == ["unavailable"] * 3


@pytest.mark.slow
def test_an_owner_of_a_server_that_is_collected_at_a_fork_does_not_stop_it() -> None:
    assert printed_by("collected") == ["an answer"] * 2


@pytest.mark.slow
def test_calls_in_a_process_forked_while_the_library_was_at_work_are_refused_and_the_parent_goes_on() -> None:
    refused, own = printed_by("at_work")
    assert str(refused).startswith("refused: this process was forked while its parent trained a run")
    assert own == "the end"


@pytest.mark.slow
def test_a_forked_process_starts_a_server_of_its_own_and_leaves_that_of_its_parent_running() -> None:
    address_is_shared, closed, parents_is_kept, is_started = printed_by("with_a_server")
    assert (address_is_shared, closed, parents_is_kept, is_started) == (False, "closed", True, False)
