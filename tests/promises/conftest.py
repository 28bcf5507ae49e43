"""Tests that try to break each promise of ARCHITECTURE.md. `make promises` runs them many times, `make mutate` tests them.

`test_promises_of_*.py` use processes of their own; `test_pN_*.py` run the same code in one process, in a second.
"""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict
from pathlib import Path

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER))

import pytest  # noqa: E402
from promise_tools import borrowed  # noqa: E402

import games  # noqa: E402 - after the path

assert games

_streams = borrowed("promise_streams", "streams/conftest.py")
make_redis_server = _streams.make_redis_server
short_directory = _streams.short_directory


def pytest_addoption(parser):
    parser.getgroup("promises").addoption("--times", type=int, default=1, help="run each promise's test so often")


def pytest_generate_tests(metafunc):
    times = metafunc.config.getoption("times", 1)
    if times > 1:
        metafunc.fixturenames.append("repetition")
        metafunc.parametrize("repetition", range(times))


def pytest_terminal_summary(terminalreporter, config):
    """Print a line for each promise when they ran more than once."""
    if config.getoption("times", 1) < 2:
        return
    outcomes = defaultdict(list)
    for kind in ("passed", "failed"):
        for report in terminalreporter.stats.get(kind, []):
            if report.when == "call":
                outcomes[report.nodeid.rpartition("::")[2].partition("[")[0]].append((kind == "passed", report.duration))
    terminalreporter.write_line("| promise | passed | median, s | longest, s |\n| --- | ---: | ---: | ---: |")
    for name in sorted(outcomes, key=lambda name: int(name.split("_")[1][1:])):
        durations = [duration for _, duration in outcomes[name]]
        passed = sum(ok for ok, _ in outcomes[name])
        words = name.removeprefix("test_").replace("_", " ")
        terminalreporter.write_line(
            f"| {words[0].upper()}{words[1:]} | {passed} of {len(durations)} "
            f"| {statistics.median(durations):.1f} | {max(durations):.1f} |"
        )


@pytest.fixture
def quick_retries(monkeypatch):
    """Let a gatekeeper in this process repeat a failed step after a millisecond."""
    monkeypatch.setattr("gatekeeper.crew.FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr("gatekeeper.crew.MAX_PAUSE_S", 0.005)
