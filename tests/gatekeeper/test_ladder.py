import shutil
from collections import Counter

import pytest

from games.core import make
from gatekeeper.ladder import RESERVED_GROUPS, Ladder, rest_s
from zerofleet.agents import make_agent
from zerofleet.contracts.gate_events import GameEnded
from zerofleet.errors import ConfigurationError
from zerofleet.presets.gate_rules import model_play
from zerofleet.storage.gate_journal import JOURNAL_FILE, EventJournal
from zerofleet.storage.runs import RunPaths
from zerofleet.strength.ladders import default_rungs
from zerofleet.telemetry import metrics

MODEL = "tic_tac_toe"
RUNGS = ("random", "alpha_beta:1")


def complete(gate, version, games):
    """Return a test whether the ladder matches of a champion, and those among the rungs, are over."""
    pairs = [*((f"model:{version}", rung) for rung in RUNGS), RUNGS]
    return lambda: all(gate.ledger.games_between(*pair) == games for pair in pairs)


def begun(gate, games):
    """Return a test whether open ladder matches have as many results."""
    return lambda: sum(len(board.results()) for board in gate.ledger.boards("ladder")) >= games


def games_of(directory):
    """Return the moves of each game of the champion in a gatekeeper's journal."""
    journal = EventJournal(RunPaths(directory).gatekeeper / JOURNAL_FILE, model=MODEL)
    ended = [event for event in journal.stream() if isinstance(event, GameEnded) and "/model:" in event.match_id]
    return {(event.match_id, event.group, event.seating): event.moves for event in ended}


async def test_rungs_and_champion_play_and_are_rated_with_random_at_zero(open_gate):
    async with open_gate(ladder_games=6) as gate:
        await gate.offer()
        await gate.until(complete(gate, 1, 6))
        rungs = {rung.name: rung for rung in await gate.client.ladder(MODEL)}
    assert set(rungs) == {"random", "alpha_beta:1", "model:1"}
    assert (rungs["random"].elo, rungs["random"].elo_low, rungs["random"].elo_high) == (0.0, 0.0, 0.0)
    assert rungs["model:1"].elo > 0.0
    assert rungs["model:1"].elo_low < rungs["model:1"].elo < rungs["model:1"].elo_high
    assert [rung.games for rung in rungs.values()] == [12, 12, 12]


async def test_the_ladder_resumes_after_a_restart_and_plays_no_game_twice(open_gate):
    async with open_gate(ladder_games=8) as gate:
        await gate.offer()
        await gate.until(begun(gate, 5))
    async with open_gate(ladder_games=8) as gate:
        assert begun(gate, 5)()
        await gate.until(complete(gate, 1, 8))
        before = await gate.client.ladder(MODEL)
    async with open_gate(ladder_games=8) as gate:
        assert await gate.client.ladder(MODEL) == before
        assert gate.gatekeeper.ladder._missing() == []


@pytest.mark.parametrize("changed", [{"simulations": 2}, {"search": "root=gumbel"}], ids=str)
async def test_a_champion_is_rated_with_the_settings_with_which_its_matches_began(tmp_path, models, run_gate, changed):
    models.publish()
    games, elo = {}, {}
    for name, first, later in (("kept", {}, {}), ("changed", {}, changed), ("other", changed, changed)):
        shutil.copytree(models.store.root, tmp_path / name / "models")
        async with run_gate(tmp_path / name, ladder_games=8, **first) as gate:
            await gate.client.promote(MODEL, 1, reason="")
            await gate.until(lambda: any(b.results() for b in gate.ledger.boards("ladder") if b.terms.players[0].version))
            assert not complete(gate, 1, 8)()
        async with run_gate(tmp_path / name, ladder_games=8, **later) as gate:
            await gate.until(complete(gate, 1, 8))
            elo[name] = await gate.client.ladder(MODEL)
        games[name] = games_of(tmp_path / name)
    assert (games["changed"], elo["changed"]) == (games["kept"], elo["kept"])
    assert games["other"] != games["kept"]  # else the settings would not matter


async def test_every_champion_is_rated_and_its_gate_match_counts(open_gate, inference):
    inference.stubborn = {1}
    async with open_gate(ladder_games=4) as gate:
        await gate.offer()
        await gate.until(complete(gate, 1, 4))
        promoted = await gate.offer()
        await gate.until(complete(gate, 2, 4))
        rungs = {rung.name: rung for rung in await gate.client.ladder(MODEL)}
    gate_games = promoted.match.wins + promoted.match.draws + promoted.match.losses
    assert rungs["model:2"].games == gate_games + 8
    assert rungs["model:2"].elo > rungs["model:1"].elo


