"""Games of more than two seats on the gatekeeper's ladder: placements, kept over restarts."""

from dataclasses import replace

import numpy as np

from games import core
from games.core import make
from games.positions import final_scores, legal, replay
from gatekeeper.disk import Disk
from gatekeeper.journal import EventJournal
from gatekeeper.ledger import Ledger
from zerofleet.strength.matches import GameResult, MatchTerms, Player, SearchTerms
from zerofleet.strength.ratings import Placement, Tally, rate

GAME = make("take_six", players=3)
TERMS = MatchTerms("ladder/model:1/random", GAME, (Player.model(1), Player("random")), seed=4, opening_plies=0, max_groups=3)


def played_at_random(pairing, rng):
    moves, state = [], replay(GAME, (), pairing.opening.seed)
    while not core.is_over(GAME, state):
        moves.append(int(rng.choice(legal(GAME, state))))
        core.play(GAME, state, moves[-1])
    names = tuple(player.name for player in pairing.players)
    return GameResult(pairing.match_id, pairing.group, pairing.seating, names, tuple(moves), final_scores(GAME, state))


def open_ledger(path, disk):
    ledger = Ledger(EventJournal(path, model="take_six"), model="take_six", game=GAME, disk=disk)
    ledger.load()
    return ledger


def ratings(ledger):
    return rate(ledger.evidence(SearchTerms()), anchor="random")


async def test_placements_are_rated_and_kept_over_restarts(tmp_path):
    rng, path = np.random.default_rng(8), tmp_path / "journal.jsonl"
    with Disk() as disk:
        ledger = open_ledger(path, disk)
        board = await ledger.open_match(TERMS, "ladder")
        pairings = list(board.open_pairings())
        for pairing in pairings[:7]:
            await ledger.record(played_at_random(pairing, rng))
        assert sum(one.games for one in ledger.evidence(SearchTerms())) == 6  # the second group is not complete
        for pairing in pairings[7:]:
            await ledger.record(played_at_random(pairing, rng))
        await ledger.close_match(TERMS.match_id, rated_groups=2)
        assert all(isinstance(one, Placement) for one in ledger.evidence(SearchTerms()))
        assert ledger.games_between("model:1", "random", SearchTerms()) == 12
        rated = ratings(ledger)
        for _ in range(2):  # the first restart sums the games up, the second reads the sums
            assert ratings(open_ledger(path, disk)) == rated
    assert path.read_text().count('"placed"') >= 2
    assert '"game"' not in path.read_text()


def test_sums_of_points_from_earlier_versions_still_count(tmp_path):
    path = tmp_path / "journal.jsonl"
    path.write_text(
        '{"event":"journal","schema_version":1,"model":"take_six"}\n'
        '{"event":"tally","first":"model:1","second":"random","points":8.5,"games":12}\n'
    )
    with Disk() as disk:
        ledger = open_ledger(path, disk)
    assert ledger.evidence(SearchTerms()) == [Tally("model:1", "random", 8.5, 12)]
    assert ledger.games_between("model:1", "random", SearchTerms()) == 12


async def test_results_with_different_searches_are_never_pooled(tmp_path):
    rng, path = np.random.default_rng(9), tmp_path / "journal.jsonl"
    searches = SearchTerms("puct", 4), SearchTerms("gumbel", 4)
    with Disk() as disk:
        ledger = open_ledger(path, disk)
        for groups, search in enumerate(searches, start=1):
            board = await ledger.open_match(replace(TERMS, search=search), "ladder")
            for pairing in board.open_pairings():
                await ledger.record(played_at_random(pairing, rng))
            await ledger.close_match(TERMS.match_id, rated_groups=groups)
        for _ in range(2):  # the first restart sums the games up, the second reads the sums
            assert [sum(one.games for one in ledger.evidence(search)) for search in searches] == [6, 12]
            assert [ledger.games_between("model:1", "random", search) for search in searches] == [6, 12]
            assert ledger.evidence(SearchTerms()) == []
            ledger = open_ledger(path, disk)


async def test_an_open_match_keeps_its_search_over_a_restart(tmp_path):
    path, search = tmp_path / "journal.jsonl", SearchTerms("gumbel", 8)
    with Disk() as disk:
        await open_ledger(path, disk).open_match(replace(TERMS, search=search), "gate")
        assert [board.terms.search for board in open_ledger(path, disk).boards("gate")] == [search]
    stated = path.read_text()
    path.write_text(stated.replace(',"root":"gumbel","leaves_per_game":8', ""))
    assert path.read_text() != stated
    with Disk() as disk:
        assert [board.terms.search for board in open_ledger(path, disk).boards("gate")] == [SearchTerms("puct", 1)]
