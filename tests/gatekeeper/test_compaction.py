"""Compaction of the gatekeeper's journal while it runs: the size is bounded, and no failure or kill loses an event."""

import asyncio
import signal

import pytest
from compacting_victim import ACCEPTED
from killed_process import MODEL, run

from games.core import make
from gatekeeper.disk import Disk
from gatekeeper.ledger import Ledger
from zerofleet.contracts.gate_events import GameEnded, MatchClosed
from zerofleet.contracts.promotions import CandidateStatus
from zerofleet.errors import StaleEpoch
from zerofleet.storage.files import atomic_publish
from zerofleet.storage.gate_journal import JOURNAL_FILE, EventJournal
from zerofleet.strength.gate_record import read_record
from zerofleet.strength.matches import GameResult, MatchTerms, Player, SequentialTest, scoreboard
from zerofleet.strength.ratings import Sprt
from zerofleet.testing.gate_matches import sample_match

GAME = make(MODEL)
BOUND_BYTES = 4_000


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr("gatekeeper.ledger.COMPACTION_BYTES", BOUND_BYTES)


def loaded(directory, disk, require_held=lambda: None):
    journal = EventJournal(directory / JOURNAL_FILE, model=MODEL, require_held=require_held)
    ledger = Ledger(journal, model=MODEL, game=GAME, disk=disk)
    ledger.load()
    return ledger


def match(version, *, status=CandidateStatus.REJECTED):
    about = {"match_id": f"gate/{version}/1/1", "version": version, "opponent": 1, "groups": 4, "status": status}
    return sample_match(GAME, SequentialTest(Sprt(0.0, 200.0, 0.05, 0.05)), **about)


async def play(ledger, version, status=CandidateStatus.REJECTED):
    """Commit the events of a match with its verdict; a match without one stays open."""
    players = (Player.model(version), Player.model(1))
    terms = MatchTerms(f"gate/{version}/1/1", GAME, players, seed=version, opening_plies=1, max_groups=4)
    await ledger.submit(version, "ab")
    await ledger.open_match(terms, "gate")
    for event in match(version):
        if isinstance(event, GameEnded):
            await ledger.record(GameResult(**event.model_dump(exclude={"event"})))
    if status is not None:
        await ledger.set_status(version, status, reason="as it was decided")
        await ledger.close_match(terms.match_id, rated_groups=4)


async def submit_all(ledger, versions):
    for version in versions:
        await ledger.submit(version, f"{version:064x}")


def state(record):
    return list(record.present())


def size_bytes(directory):
    return (directory / JOURNAL_FILE).stat().st_size


@pytest.mark.slow
async def test_a_running_gatekeeper_bounds_its_journal_and_keeps_its_state(tmp_path):
    with Disk() as disk:
        ledger = loaded(tmp_path, disk)
        sizes = []
        for version in range(2, 12):
            await play(ledger, version)
            sizes.append(size_bytes(tmp_path))
        await play(ledger, 12, status=None)
        assert (
            max(sizes)
            < 3 * BOUND_BYTES
            < sum(len(event.model_dump_json()) for version in range(2, 12) for event in match(version))
        )
        assert len(ledger.boards("gate")[0].results()) == 8
        assert state(read_record(tmp_path, MODEL, GAME)) == state(ledger.gate) == state(loaded(tmp_path, disk).gate)


async def test_each_compaction_keeps_the_events_that_were_written_before_it(tmp_path, monkeypatch):
    written, lost = [], []

    def append(self, event, real=EventJournal.append):
        real(self, event)
        written.append(event.version)

    def rewrite(self, events, real=EventJournal.rewrite):
        real(self, events)
        lost.append(set(written) - set(read_record(tmp_path, MODEL, GAME).candidates))

    with Disk() as disk:
        ledger = loaded(tmp_path, disk)
        monkeypatch.setattr(EventJournal, "append", append)
        monkeypatch.setattr(EventJournal, "rewrite", rewrite)
        await asyncio.gather(*(ledger.submit(version, f"{version:064x}") for version in range(1, 200)))
    assert lost
    assert not set().union(*lost)
    assert sorted(read_record(tmp_path, MODEL, GAME).candidates) == written == list(range(1, 200))


def fail(*_, confirm=None):
    raise OSError(28, "No space left on device")


FAILURES = {
    "before the write": fail,
    "before the replacement": lambda path, content, confirm: atomic_publish(path, content, confirm=fail),
    "before the sync of the directory": lambda path, content, confirm: fail(atomic_publish(path, content)),
}


@pytest.mark.slow
@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
async def test_a_compaction_that_fails_loses_nothing_and_is_tried_again(tmp_path, monkeypatch, failure):
    failed, version = [], 2

    def fail_once(path, content, confirm):
        publish = atomic_publish if failed else failure
        failed.append(path)
        publish(path, content, confirm=confirm)

    with Disk() as disk:
        ledger = loaded(tmp_path, disk)
        monkeypatch.setattr("zerofleet.storage.journal.atomic_publish", fail_once)
        while len(failed) < 2:
            await play(ledger, version)
            version += 1
            assert state(read_record(tmp_path, MODEL, GAME)) == state(ledger.gate)
        assert size_bytes(tmp_path) < 3 * BOUND_BYTES


@pytest.mark.slow
@pytest.mark.parametrize("point", ["gate_journal_before_replacement:2", "gate_journal_after_replacement:2"])
def test_a_kill_within_a_compaction_loses_no_accepted_version(tmp_path, point):
    killed = run("compacting_victim", tmp_path, point)  # the first pass is that of the start
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    accepted = [int(line) for line in killed.stdout.splitlines()]
    assert 0 < len(accepted) < ACCEPTED
    assert set(accepted) <= set(read_record(tmp_path, MODEL, GAME).candidates)
    assert run("compacting_victim", tmp_path).returncode == 0
    assert len(read_record(tmp_path, MODEL, GAME).candidates) == ACCEPTED


async def test_a_compaction_of_a_gatekeeper_that_was_replaced_stops_it(tmp_path):
    def require_held():
        if is_replaced and list(tmp_path.glob("*.tmp")):  # the compacted journal is written and has not replaced the other
            raise StaleEpoch("another gatekeeper has it")

    is_replaced = []
    with Disk() as disk:
        ledger = loaded(tmp_path, disk, require_held)
        is_replaced.append(True)
        lost = asyncio.ensure_future(ledger.until_lost())
        with pytest.raises(StaleEpoch):
            await submit_all(ledger, range(1, 200))
        with pytest.raises(StaleEpoch, match="this one stops"):
            await lost
    assert state(read_record(tmp_path, MODEL, GAME)) == state(ledger.gate)


def test_games_of_closed_matches_are_not_replayed_at_a_start(tmp_path, monkeypatch):
    closed, reopened = match(2), match(3)
    still_open = [event for event in reopened if not isinstance(event, MatchClosed)]
    EventJournal(tmp_path / JOURNAL_FILE, model=MODEL).rewrite([*closed, *reopened, *still_open])
    replayed, replay = [], scoreboard._require_scores
    monkeypatch.setattr(scoreboard, "_require_scores", lambda *about: replayed.append(about[2]) or replay(*about))
    with Disk() as disk:
        ledger = loaded(tmp_path, disk)
    assert [result.match_id for result in replayed] == ["gate/3/1/1"] * 8
    assert state(ledger.gate) == state(read_record(tmp_path, MODEL, GAME))
