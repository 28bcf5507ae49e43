"""Opened runs and their models: what is stored, and what a model says of a position."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

import zerofleet as zf
from games import GameError, make
from zerofleet.contracts.opinions import MoveOpinion, Opinion
from zerofleet.contracts.wire.records_pb2 import GameRecord
from zerofleet.errors import InvalidRequest, ModelNotFound, RunDirectoryError, Unavailable
from zerofleet.library.runs import _stored_game
from zerofleet.storage.runs import RunDirectory


@pytest.fixture
def fresh(tmp_path: Path) -> zf.Run:
    """A run that has not done anything yet."""
    RunDirectory.create_or_open(tmp_path / "run", "connect_four", {"rows": "5"}, preset="tiny", seed=1).close()
    return zf.open_run(tmp_path / "run")


def test_a_directory_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match="is not a run directory"):
        zf.open_run(tmp_path)


def test_a_fresh_run_has_a_game_and_nothing_else(fresh: zf.Run) -> None:
    assert fresh.game == make("connect_four", rows=5)
    assert fresh.header.preset == "tiny"
    assert fresh.versions() == []
    assert (fresh.ladder().players, fresh.ladder().is_anchored) == ((), False)
    assert list(fresh.games()) == []
    assert repr(fresh) == f"<Run of connect_four_rows5 in {fresh.path}>"
    with pytest.raises(ModelNotFound, match="has no champion of connect_four_rows5 yet"):
        fresh.champion()
    with pytest.raises(ModelNotFound, match="has no version 3; the latest stored are: none"):
        fresh.model(3)


@pytest.mark.parametrize("wrong", [{"seed": -1}, {"seed": 1 << 70}, {"simulations": -5}])
def test_an_analysis_with_a_number_out_of_range_is_refused_by_its_name(fresh: zf.Run, wrong: dict[str, int]) -> None:
    (name,) = wrong
    with pytest.raises(InvalidRequest, match=f"{name}=.* is out of range; give 0 to "):
        zf.Model(fresh, 1).analyse("d1", **wrong)


def test_an_analysis_waits_as_long_as_the_caller_allows(fresh: zf.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.asynccontextmanager
    async def serving(run: zf.Run, versions: list[int], *, once: bool) -> AsyncIterator[str]:
        yield "127.0.0.1:1"

    monkeypatch.setattr(zf.Run, "serving", serving)
    with pytest.raises(InvalidRequest, match=r"timeout_s=0\.0 is out of range; give seconds above 0, at most 86,400"):
        zf.Model(fresh, 1).analyse("d1", simulations=0, timeout_s=0.0)
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1 does not answer"):
        zf.Model(fresh, 1).analyse("d1", simulations=0, timeout_s=600.0)


def test_a_version_that_the_runs_own_server_retires_before_the_question_is_asked_of_another_server(
    fresh: zf.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    opinion = Opinion(1, 0, (0.0, 0.0), (), (), is_over=False)

    class Client:
        def __init__(self, address: str, **_: object) -> None:
            self.address = address

        async def __aenter__(self) -> Client:
            return self

        async def __aexit__(self, *_: object) -> None:
            pass

        async def evaluate(self, *_: object, **about: object) -> Opinion:
            if self.address == "live":
                raise ModelNotFound("version 1 of connect_four_rows5 is not served; served versions: 3, 4")
            return opinion

    @contextlib.asynccontextmanager
    async def serving(run: zf.Run, versions: list[int], *, once: bool = False) -> AsyncIterator[str]:
        yield "live" if once else "started"

    monkeypatch.setattr(zf.Run, "serving", serving)
    monkeypatch.setattr("zerofleet.library.runs.EvaluationClient", Client)
    assert zf.Model(fresh, 1).analyse("d1", simulations=0) == opinion


def test_a_stored_game_names_agents_models_and_moves() -> None:
    record = GameRecord(uid="ab", game="tic_tac_toe", moves=[4, 0], scores=[1.0, -1.0], seat_versions=[0, 7])
    record.seat_agents[:] = ["random", ""]
    stored = _stored_game(record)
    assert stored.players == ("random", "model:7")
    assert stored.moves == ("b2", "a3")
    assert stored.scores == (1.0, -1.0)


def test_a_stored_game_of_an_impossible_time_has_none() -> None:
    record = GameRecord(uid="ab", game="tic_tac_toe", seat_versions=[1, 2], finished_at_ms=2**62)
    assert _stored_game(record).finished_at is None


def test_an_opinion_reads_as_a_table() -> None:
    moves = (MoveOpinion("b1", 1, 0.23, 355, 0.035), MoveOpinion("a1", 0, 0.068, 0, None))
    said = zf.Opinion(4, 1, (0.012, -0.012), moves, ("b1", "d3"), is_over=False)
    assert str(said).splitlines() == [
        "player 2 to move, value -0.012, model 4",
        "move   prior  visits   value",
        "b1     23.0%     355  +0.035",
        "a1      6.8%       0",
        "expected line: b1 d3",
    ]
    assert str(zf.Opinion(4, 0, (1.0, -1.0), (), (), is_over=True)) == "the game is over: +1 -1"


@pytest.mark.slow
def test_one_server_answers_all_questions_to_an_opened_run(trained: Path) -> None:
    others = {child.pid for child in psutil.Process().children()}
    with zf.open_run(trained) as run:
        champion = run.champion()
        opinion = champion.analyse(["a1", "b2"], simulations=16)
        assert opinion.model_version == champion.version
        assert len(opinion.moves) == 7
        assert sum(move.visits for move in opinion.moves) >= 15
        assert champion.analyse("a1, b2", simulations=16) == opinion
        assert len({child.pid for child in psutil.Process().children()} - others) == 1
        with pytest.raises(GameError, match="move 2: "):
            champion.analyse(["a1", "a1"])
    assert {child.pid for child in psutil.Process().children()} <= others


@pytest.mark.slow
async def test_models_answer_inside_a_running_event_loop(trained: Path) -> None:
    with zf.open_run(trained) as run:
        first, champion = run.model(1), run.champion()
        waited = champion.analyse(simulations=0)
        assert await champion.analyse_async(simulations=0) == waited
        both = await asyncio.gather(first.analyse_async(["a1"]), champion.analyse_async(["a1"]))
        assert [opinion.model_version for opinion in both] == [1, champion.version]


def test_a_forgotten_run_without_a_server_does_not_begin_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    RunDirectory.create_or_open(tmp_path, "tic_tac_toe", {}, preset="tiny", seed=1).close()
    began: list[object] = []
    monkeypatch.setattr("zerofleet.library.background.start", began.append)
    run = zf.open_run(tmp_path)
    del run
    gc.collect()
    assert began == []


@pytest.mark.slow
def test_the_server_of_a_forgotten_run_ends(trained: Path) -> None:
    others = {child.pid for child in psutil.Process().children()}
    run = zf.open_run(trained)
    run.champion().analyse(simulations=0)
    (server,) = [child for child in psutil.Process().children() if child.pid not in others]
    del run
    gc.collect()
    server.wait(timeout=60)


@pytest.mark.slow
def test_the_stored_games_of_a_run_can_be_replayed(trained: Path) -> None:
    run = zf.open_run(trained)
    stored = list(run.games())
    assert len({game.uid for game in stored}) == len(stored) > 0
    assert all(player.startswith("model:") for player in stored[0].players)
    assert sum(stored[0].scores) == 0.0
    assert 5 <= len(stored[0].moves) <= 9
