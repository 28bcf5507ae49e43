"""A tiny stack of real processes: a server with a timed device, and workers that play with it."""

from __future__ import annotations

import pytest

from benchmarks.stack.__main__ import main

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("transport", ["shared_memory", "grpc"])
def test_a_stack_reports_the_use_of_each_process(transport, capsys):
    main(["--transport", transport, "--device", "gpu", "--slots", "16", "--lanes", "2", "--seconds", "1", "--rounds", "1"])
    printed = capsys.readouterr().out
    assert f"1 x server, 1 x worker, {transport}, 2 lanes of 16" in printed
    assert "  server: " in printed
    assert "  worker: " in printed
    assert "12 workers on 16 cores at most" in printed
