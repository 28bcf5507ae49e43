"""What a run says of itself before its first champion."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from zerofleet.contracts.promotions import Candidate, CandidateStatus
from zerofleet.errors import ConfigurationError, InvalidRequest
from zerofleet.supervisor.lines import progress_line
from zerofleet.supervisor.readings import Readings
from zerofleet.supervisor.request import RunRequest
from zerofleet.supervisor.screen import Title, draw
from zerofleet.supervisor.supervisor import run

PLAYING = Readings(elapsed_s=3, games=312, games_stored=312, warm_start_games=500)
LEARNING = replace(PLAYING, games_stored=500)
OFFERED = replace(LEARNING, candidates=(Candidate("tic_tac_toe", 1, CandidateStatus.QUEUED, None, ""),))


def page(now: Readings) -> str:
    console = Console(file=io.StringIO(), width=120, height=40, color_system=None)
    console.print(draw(Title("tic_tac_toe", "tiny", "runs/t", None, "Ctrl-C stops it"), now, [], columns=120, lines=40))
    return console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (PLAYING, "warm start: 312 of 500 agent games"),
        (LEARNING, "warm start: learning from the agent games"),
    ],
)
def test_a_warm_start_is_shown_with_its_progress(now: Readings, said: str) -> None:
    assert now.phase == said
    assert said in progress_line(now)
    assert said in page(now)


def test_no_phase_is_shown_after_the_first_version_or_without_a_warm_start() -> None:
    assert OFFERED.phase == replace(PLAYING, warm_start_games=0).phase == ""
    assert "warm start" not in progress_line(OFFERED)
    assert "waiting for the first network" in page(replace(PLAYING, warm_start_games=0))


@pytest.mark.parametrize(
    ("name", "value", "error", "said"),
    [
        ("warm_start.agents", "nobody", InvalidRequest, "warm_start.agents=nobody: no agent .* or set warm_start.games=0"),
        ("warm_start.agents", "random,random,random", ConfigurationError, "names 3 agents, tic_tac_toe has 2 seats"),
        ("warm_start.game_parameters", "cap=9", ConfigurationError, "has no parameter cap"),
    ],
)
def test_agents_that_cannot_play_are_refused_before_anything_starts(
    tmp_path: Path, name: str, value: str, error: type[Exception], said: str
) -> None:
    request = RunRequest("tic_tac_toe", tmp_path / "run", overrides={"warm_start.games": "5", name: value})
    with pytest.raises(error, match=said):
        run(request)
    assert not (tmp_path / "run").exists()
