"""Stages of AlphaZero and of benchmarks, and meetings of networks that read different encodings."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from pathlib import Path
from typing import Any

import pytest

import games
from games.positions import legal
from laboratory import alphazero, loop, meetings
from laboratory.alphazero import HOURS, ILLEGAL_AT_FIRST, ILLEGAL_AT_LAST, MeetingsJudge
from laboratory.benches import rhombus_measures
from laboratory.meetings import Table, meet
from laboratory.models import stored_model
from laboratory.stage import run_stage
from zerofleet.agents.base import Choice
from zerofleet.cli.reproduce.results import StageResults
from zerofleet.errors import ConfigurationError, InvalidRequest, ModelNotFound
from zerofleet.evaluators.uniform import UniformEvaluator
from zerofleet.presets.theses.stages import AlphaZeroStage, read_stage
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.strength.behaviour.tables import read_stored
from zerofleet.strength.claims.tallies import Tally

SETTINGS = {
    "search.simulations": "8",
    "search.fast_simulations": "4",
    "network.channels": "8",
    "selfplay.slots": "32",
    "train.batch_size": "32",
    "train.min_samples": "100",
    "train.samples_per_candidate": "150",
    "train.candidate_growth": "0",
}
TURNED = {"name": "turned", "subject": "random", "opponent": "", "games": 5, "simulations": 4}
ARENA = {"name": "arena", "opponent": "previous", "seats": [2], "games": 6, "simulations": 4, "opening_plies": 2}
STAGE = read_stage({"kind": "match", "id": "one.arm.0", "seed": 0, "game": "tic_tac_toe"})
ALONE = {"name": "alone", "opponent": "network,model=current", "games": 6, "simulations": 4, "opening_plies": 2}
BY_SEAT = {"name": "rules", "opponent": "tic_tac_toe_rules", "seats": [1, 2], "games": 10, "simulations": 4}


def run(folder: Path, **fields: Any) -> dict[str, Any]:
    stage = read_stage({"id": "one.arm.0", "seed": 0, "game": "tic_tac_toe", **fields})
    return asyncio.run(run_stage(stage, folder, emit=lambda *_: None))


@pytest.mark.slow
def test_an_alphazero_stage_meets_its_opponents_by_seat_and_repeats_itself(tmp_path):
    fields = {
        "kind": "alphazero",
        "preset": "tiny",
        "settings": SETTINGS | {"train.policy_over": "all"},
        "samples": 400,
        "judge_every": 200,
        "meetings": [BY_SEAT, TURNED, ARENA, ALONE],
        "tables": ["values", "openings"],
    }
    first, again = run(tmp_path / "a", **fields), run(tmp_path / "b", **fields)
    found = [(tally["seat"], tally["at"], sum(tally["scores"].values())) for tally in first["tallies"]]
    assert [(seat, games) for seat, _, games in found] == [(1, 10), (2, 10), (1, 5), (2, 6), (1, 6)] * 2
    values, openings = (read_stored(table) for table in first["tables"])
    assert (values.name, openings.name) == ("values", "openings")
    assert 0 < openings.games < values.games == first["totals"]["games"]  # most games begin with random plies
    priors = [row[2] for row in openings.rows if row[0] == openings.rows[-1][0]]
    assert len(priors) == 5
    assert all(isinstance(prior, float) and 0.0 < prior < 100.0 for prior in priors)
    assert 0 < found[0][1] == found[4][1] < found[5][1] == first["totals"]["games"]
    assert {(tally["subject"], tally["opponent"]) for tally in first["tallies"]} == {
        ("network, 4 simulations", "tic_tac_toe_rules"),
        ("random", "network, 4 simulations"),
        ("network, 4 simulations", "network, 4 simulations, version before"),
        ("network, 4 simulations", "network,model=current"),
    }
    assert sum(first["tallies"][0]["first_moves"].values()) == 10
    assert not any(tally["first_moves"] for tally in first["tallies"] if tally["seat"] == 2)
    assert first["totals"]["weights"] == again["totals"]["weights"]
    assert [tally["scores"] for tally in first["tallies"]] == [tally["scores"] for tally in again["tallies"]]
    assert [point["games"] for point in first["curve"]] == [found[0][1], found[5][1]]
    assert all("value" in point["losses"] for point in first["curve"])
    assert first["measures"]["mean squared error"] == first["curve"][-1]["losses"]["value"]
    assert 0.0 < first["measures"]["policy on illegal moves, %"] < 100.0
    assert 0.0 < first["measures"][ILLEGAL_AT_LAST] < first["measures"][ILLEGAL_AT_FIRST] < 100.0
    assert first["measures"][HOURS] == pytest.approx(first["totals"]["cpu_seconds_used"] / 3600.0, abs=1e-4)


def test_a_game_decided_by_its_first_move_after_the_opening_is_a_game_of_training(tmp_path):
    # after six random plies of tic-tac-toe the first move may win: such a game has no temporal difference
    blocks: list[float] = []

    def count(share: float, _: str) -> None:
        blocks.append(share)
        assert len(blocks) <= 60, "a game was played again and again"

    fields = {"kind": "td", "id": "td.a.0", "seed": 0, "game": "tic_tac_toe", "td": {"hidden": 4}, "opening_plies": 6}
    stage = read_stage(fields | {"games": 60, "block": 1})
    result = asyncio.run(run_stage(stage, tmp_path, emit=count))
    assert result["totals"]["games"] == len(blocks) == 60
    assert blocks == sorted(set(blocks))


@pytest.mark.slow
def test_moves_are_compared_with_perfect_play_on_the_same_positions(tmp_path):
    meetings = [
        {"name": name, "subject": name, "opponent": "perfect play", "games": 40}
        for name in ("perfect", "alpha_beta:9", "random")
    ]
    found = run(tmp_path, kind="accuracy", meetings=meetings)["tallies"]
    kept = {tally["subject"]: tally["scores"] for tally in found}
    assert kept["perfect"] == kept["alpha_beta:9"] == {"1": 40}
    assert 0 < kept["random"]["1"] < 40
    assert kept["random"]["1"] + kept["random"]["-1"] == 40
    assert {(tally["opponent"], tally["trained"]) for tally in found} == {("perfect play", False)}
    (kept_file,) = (tmp_path / "positions").iterdir()
    first = json.loads(kept_file.read_text())
    assert len(first) == 40
    run(tmp_path, kind="accuracy", meetings=meetings[:1], seed=1)
    (other_file,) = set((tmp_path / "positions").iterdir()) - {kept_file}
    assert json.loads(other_file.read_text()) != first  # independent, as their interval is over the positions of all seeds


@pytest.mark.parametrize("stored", [(1, 2), (3, 7)], ids=["consecutive", "after publications that failed"])
async def test_a_version_meets_the_stored_one_before_it_and_the_first_has_none(tmp_path, monkeypatch, stored):
    met: list[int | None] = []

    async def noted(meeting, table, *, on_game):
        met.extend([table.version_before] if meeting.opponent == "previous" else [])
        return await meet(meeting, table, on_game=on_game)

    monkeypatch.setattr(alphazero, "meet", noted)
    fields = {
        "kind": "alphazero",
        "id": "a.b.0",
        "seed": 0,
        "game": "tic_tac_toe",
        "preset": "tiny",
        "samples": 1,
        "judge_every": 1,
    }
    stage = read_stage(fields | {"meetings": [BY_SEAT | {"games": 2}, ARENA | {"games": 2}]})
    assert isinstance(stage, AlphaZeroStage)
    for version in stored:
        (tmp_path / "tic_tac_toe" / str(version)).mkdir(parents=True)
    judge = MeetingsJudge(
        stage, Table(game=games.make("tic_tac_toe"), seed=0, trained=True, sides={}), DirectoryStore(tmp_path)
    )
    for version, names in zip(stored, (["rules", "rules"], ["rules", "rules", "arena"]), strict=True):
        await judge.judge(UniformEvaluator(2), version)
        assert [tally.meeting for tally in judge.latest] == names
    assert met == [stored[0]]


@pytest.mark.slow
def test_turns_of_rock_paper_scissors_are_counted_for_the_seat_of_the_subject(tmp_path):
    meeting = {
        "name": "rock",
        "subject": "rock_paper_scissors_constant:paper",
        "opponent": "rock_paper_scissors_constant:rock",
        "seats": [1, 2],
        "games": 3,
    }
    turned = meeting | {"name": "turned", "subject": meeting["opponent"], "opponent": meeting["subject"]}
    noisy = meeting | {"name": "noisy", "subject": "random"}
    board = {"game": "rock_paper_scissors", "parameters": {"score": "margin", "turns": "40"}}
    found = run(tmp_path, kind="match", **board, meetings=[meeting, turned, noisy])["tallies"]
    assert [tally["turns"] for tally in found[:4]] == [{"40 0 0": 3}] * 2 + [{"0 0 40": 3}] * 2
    for tally in found[4:]:  # turns won less turns lost are the scores
        margins = []
        for text, count in tally["turns"].items():
            won, drawn, lost = map(int, text.split())
            assert won + drawn + lost == 40
            margins += [(won - lost) / 40] * count
        assert sorted(margins) == pytest.approx(
            sorted(float(s) for s, n in tally["scores"].items() for _ in range(n)), abs=1e-4
        )
    (other,) = run(tmp_path, kind="match", meetings=[BY_SEAT | {"subject": "random", "seats": [1], "games": 2}])["tallies"]
    assert other["turns"] == {}


def test_a_meeting_after_random_plies_keeps_the_hidden_deal_for_which_they_were_drawn(tmp_path):
    meeting = {"name": "m", "subject": "random", "opponent": "random", "games": 3, "opening_plies": 4}
    (found,) = run(tmp_path, kind="match", game="take_six", meetings=[meeting])["tallies"]
    assert sum(found["scores"].values()) == 3


def test_a_meeting_whose_openings_all_end_the_game_is_refused(tmp_path):
    meeting = {"name": "m", "subject": "random", "opponent": "random", "games": 2, "opening_plies": 9}
    with pytest.raises(InvalidRequest, match=r"meeting m: every opening of 9 plies ends the game.*lower opening_plies"):
        run(tmp_path, kind="match", meetings=[meeting])


class Loading:
    """Agent whose first move in this process takes 0.3 s of processor time, as one that is compiled or loaded."""

    name = "loading"
    loaded = False

    def choose(self, game, state, rng):
        if not Loading.loaded:
            Loading.loaded = True
            end_s = time.process_time() + 0.3
            while time.process_time() < end_s:
                pass
        return Choice(int(legal(game, state)[0]))


@pytest.mark.slow
def test_the_time_of_moves_is_without_that_of_compilation(tmp_path, monkeypatch):
    monkeypatch.setattr(meetings, "make_agent", lambda *_, **__: Loading())
    meeting = {"name": "m", "subject": "a", "opponent": "b", "games": 2, "opening_plies": 2}
    (found,) = run(tmp_path, kind="match", meetings=[meeting])["tallies"]
    assert Loading.loaded
    assert sum(found["scores"].values()) == 2
    assert found["subject_cpu_ms"] < 10.0  # 0.3 s over at most eight moves would be at least 37 ms


@pytest.mark.slow
def test_games_of_agents_that_spend_the_whole_budget_are_an_error_and_not_a_result(tmp_path):
    warm = SETTINGS | {"warm_start.games": "70", "warm_start.agents": "random"}
    fields = {"kind": "alphazero", "preset": "tiny", "settings": warm, "judge_every": 20, "meetings": [BY_SEAT | {"games": 1}]}
    with pytest.raises(
        ConfigurationError, match=r"have \d+ samples, and the budget is 20: no version was trained; raise samples"
    ):
        run(tmp_path, samples=20, **fields)


class Killed(Exception):
    """End of a stage by an interruption."""


@pytest.mark.slow
def test_an_interrupted_alphazero_stage_continues_with_its_games_and_judgements(tmp_path):
    stage = read_stage(
        {
            "id": "one.arm.0",
            "seed": 0,
            "game": "tic_tac_toe",
            "kind": "alphazero",
            "preset": "tiny",
            "settings": SETTINGS,
            "samples": 600,
            "judge_every": 200,
            "meetings": [BY_SEAT],
        }
    )
    shares: list[float] = []

    def killed(share: float, remark: str) -> None:
        shares.append(share)
        if share >= 1 / 3:
            raise Killed(remark)

    with pytest.raises(Killed, match="games"):
        asyncio.run(run_stage(stage, tmp_path, emit=killed))
    home = tmp_path / "networks" / stage.id
    before = json.loads((home / "judged.json").read_text())
    assert before["starts"] == 1
    continued: list[float] = []
    result = asyncio.run(run_stage(stage, tmp_path, emit=lambda share, _: continued.append(share)))
    assert result["totals"]["starts"] == 2
    assert result["totals"]["samples"] >= 600
    assert min(continued) >= 1 / 3  # the games before the interruption count
    places = [tally["at"] for tally in result["tallies"] if tally["seat"] == 1]
    assert len(places) == 3  # none twice, none missing
    assert places == sorted(set(places))
    assert stored_model(games.make("tic_tac_toe"), home) is not None
    assert sorted(path.name for path in home.iterdir()) == ["judged.json", "models"]
    (home / "run").mkdir()  # killed before it was removed
    again = asyncio.run(run_stage(stage, tmp_path, emit=lambda *_: None))
    assert again == json.loads(json.dumps(result))
    assert sorted(path.name for path in home.iterdir()) == ["judged.json", "models"]


@pytest.mark.slow
def test_a_stage_whose_publications_failed_once_ends_with_all_figures(tmp_path, monkeypatch):
    publish = DirectoryStore.publish

    def second_attempt(store: DirectoryStore, model: str, *given: Any, **options: Any) -> int:
        with contextlib.suppress(OSError), store._staging(model):
            raise OSError("no space left on device")
        return publish(store, model, *given, **options)

    monkeypatch.setattr(DirectoryStore, "publish", second_attempt)
    fields = {"kind": "alphazero", "preset": "tiny", "settings": SETTINGS | {"train.policy_over": "all"}, "samples": 400}
    found = run(tmp_path, **fields, judge_every=200, meetings=[ARENA | {"games": 2}])
    assert [tally["meeting"] for tally in found["tallies"]] == ["arena"] * 2
    assert found["measures"].keys() >= {ILLEGAL_AT_FIRST, ILLEGAL_AT_LAST}


@pytest.mark.slow
def test_the_processor_time_of_a_killed_start_counts_though_it_came_to_no_judgement(tmp_path, monkeypatch):
    monkeypatch.setattr(alphazero, "KEEP_EVERY_S", 0.0)
    monkeypatch.setattr(loop, "REPORT_EVERY_S", 0.0)
    fields = {"kind": "alphazero", "preset": "tiny", "settings": SETTINGS, "samples": 300, "judge_every": 300}
    stage = read_stage({"id": "one.arm.0", "seed": 0, "game": "tic_tac_toe", "meetings": [BY_SEAT | {"games": 1}], **fields})

    def killed(share: float, remark: str) -> None:
        if share >= 1 / 2:
            raise Killed(remark)

    with pytest.raises(Killed):
        asyncio.run(run_stage(stage, tmp_path, emit=killed))
    before = json.loads((tmp_path / "networks" / stage.id / "judged.json").read_text())
    assert before["curve"] == []
    assert min(before["sums"].values()) > 0
    result = asyncio.run(run_stage(stage, tmp_path, emit=lambda *_: None))
    assert result["totals"]["evaluations"] > before["sums"]["evaluations"]
    spent_s = result["totals"]["cpu_seconds_used"]
    assert spent_s > before["sums"]["cpu_seconds_used"]
    assert result["measures"][HOURS] == pytest.approx(spent_s / 3600.0, abs=1e-4)


@pytest.mark.slow
def test_networks_of_two_encodings_meet_on_one_board(tmp_path):
    for arm, encoding in (("a", "planes"), ("b", "one_hot")):
        run(
            tmp_path,
            kind="td",
            id=f"td.{arm}.0",
            parameters={"encoding": encoding},
            td={"hidden": 4},
            games=20,
            opening_plies=2,
        )
    meeting = {
        "name": "duel",
        "subject": "network,model=1,by=value,temperature=0.1",
        "opponent": "alpha_beta:2,model=1",
        "subject_network": "td.a.0",
        "opponent_network": "td.b.0",
        "seats": [1, 2],
        "games": 6,
    }
    duel = {"kind": "match", "meetings": [meeting], "opponent_parameters": {"encoding": "one_hot"}}
    found = run(tmp_path, **duel)["tallies"]
    assert [(tally["seat"], sum(tally["scores"].values())) for tally in found] == [(1, 6), (2, 6)]
    assert all(tally["trained"] and tally["opponent_nodes"] > tally["subject_nodes"] for tally in found)
    with pytest.raises(ModelNotFound, match=r"stage td\.c\.0 has no network"):
        run(tmp_path, **(duel | {"meetings": [meeting | {"subject_network": "td.c.0"}]}))


def test_measures_of_the_rhombus_compare_rows_of_its_output():
    def step(name: str, nodes: float, ms: float) -> dict[str, Any]:
        return {"step": name, "depths": [{"depth": 4, "nodes": nodes, "ms": ms, "same_values": 8}]}

    lists = {"fresh": 0.8, "upward": 1.0, "channels": 0.6, "flood": 0.4}
    output = {
        "steps": [step("minimax", 900.0, 12.0), step("floods instead", 30.0, 0.5)],
        "generators": [{"moves": "full", "generation": name, "us_per_list": us} for name, us in lists.items()],
        "plain": [{"depth": 2, "plain_ms": 150.0, "search_ms": 0.075}],
    }
    assert rhombus_measures(output) == pytest.approx(
        {
            "nodes of minimax per node of the agent, 4 plies": 30.0,
            "time of minimax per time of the agent, 4 plies": 24.0,
            "time of plain Python per time of the agent, 2 plies": 2000.0,
            "time saved by upward lists, %": -25.0,
            "time saved by channels lists, %": 25.0,
            "time saved by flood lists, %": 50.0,
        }
    )


@pytest.mark.parametrize("content", ["[]", "7", "{", "{}", "\x00", "[" * 100_000])
def test_a_damaged_result_is_refused_with_its_file(tmp_path: Path, content: str) -> None:
    results = StageResults(tmp_path)
    (tmp_path / "results" / f"{STAGE.id}.json").write_text(content)
    with pytest.raises(InvalidRequest, match=rf"{STAGE.id}\.json"):
        results.tallies(STAGE)


@pytest.mark.parametrize("tallies", [None, 7, [7], [{}], [{"unknown": 1}]])
def test_a_result_of_other_tallies_is_refused(tmp_path: Path, tallies: object) -> None:
    results = StageResults(tmp_path)
    results.keep(STAGE, {"tallies": tallies}, seconds=1.0)
    with pytest.raises(InvalidRequest, match="is damaged"):
        results.tallies(STAGE)


@pytest.mark.parametrize("tables", [7, [7], [{}], [{"name": "lines"}], None])
def test_a_result_of_damaged_tables_of_behaviour_is_refused(tmp_path: Path, tables: object) -> None:
    results = StageResults(tmp_path)
    tally = Tally(meeting="a", subject="b", opponent="c", seat=1, seed=0, trained=False, scores={"1": 1}).as_json()
    results.keep(STAGE, {"tallies": [tally | {"tables": tables}], "tables": tables}, seconds=1.0)
    with pytest.raises(InvalidRequest, match="is damaged"):
        results.tallies(STAGE)
    with pytest.raises(InvalidRequest, match="is damaged"):
        results.tables(STAGE)
