"""Games of more than two seats on the gatekeeper's ladder: placements, kept over restarts."""

import numpy as np

from games import core
from games.core import make
from games.positions import final_scores, legal, replay
from gatekeeper.disk import Disk
from gatekeeper.ledger import Ledger
from zerofleet.storage.gate_journal import EventJournal
from zerofleet.strength.matches import GameResult, MatchTerms, Player
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
    return rate(ledger.gate.evidence(), anchor="random")


async def test_placements_are_rated_and_kept_over_restarts(tmp_path):
    rng, path = np.random.default_rng(8), tmp_path / "journal.jsonl"
    with Disk() as disk:
        ledger = open_ledger(path, disk)
        board = await ledger.open_match(TERMS, "ladder")
        pairings = list(board.open_pairings())
        for pairing in pairings[:7]:
            await ledger.record(played_at_random(pairing, rng))
        assert sum(one.games for one in ledger.gate.evidence()) == 6  # the second group is not complete
        for pairing in pairings[7:]:
            await ledger.record(played_at_random(pairing, rng))
        await ledger.close_match(TERMS.match_id, rated_groups=2)
        assert all(isinstance(one, Placement) for one in ledger.gate.evidence())
        assert ledger.games_between("model:1", "random") == 12
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
    assert ledger.gate.evidence() == [Tally("model:1", "random", 8.5, 12)]
    assert ledger.games_between("model:1", "random") == 12