async def test_a_new_champion_ends_the_ladder_of_the_old_one(open_gate):
    async with open_gate(ladder_games=60) as gate:
        await gate.offer()
        await gate.until(begun(gate, 3))
        version, _ = gate.models.publish()
        await gate.client.promote(MODEL, version, reason="by hand")
        await gate.until(lambda: any(board.terms.players[0].version == version for board in gate.ledger.boards("ladder")))
        assert not [b for b in gate.ledger.boards("ladder") if b.terms.players[0].version == 1]


def reserve_played(gate, version):
    """Return a test whether the reserved games of a champion against every rung are over."""

    def holds():
        own = [board for board in gate.ledger.boards("ladder") if board.terms.players[0].version == version]
        return len(own) == len(RUNGS) and all(board.groups >= RESERVED_GROUPS for board in own)

    return holds


async def test_a_champion_plays_its_reserved_games_while_a_candidate_waits_and_is_anchored(open_gate):
    async with open_gate(ladder_games=60) as gate:
        gate.arbiter.idle.clear()  # as while a candidate waits
        idle, gate.arbiter.idle.set = gate.arbiter.idle, lambda: None
        version, sha256 = gate.models.publish()
        await gate.client.submit(MODEL, version, sha256)
        await gate.until(reserve_played(gate, 1))
        (rung,) = [rung for rung in await gate.client.ladder(MODEL) if rung.name == "model:1"]
        assert rung.anchored
        assert not idle.is_set()
        assert all(board.groups <= RESERVED_GROUPS + 1 for board in gate.ledger.boards("ladder"))


async def test_matches_that_another_champion_interrupted_for_a_while_are_played_to_their_end(open_gate):
    async with open_gate(ladder_games=8) as gate:
        ladder, refused = gate.gatekeeper.ladder, []
        may_begin = ladder._may_begin

        def refuse_once(pairing):
            if pairing.group >= RESERVED_GROUPS and not refused:
                refused.append(pairing)  # as when the next champion is promoted, and rolled back before a game has ended
                return False
            return may_begin(pairing)

        ladder._may_begin = refuse_once
        await gate.offer()
        pairs = [("model:1", "random"), ("model:1", "alpha_beta:1"), RUNGS]
        await gate.until(lambda: all(gate.ledger.games_between(*pair) for pair in pairs))
        assert refused
        assert [gate.ledger.games_between(*pair) for pair in pairs] == [8, 8, 8]


async def test_reserved_games_against_a_rung_that_was_removed_are_not_owed(open_gate):
    async with open_gate(ladder_games=60) as gate:
        await gate.offer()
        await gate.until(lambda: "ladder/model:1/alpha_beta:1" in gate.ledger.gate.boards)
    async with open_gate(ladder_games=60, rungs=("random",)) as gate:
        boards = {board.terms.match_id: board for board in gate.ledger.boards("ladder")}
        assert boards["ladder/model:1/alpha_beta:1"].groups < RESERVED_GROUPS
        await gate.until(lambda: boards["ladder/model:1/random"].groups >= RESERVED_GROUPS)
        assert not gate.gatekeeper.ladder._owes()


async def test_a_rating_by_gate_games_alone_is_not_anchored(open_gate, inference):
    inference.stubborn = {1}
    async with open_gate(ladder_games=0) as gate:
        await gate.offer()
        await gate.offer()
        rungs = {rung.name: rung for rung in await gate.client.ladder(MODEL)}
    assert rungs["random"].anchored
    assert rungs["model:2"].games
    assert not rungs["model:2"].anchored


async def test_the_ladder_rests_while_a_candidate_waits(open_gate, inference):
    async with open_gate(ladder_games=60) as gate:
        await gate.offer()
        await gate.until(reserve_played(gate, 1))
        inference.away = True
        version, sha256 = gate.models.publish()
        await gate.client.submit(MODEL, version, sha256)
        for _ in range(5):  # the arbiter tries again and again; the step under way ends
            await inference.asked_in_vain.get()
        rested_at = sum(len(board.results()) for board in gate.ledger.boards("ladder"))
        for _ in range(5):
            await inference.asked_in_vain.get()
        assert not begun(gate, rested_at + 1)()
        inference.away = False
        await gate.until(begun(gate, rested_at + 3))
        assert gate.ledger.candidate(version).status.settled


