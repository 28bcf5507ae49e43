import asyncio
import shutil

import pytest

from gatekeeper.service import open_gatekeeper
from gatekeeper.settings import GatekeeperSettings
from zerofleet.contracts.gate_events import GameEnded
from zerofleet.contracts.promotions import CandidateStatus
from zerofleet.errors import ConfigurationError, RunDirectoryError, StaleEpoch, Unavailable
from zerofleet.storage.gate_journal import JOURNAL_FILE, EventJournal
from zerofleet.storage.runs import RunPaths

MODEL = "tic_tac_toe"


def stop_after(gate, games, version):
    """Return a test whether the gate match has as many results, or is over."""
    return lambda: (
        gate.ledger.candidate(version).status.settled
        or sum(len(board.results()) for board in gate.ledger.boards("gate")) >= games
    )


def games_of(directory):
    """Return the moves of each game in a gatekeeper's journal."""
    journal = EventJournal(RunPaths(directory).gatekeeper / JOURNAL_FILE, model=MODEL)
    return {(event.group, event.seating): event.moves for event in journal.stream() if isinstance(event, GameEnded)}


def differing(some, others):
    """Return how many of the games of both have other moves."""
    both = some.keys() & others.keys()
    assert both
    return sum(some[game] != others[game] for game in both)


async def test_a_match_resumes_after_a_restart_with_the_same_result(tmp_path, models, inference, run_gate):
    inference.stubborn = {1}
    for _ in range(2):
        models.publish()
    sha256 = models.store.manifest_sha256(MODEL, 2)
    outcomes, stops = [], 0
    for directory, stride in ((tmp_path / "straight", 1_000), (tmp_path / "interrupted", 3)):
        shutil.copytree(models.store.root, directory / "models")
        games = 0
        while True:
            async with run_gate(directory) as gate:
                if games == 0:
                    await gate.client.promote(MODEL, 1, reason="")
                    await gate.client.submit(MODEL, 2, sha256)
                games += stride
                await gate.until(stop_after(gate, games, 2))
                stops += 1
                candidate = gate.ledger.candidate(2)
            if candidate.status.settled:
                break
        outcomes.append(candidate)
    assert outcomes[0] == outcomes[1]
    assert outcomes[0].status is CandidateStatus.PROMOTED
    assert stops > 4


@pytest.mark.parametrize("changed", [{"simulations": 2}, {"search": "root=gumbel"}, {"leaves_per_game": 4}], ids=str)
async def test_a_match_resumed_with_other_settings_keeps_those_it_began_with(tmp_path, models, inference, run_gate, changed):
    inference.stubborn = {1}
    for _ in range(2):
        models.publish()
    offered = 2, models.store.manifest_sha256(MODEL, 2)
    games, verdicts = {}, {}
    for name, first, later in (("kept", {}, {}), ("changed", {}, changed), ("other", changed, changed)):
        shutil.copytree(models.store.root, tmp_path / name / "models")
        async with run_gate(tmp_path / name, **first) as gate:
            await gate.client.promote(MODEL, 1, reason="")
            await gate.client.submit(MODEL, *offered)
            await gate.until(stop_after(gate, 1, 2))
            assert not gate.ledger.candidate(2).status.settled
        async with run_gate(tmp_path / name, **later) as gate:
            verdicts[name] = await gate.settled(2)
        games[name] = games_of(tmp_path / name)
    assert verdicts["changed"] == verdicts["kept"]
    assert differing(games["changed"], games["kept"]) == 0
    assert differing(games["other"], games["kept"]) > 0  # else the settings would not matter


async def test_candidates_and_champion_survive_a_restart(open_gate, inference):
    inference.stubborn = {2}
    async with open_gate() as gate:
        await gate.offer()
        await gate.offer()
        before = await gate.client.models(MODEL)
    async with open_gate() as gate:
        assert await gate.client.models(MODEL) == before
        assert (await gate.offer()).version == 3


async def test_a_queued_candidate_is_decided_after_a_restart(open_gate, inference):
    async with open_gate() as gate:
        await gate.offer()
        inference.away = True
        await gate.client.submit(MODEL, *gate.models.publish())
    inference.away = False
    async with open_gate() as gate:
        assert (await gate.settled(2)).status is CandidateStatus.REJECTED


async def test_a_restarted_inference_server_gets_its_versions_again(open_gate, inference):
    async with open_gate(mode="off") as gate:
        await gate.offer()
        await gate.offer()
    inference.served = []
    inference.changes.clear()
    async with open_gate(mode="off") as gate:
        gate.gatekeeper.serving.champion_changed()
        await gate.offer()
    assert inference.changes[0] == (1, 2)


async def test_a_second_gatekeeper_is_refused_without_an_effect_on_the_first(open_gate):
    async with open_gate() as gate:
        await gate.offer()
        with pytest.raises(Unavailable, match="already; stop it"):
            async with open_gate():
                pass
        assert (await gate.offer()).status is CandidateStatus.REJECTED


async def test_a_gatekeeper_replaced_while_suspended_promotes_no_version_and_stops(tmp_path, models, open_gate):
    async def sleep_and_wake_up():
        async with open_gate(mode="off") as sleeper:
            await sleeper.offer()
            (tmp_path / "models" / MODEL / ".gatekeeper.lock").unlink()
            async with open_gate(mode="off") as successor:
                await successor.offer()
            with pytest.raises(StaleEpoch):
                await sleeper.client.promote(MODEL, sleeper.models.publish()[0], reason="good morning")
            await asyncio.Event().wait()

    with pytest.raises(BaseExceptionGroup) as ended:
        await sleep_and_wake_up()
    assert ended.group_contains(StaleEpoch, match="another gatekeeper promotes")
    assert models.store.champion(MODEL).version == 2


async def test_a_damaged_journal_is_named_in_the_error_at_the_start(tmp_path, open_gate):
    async with open_gate() as gate:
        await gate.offer()
    path = tmp_path / "gatekeeper" / "journal.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"submitted"', b'"smitten"'))
    with pytest.raises(RunDirectoryError, match=r"journal.jsonl line 2"):
        async with open_gate():
            pass


async def test_a_port_in_use_is_a_clear_error(tmp_path, models, inference, open_gate):
    async with open_gate() as gate:
        other = GatekeeperSettings(run_dir=tmp_path / "other", game=MODEL, preset="tiny", address=gate.gatekeeper.address)
        with pytest.raises(ConfigurationError, match="cannot listen"):
            async with open_gatekeeper(other, evaluator=inference, control=inference):
                pass


async def test_the_gatekeeper_listens_on_the_socket_of_its_run_directory(tmp_path, inference):
    settings = GatekeeperSettings(run_dir=tmp_path, game=MODEL, preset="tiny")
    async with open_gatekeeper(settings, evaluator=inference, control=inference) as gatekeeper:
        assert gatekeeper.address == f"unix:{tmp_path}/sockets/gatekeeper.sock"
    assert settings.state_dir == tmp_path / "gatekeeper"
