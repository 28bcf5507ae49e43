from __future__ import annotations

import asyncio
import contextlib
import re
from pathlib import Path

import pytest

from games.core import make
from zerofleet.contracts.opinions import Opinion
from zerofleet.errors import ModelNotFound
from zerofleet.rpc.evaluation_client import EvaluationClient
from zerofleet.storage.runs import RunDirectory, RunPaths
from zerofleet.supervisor.borrowed import served


@pytest.fixture(scope="module")
def address(run_with_champion: Path):
    """Return the address of a server with the champion of the run."""
    with asyncio.Runner() as runner:
        borrowed = served(RunPaths(run_with_champion), make("tic_tac_toe"))
        yield runner.run(borrowed.__aenter__())
        runner.run(borrowed.__aexit__(None, None, None))


@pytest.mark.slow
def test_the_network_alone_lists_every_move_with_its_prior(zerofleet, address):
    outcome = zerofleet("evaluate", "tic_tac_toe", "--moves", "b2,a1", "--address", address)
    assert outcome.code == 0
    assert "2 . X .\n1 O . ." in outcome.out
    assert "X to move" in outcome.out
    assert "model 1, the network alone" in outcome.out
    assert "visits" not in outcome.out


@pytest.mark.slow
def test_a_search_finds_the_win_and_prints_it_as_json(zerofleet, address):
    words = ("evaluate", "tic_tac_toe", "--moves", "a1 a3 b1 b3", "--simulations", "64", "--address", address, "--json")
    answer = zerofleet(*words).json()
    assert answer["after"] == ["a1", "a3", "b1", "b3"]
    assert answer["model_version"] == 1
    assert answer["moves"][0]["move"] == "c1"
    assert answer["moves"][0]["value"] == 1.0
    assert answer["principal_variation"] == ["c1"]
    assert answer["player"] == 1
    assert sum(move["prior"] for move in answer["moves"]) == pytest.approx(1, abs=1e-2)


@pytest.mark.slow
def test_a_search_by_time_finds_the_win_and_names_its_budget(zerofleet, address):
    words = ("evaluate", "tic_tac_toe", "--moves", "a1 a3 b1 b3", "--time", "40ms", "--address", address)
    answer = zerofleet(*words, "--json").json()
    assert (answer["model_version"], answer["player"], answer["principal_variation"]) == (1, 1, ["c1"])
    assert (answer["moves"][0]["move"], answer["moves"][0]["value"]) == ("c1", 1.0)
    told = zerofleet("evaluate", "tic_tac_toe", "--time", "500ms", "--address", address).out
    found = re.search(r"model 1, 0\.5 s, ([\d,]+) simulations", told)
    assert found is not None
    assert int(found[1].replace(",", "")) > 0
    assert "visits" in told
    over = zerofleet("evaluate", "tic_tac_toe", "--moves", "a1,a3,b1,b3,c1", "--time", "40ms", "--address", address)
    assert "the game is over: X +1   O -1" in over.out


@pytest.mark.slow
def test_a_finished_game_is_evaluated_by_its_scores(zerofleet, address):
    words = ("evaluate", "tic_tac_toe", "--moves", "a1,a3,b1,b3,c1", "--address", address)
    assert "the game is over: X +1   O -1" in zerofleet(*words).out
    answer = zerofleet(*words, "--json").json()
    assert (answer["is_over"], answer["player"], answer["value"]) == (True, None, [1.0, -1.0])


@pytest.mark.slow
def test_evaluate_starts_a_server_if_none_is_running(zerofleet, run_with_champion):
    outcome = zerofleet("evaluate", "tic_tac_toe", "--run-dir", str(run_with_champion), "--simulations", "16")
    assert outcome.code == 0
    assert "model 1, 16 simulations" in outcome.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--moves", "a1,a1"), "move 2: 'a1' is not a legal move"),
        (("--moves", "a1,z9"), "move 2: 'z9' is not a legal move"),
        (("--model", "7"), "7"),
        (("--address", "127.0.0.1:1"), "127.0.0.1:1 does not answer"),
        (("--address", "127.0.0.1:1", "--time", "1s"), "127.0.0.1:1 does not answer"),
    ],
)
def test_an_invalid_evaluate_request_is_rejected_with_one_error_line(zerofleet, run_with_champion, words, said):
    where = () if "--address" in words else ("--run-dir", str(run_with_champion))
    outcome = zerofleet("evaluate", "tic_tac_toe", *words, *where)
    assert outcome.code == 2
    assert outcome.out == ""
    assert said in outcome.err
    assert len(outcome.err.splitlines()) == 1


def test_the_wait_for_an_answer_is_an_option(zerofleet, monkeypatch):
    waits = []

    class Waiting(EvaluationClient):
        def __init__(self, target: str, **options) -> None:
            waits.append(options["timeout_s"])
            super().__init__(target, **options)

    monkeypatch.setattr("zerofleet.cli.commands.evaluate.EvaluationClient", Waiting)
    for words in ((), ("--timeout", "600")):
        assert zerofleet("evaluate", "tic_tac_toe", "--address", "127.0.0.1:1", *words).code == 2
    assert waits == [60.0, 600.0]
    assert zerofleet("evaluate", "tic_tac_toe", "--address", "127.0.0.1:1", "--timeout", "0").code == 2


def test_a_version_that_the_runs_own_server_retires_before_the_question_is_asked_of_another_server(
    zerofleet, run_with_champion, monkeypatch
):
    @contextlib.asynccontextmanager
    async def lent(paths, game, *, versions, once=False):
        yield "live" if once else "started"

    class Client:
        def __init__(self, address, **_):
            self.address = address

        async def __aenter__(self):
            return self

        async def __aexit__(self, *_):
            pass

        async def evaluate(self, *_, **about):
            if self.address == "live":
                raise ModelNotFound("version 1 of tic_tac_toe is not served; served versions: 3, 4")
            return Opinion(1, 0, (0.0, 0.0), (), (), is_over=False)

    monkeypatch.setattr("zerofleet.cli.commands.evaluate.served", lent)
    monkeypatch.setattr("zerofleet.cli.commands.evaluate.EvaluationClient", Client)
    outcome = zerofleet("evaluate", "tic_tac_toe", "--run-dir", str(run_with_champion), "--json")
    assert outcome.json()["model_version"] == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--time", "soon"), "'soon' is no time from 1ms to 3600s; write 500ms or 2s"),
        (("--time", "2s", "--simulations", "0"), "--simulations is given too"),
    ],
)
def test_a_wrong_time_is_refused(zerofleet, words, said):
    outcome = zerofleet("evaluate", "tic_tac_toe", *words)
    assert outcome.code == 2
    assert said in " ".join(outcome.err.split())


def test_without_a_champion_the_option_that_names_a_version_is_advised(zerofleet, tmp_path):
    RunDirectory.create_or_open(tmp_path / "run", "tic_tac_toe", {}, preset="tiny", seed=1).close()
    outcome = zerofleet("evaluate", "tic_tac_toe", "--run-dir", str(tmp_path / "run"))
    assert outcome.code == 2
    assert "or name a version as --model N" in outcome.err
