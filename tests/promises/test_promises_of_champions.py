"""P4 to P6: who may become champion, by which evidence, and who says so."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import signal
import subprocess
import sys

import pytest
from promise_tools import FOLDER, borrowed, ends

from zerofleet.contracts.gate_events import EVENTS, GameEnded, MatchOpened
from zerofleet.contracts.promotions import CandidateStatus
from zerofleet.errors import CorruptModel, InvalidRequest, StaleEpoch, Unavailable
from zerofleet.storage.crash_points import VARIABLE
from zerofleet.storage.model_store import DirectoryStore

gatekeeper_tests = borrowed("promise_gatekeeper", "gatekeeper/conftest.py")
MODEL = gatekeeper_tests.MODEL
VICTIM = FOLDER.parent / "gatekeeper/victim.py"

pytestmark = pytest.mark.slow


def decide(directory, crash_at="") -> subprocess.CompletedProcess[str]:
    """Let a gatekeeper process decide on version 2; it dies at a crash point, if one is given."""
    return subprocess.run(
        [sys.executable, str(VICTIM), str(directory)],
        capture_output=True,
        text=True,
        env={**os.environ, VARIABLE: crash_at},
        timeout=120,
        check=False,
    )


def test_p4_the_champion_is_always_a_complete_checked_and_tested_model_wherever_the_gatekeeper_dies(tmp_path):
    models = gatekeeper_tests.Models(tmp_path / "models")
    models.publish()
    models.publish()
    store = DirectoryStore(tmp_path / "models")
    store.write_champion(MODEL, 1, epoch=1, reason="first")

    def champion() -> int:
        pointed = store.champion(MODEL)
        assert store.verify(MODEL, pointed.version).version == pointed.version
        assert store.manifest_sha256(MODEL, pointed.version) == pointed.manifest_sha256
        return pointed.version

    # One match that dies again and again on its way; each next process goes on where the last one was.
    deaths = [
        ("gatekeeper_after_result:4", 1),
        ("store_before_champion", 1),
        ("store_after_champion_before_history", 2),
    ]
    for point, expected in deaths:
        died = decide(tmp_path, point)
        assert died.returncode == -signal.SIGKILL, died.stderr
        assert champion() == expected
    finished = decide(tmp_path)
    assert finished.returncode == 0, finished.stderr
    said = json.loads(finished.stdout.splitlines()[-1])
    assert (said["status"], said["champion"], champion()) == ("promoted", 2, 2)
    assert [one.version for one in store.history(MODEL)] == [1, 2]

    # Neither a damaged nor an incomplete version is ever pointed to.
    for harm in (models.damage, lambda version: (store.directory(MODEL, version) / "manifest.json").unlink()):
        version, _ = models.publish()
        harm(version)
        with pytest.raises(CorruptModel):
            store.write_champion(MODEL, version, epoch=100 + version, reason="forced")
        assert champion() == 2


async def test_p4_no_path_leads_to_a_champion_that_no_inference_server_has_loaded(tmp_path):
    models, inference = gatekeeper_tests.Models(tmp_path / "models"), gatekeeper_tests.FakeInference()
    incomplete = {
        "no files": {"files": {}},
        "no golden positions": {"golden": {"positions": 0, "states": "", "legal": "", "policy": "", "value": ""}},
        "a name no file can have": {"files": {"x" * 300: {"sha256": "", "size": 0}}},
    }
    async with opened(tmp_path, models, inference) as gate:
        inference.away = True
        for changes in incomplete.values():
            version, _ = models.publish()
            await gate.client.submit(MODEL, version, models.edit(version, **changes))
            for without_self_test in (False, True):
                with pytest.raises(CorruptModel):
                    await gate.client.promote(MODEL, version, reason="", without_self_test=without_self_test)
            assert (await gate.settled(version)).status is CandidateStatus.BROKEN
        version, sha256 = models.publish()
        with pytest.raises(Unavailable, match="not self-tested"):
            await gate.client.promote(MODEL, version, reason="")
        await gate.client.submit(MODEL, version, sha256)
        await inference.asked_in_vain.get()
        assert models.store.champion(MODEL) is None
        inference.away = False
        assert (await gate.settled(version)).status is CandidateStatus.PROMOTED
        assert version in inference.served
        following, _ = models.publish()
        inference.away = True
        with pytest.raises(Unavailable, match="not self-tested"):
            await gate.client.promote(MODEL, following, reason="")
        assert models.store.champion(MODEL).version == version


async def test_p5_promotion_follows_its_test_and_duplicated_late_or_forged_results_change_nothing(tmp_path):
    outcomes = []
    for directory, spoil in ((tmp_path / "clean", None), (tmp_path / "spoilt", spoiled)):
        models = gatekeeper_tests.Models(directory / "models")
        first, second = models.publish(), models.publish()
        inference = gatekeeper_tests.FakeInference(stubborn={1})  # the champion plays badly
        journal = directory / "gatekeeper" / "journal.jsonl"
        async with opened(directory, models, inference) as gate:
            await gate.client.promote(MODEL, first[0], reason="")
            await gate.client.submit(MODEL, *second)
            await gate.until(lambda gate=gate: any(len(board.results()) >= 6 for board in gate.ledger.boards("gate")))
        if spoil is not None:
            journal.write_bytes(spoil(journal.read_bytes()))
        async with opened(directory, models, inference) as gate:
            decided = await gate.settled(second[0])
            assert decided.status.settled
            with pytest.raises(InvalidRequest):  # another content under the same number
                await gate.client.submit(MODEL, second[0], "0" * 64)
        late = journal.read_bytes() if spoil is None else spoiled(journal.read_bytes())
        journal.write_bytes(late)  # results that arrive when the match is over
        async with opened(directory, models, inference) as gate:
            outcomes.append((gate.ledger.candidate(second[0]), gate.pointer.champion.version))
    assert outcomes[0] == outcomes[1]
    candidate, champion = outcomes[0]
    assert (candidate.status, champion) == (CandidateStatus.PROMOTED, 2)
    rule = gatekeeper_tests.make_settings(tmp_path).gate
    assert candidate.match.log_likelihood_ratio >= math.log((1 - rule.beta) / rule.alpha)


def opened(directory, models, inference):
    settings = gatekeeper_tests.make_settings(directory)
    return gatekeeper_tests.running(settings, models, inference)


def spoiled(content: bytes) -> bytes:
    """Return a journal with every result twice more, out of order, and with results of games that were never arranged."""
    lines = content.splitlines()
    events = [EVENTS.validate_json(line) for line in lines]
    games = [event for event in events if isinstance(event, GameEnded)]
    forged = []
    for event in games:
        turned = tuple(-score for score in event.scores)
        forged += [
            event.model_copy(update={"scores": turned}),  # the other one won
            event.model_copy(update={"group": 10_000 + event.group, "scores": turned}),  # a pair beyond the match
            event.model_copy(update={"players": event.players[::-1], "scores": turned}),  # seats exchanged
            event.model_copy(update={"match_id": "gate/9/9/9"}),  # a match nobody opened
        ]
    began = [event for event in events if isinstance(event, MatchOpened)]
    extra = [*games[::-1], *forged, *games, *began]
    return b"".join(line + b"\n" for line in [*lines, *(EVENTS.dump_json(event) for event in extra)])


async def test_p6_at_most_one_gatekeeper_can_promote_even_if_another_is_suspended_during_its_replacement(tmp_path):
    models = gatekeeper_tests.Models(tmp_path / "models")
    version, _ = models.publish()
    models.store.write_champion(MODEL, version, epoch=1, reason="first")
    start = borrowed("promise_crashes", "gatekeeper/test_crashes.py").start
    sleeper, announced = await start(tmp_path, ZEROFLEET_ADDRESS="127.0.0.1:0")
    refused = await start_refused(tmp_path)
    assert b"already; stop it before starting another" in refused

    # The first one is stopped as a paused virtual machine is; its lock is lost, as on a disk whose server restarted.
    sleeper.send_signal(signal.SIGSTOP)
    (tmp_path / "models" / MODEL / ".gatekeeper.lock").unlink()
    (tmp_path / "gatekeeper.json").unlink()
    successor, elsewhere = await start(tmp_path, ZEROFLEET_ADDRESS="127.0.0.1:0")
    newer = [models.publish()[0] for _ in range(2)]
    client = gatekeeper_tests.GatekeeperClient
    async with client(elsewhere["address"]) as chosen:
        await chosen.promote(MODEL, newer[0], reason="by the successor", without_self_test=True)
    pointed = models.store.champion(MODEL)
    sleeper.send_signal(signal.SIGCONT)
    with contextlib.suppress(StaleEpoch, Unavailable):
        async with client(announced["address"]) as stale:
            await stale.promote(MODEL, newer[1], reason="by the sleeper", without_self_test=True)
    assert models.store.champion(MODEL) == pointed
    assert await ends(sleeper) != 0  # it noticed, and ended
    async with client(elsewhere["address"]) as chosen:
        await chosen.promote(MODEL, newer[1], reason="by the successor again", without_self_test=True)
    assert models.store.champion(MODEL).version == newer[1]
    epochs = [one.epoch for one in models.store.history(MODEL)]
    assert epochs == sorted(set(epochs))
    successor.terminate()
    await successor.communicate()
    assert successor.returncode == 0


async def start_refused(directory) -> bytes:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gatekeeper", "--run-dir", str(directory), "--game", MODEL, "--preset", "tiny"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    _, errors = await process.communicate()
    assert process.returncode == 2
    return errors
