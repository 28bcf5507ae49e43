"""Old verdicts: their number is bounded, those that matter stay, and a kill leaves all of them or those that are kept."""

import os
import subprocess
import sys

import pytest

from games.core import make
from zerofleet.contracts.gate_events import MatchOpened, StatusChanged, Submitted
from zerofleet.contracts.promotions import CandidateStatus
from zerofleet.errors import Unavailable
from zerofleet.storage.crash_points import VARIABLE
from zerofleet.storage.gate_journal import JOURNAL_FILE, EventJournal
from zerofleet.strength.gate_record import read_record

MODEL = "tic_tac_toe"
GAME = make(MODEL)
OPEN = MatchOpened(
    match_id="gate/4/2/1", purpose="gate", first="model:4", second="model:2", seed=1, opening_plies=2, max_groups=5
)


@pytest.fixture(autouse=True)
def _few(monkeypatch):
    monkeypatch.setattr("gatekeeper.ledger.MOST_SETTLED", 3)
    monkeypatch.setattr("gatekeeper.ledger.DROPPED_AT_ONCE", 2)


def write(directory, count, statuses=(), *more):
    """Write a journal of `count` rejected candidates; `statuses` are those of other ones, by version."""
    events = []
    for version in range(1, count + 1):
        status = dict(statuses).get(version, CandidateStatus.REJECTED)
        events.append(Submitted(version=version, manifest_sha256="0" * 64))
        events.append(StatusChanged(version=version, status=status, reason="as it was decided"))
    EventJournal(directory / "gatekeeper" / JOURNAL_FILE, model=MODEL).rewrite([*events, *more])


def stored(directory):
    return read_record(directory / "gatekeeper", MODEL, GAME)


async def test_the_oldest_verdicts_are_dropped_and_those_that_matter_stay(tmp_path, models, open_gate):
    for _ in range(12):
        models.publish()
    models.store.write_champion(MODEL, 2, epoch=5, reason="first")
    models.store.write_champion(MODEL, 3, epoch=6, reason="second")
    statuses = {2: CandidateStatus.PROMOTED, 3: CandidateStatus.UNPROVEN, 6: CandidateStatus.TRIAL}
    write(tmp_path, 12, statuses.items(), OPEN)
    async with open_gate(mode="off", by_hand_only=True) as gate:
        assert await gate.gatekeeper.pruner.drop_verdicts() == [1, 5, 7, 8, 9]
        assert await gate.gatekeeper.pruner.drop_verdicts() == []
        kept = {candidate.version: candidate.status for candidate in gate.ledger.candidates()}
        assert list(kept) == [2, 3, 4, 6, 10, 11, 12]  # champions, open match, trial, the newest three
        assert stored(tmp_path).candidates.keys() == kept.keys()
        listed, _ = await gate.client.models(MODEL)
        assert [candidate.version for candidate in listed] == list(kept)
        before = (tmp_path / "gatekeeper" / JOURNAL_FILE).read_bytes()
        answer = await gate.client.submit(MODEL, 9, models.store.manifest_sha256(MODEL, 9))
        assert (answer.status, "promote it by hand" in answer.reason) == (CandidateStatus.SUPERSEDED, True)
        assert (tmp_path / "gatekeeper" / JOURNAL_FILE).read_bytes() == before  # nothing is queued again
        assert (await gate.client.promote(MODEL, 9, reason="by hand")).version == 9
        answer = await gate.client.submit(MODEL, 9, models.store.manifest_sha256(MODEL, 9))
        assert (answer.status, answer.reason) == (CandidateStatus.PROMOTED, "by hand")
    async with open_gate(mode="off", by_hand_only=True) as gate:  # after a restart, which compacts the journal
        assert gate.ledger.gate.dropped_through == 9
        answer = await gate.client.submit(MODEL, 8, models.store.manifest_sha256(MODEL, 8))
        assert answer.status is CandidateStatus.SUPERSEDED


async def test_few_verdicts_beyond_the_bound_wait_until_there_are_more(tmp_path, models, open_gate):
    models.publish()
    models.store.write_champion(MODEL, 1, epoch=5, reason="first")
    write(tmp_path, 5, {1: CandidateStatus.PROMOTED}.items())
    async with open_gate(mode="off") as gate:
        assert await gate.gatekeeper.pruner.drop_verdicts() == []
        assert len(gate.ledger.candidates()) == 5


async def test_a_full_disk_keeps_every_verdict(tmp_path, models, open_gate, monkeypatch):
    models.publish()
    models.store.write_champion(MODEL, 1, epoch=5, reason="first")
    write(tmp_path, 4)
    async with open_gate(mode="off", by_hand_only=True) as gate:
        monkeypatch.setattr("gatekeeper.ledger.MOST_SETTLED", 1)
        append = EventJournal.append
        monkeypatch.setattr(EventJournal, "append", _refuse)
        with pytest.raises(Unavailable):
            await gate.gatekeeper.pruner.drop_verdicts()
        assert len(gate.ledger.candidates()) == 4
        monkeypatch.setattr(EventJournal, "append", append)
        assert await gate.gatekeeper.pruner.drop_verdicts() == [2, 3]


def _refuse(self, event):
    raise Unavailable("No space left on device")


GATEKEEPER = """
import runpy
import gatekeeper.ledger as ledger
ledger.MOST_SETTLED, ledger.DROPPED_AT_ONCE = 3, 2
runpy.run_module("gatekeeper", run_name="__main__", alter_sys=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("point", "kept"), [("gatekeeper_before_drop", range(1, 10)), ("gatekeeper_after_drop", [1, 7, 8, 9])])
def test_a_gatekeeper_killed_while_it_drops_verdicts_leaves_all_or_those_that_are_kept(tmp_path, models, point, kept):
    models.publish()
    models.store.write_champion(MODEL, 1, epoch=5, reason="first")
    write(tmp_path, 9, {1: CandidateStatus.PROMOTED}.items())
    command = [sys.executable, "-c", GATEKEEPER, "--run-dir", str(tmp_path), "--game", MODEL, "--preset", "tiny"]
    done = subprocess.run(command, env={**os.environ, VARIABLE: point}, capture_output=True, timeout=250, check=False)
    assert done.returncode == -9, done.stderr
    record = stored(tmp_path)
    assert sorted(record.candidates) == sorted(record.hashes) == list(kept)
    assert record.candidates[9].reason == "as it was decided"