@pytest.mark.slow
async def test_no_game_of_the_ladder_is_played_during_a_gate_match(open_gate):
    async with open_gate(ladder_games=200, max_pairs=30, elo0=-200.0) as gate:
        await gate.offer()
        await gate.until(reserve_played(gate, 1))
        ended = []
        fold = gate.ledger._fold

        def note(event):
            ended.append(event)
            fold(event)

        gate.ledger._fold = note
        await gate.offer()
    statuses = [i for i, event in enumerate(ended) if event.event == "status"]
    kinds = Counter(event.match_id.split("/")[0] for event in ended[statuses[0] : statuses[-1]] if event.event == "game")
    assert kinds["gate"] >= 10
    assert kinds["ladder"] <= 4  # slots of the ladder: those of the step that was under way


@pytest.mark.parametrize(("players", "games", "groups"), [(2, 20, 10), (2, 5, 3), (3, 20, 4), (3, 1, 1), (5, 20, 1)])
def test_the_games_of_a_ladder_match_are_those_of_the_settings_in_whole_groups(settings_of, players, games, groups):
    settings = settings_of(gate={"ladder_games": games})
    parts = dict.fromkeys(("ledger", "pointer", "serving", "idle", "make_agent"))
    ladder = Ladder(make("take_six", players=players), settings, rungs=RUNGS, **parts)
    terms = ladder._terms("model:1", "random", model_play(settings.gate))
    assert (terms.match_id, terms.max_groups) == ("ladder/model:1/random", groups)


@pytest.mark.parametrize(("share", "rest"), [(0.2, 8.0), (0.5, 2.0), (1.0, 0.0)])
def test_the_ladder_rests_in_proportion_to_its_work(share, rest):
    assert rest_s(2.0, share) == pytest.approx(rest)


@pytest.mark.slow
async def test_the_rungs_of_the_game_are_those_of_the_command_line(open_gate):
    async with open_gate(ladder_games=2, rungs=(), ladder_depth=1) as gate:
        await gate.offer()
        rungs = default_rungs(make(MODEL), make_agent=make_agent, depth=1)
        await gate.until(lambda: all(gate.ledger.games_between("model:1", rung) for rung in rungs))
        shown = {rung.name: rung for rung in await gate.client.ladder(MODEL)}
    assert set(shown) == {*rungs, "model:1"}
    assert all(rung.elo_low < rung.elo < rung.elo_high for name, rung in shown.items() if name != "random")


async def test_an_impossible_rung_fails_the_start_of_the_gatekeeper(open_gate):
    with pytest.raises(ConfigurationError, match=r"gate\.rungs: no agent is called 'bob'"):
        async with open_gate(ladder_games=2, rungs=("random", "bob")):
            pass


async def test_a_ladder_without_games_shows_the_anchor_alone(open_gate):
    async with open_gate(ladder_games=0) as gate:
        await gate.offer()
        assert [rung.name for rung in await gate.client.ladder(MODEL)] == ["random"]


async def test_an_inference_server_that_forgot_its_versions_only_delays_the_ladder(open_gate, inference):
    async with open_gate(ladder_games=8) as gate:
        await gate.offer()
        await gate.until(begun(gate, 1))
        inference.served = []
        gate.gatekeeper.serving.champion_changed()
        await gate.until(complete(gate, 1, 8))


async def test_the_state_of_the_gatekeeper_is_in_the_metrics(open_gate, inference):
    inference.stubborn = {1}
    async with open_gate(ladder_games=4) as gate:
        await gate.offer()
        await gate.until(complete(gate, 1, 4))
        await gate.offer()
        await gate.until(complete(gate, 2, 4))
        sha256 = gate.models.store.manifest_sha256(MODEL, 2)
    page = metrics.exposition("gatekeeper").decode()
    for line in (
        "zerofleet_champion_version 2.0",
        'zerofleet_gate_llr_bound{side="upper"} 2.944',
        'zerofleet_gate_match_groups{share="0.75"} ',
        'zerofleet_ladder_elo{rung="random"} 0.0',
        'zerofleet_gate_verdicts_total{verdict="promoted"}',
        'zerofleet_gate_games_total{result="win"}',
        f'zerofleet_model_info{{sha256="{sha256}",version="2"}} 1.0',
        'grpc_server_handled_total{grpc_code="OK",grpc_method="SubmitCandidate"',
    ):
        assert line in page, line
