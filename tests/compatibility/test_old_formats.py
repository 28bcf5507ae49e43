"""Files of an earlier version are read, continued and restored by this one, to the last number."""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from games.core import make
from games.positions import new_state
from gatekeeper.service import open_gatekeeper
from gatekeeper.settings import GatekeeperSettings
from inference_server.backend import TorchBackend
from selfplay_worker.shares import Shares
from trainer.history import FIGURES, HELD_OUT_MEASURES, open_history
from trainer.samples import extract
from trainer.settings import TrainerSettings
from trainer.start import open_training
from zerofleet.agents.exact.solver.book import load_book
from zerofleet.agents.exact.solver.connect_four import Solver
from zerofleet.contracts.model_checks import MODEL_FILE
from zerofleet.contracts.promotions import CandidateStatus
from zerofleet.contracts.records import decode_record, validate
from zerofleet.errors import RunDirectoryError
from zerofleet.evaluators.uniform import UniformEvaluator
from zerofleet.presets import TrainSettings
from zerofleet.rpc.gatekeeper_client import GatekeeperClient
from zerofleet.storage.backups import list_backups, restore_backup, verify_backup
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.storage.runs import RunDirectory
from zerofleet.storage.streams import open_stream
from zerofleet.strength.ladders import LadderBook
from zerofleet.strength.matches import Player, opening_line, read_openings
from zerofleet.strength.tournaments import ResultJournal, TournamentTerms, tabulate
from zerofleet.strength.tournaments.play import restored
from zerofleet.supervisor.child import Child, ChildPlan, ChildState
from zerofleet.testing import built_in_games

MODEL = "tic_tac_toe"
SEED = 20261122
NETWORK = {"blocks": 1, "channels": 8, "policy_channels": 2, "value_channels": 2, "value_hidden": 8}
TRAIN = {"min_samples": 100, "samples_per_candidate": 200, "candidate_growth": 0, "batch_size": 64, "window_min": 1000}
GATE = {"mode": "share", "share": 0.3, "max_pairs": 8, "simulations": 1500, "ladder_games": 2, "ladder_depth": 1}
MANIFESTS = ["04ac3458f0f08686", "3cecdd51055d2102", "a927e2ab0f4bbee0"]
RATINGS = [("model:1", 624), ("model:2", 0), ("random", 0), ("greedy", -624)]


class Serves:
    """Takes every version; nothing is evaluated through it."""

    async def serve(self, game_name, versions):
        del game_name, versions

    async def ready(self, game_name, version):
        return (game_name, version in (1, 2, 3)) == (MODEL, True)

    async def evaluations(self, game_name):
        return {(game_name, 1): 0}


def uids_digest(uids):
    return hashlib.sha256("\n".join(uids).encode()).hexdigest()[:16]


def samples_of(payload):
    return extract(validate(decode_record(payload)), TrainSettings())


def tree(root):
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in root.rglob("*")
        if path.is_file()
    }


def trainer_settings(run):
    return TrainerSettings(run_dir=run.root, game=MODEL, preset="tiny", network=NETWORK, train=TRAIN, seed=SEED)


def test_an_old_run_is_opened_and_keeps_its_seed(run):
    with RunDirectory.create_or_open(run.root, MODEL, {}, preset="tiny", seed=1) as opened:
        assert (opened.is_new, opened.header.seed, opened.header.rules_version) == (False, SEED, 1)
        assert opened.header.created_at.isoformat() == "2026-11-22T06:54:33.101672+00:00"
    with pytest.raises(RunDirectoryError, match="is a run of tic_tac_toe, not of connect_four"):
        RunDirectory.create_or_open(run.root, "connect_four", {})


@pytest.mark.slow
def test_every_stored_model_is_whole_and_answers_its_golden_positions(run, game):
    store, backend = DirectoryStore(run.models), TorchBackend("cpu", "float32")
    assert (store.models(), store.versions(MODEL)) == ([MODEL], [1, 2, 3])
    assert [store.manifest_sha256(MODEL, version)[:16] for version in (1, 2, 3)] == MANIFESTS
    for version, steps, games_seen in ((1, 0, 0), (2, 12, 32), (3, 24, 65)):
        manifest = store.verify(MODEL, version, game=game)
        assert (manifest.train_steps, manifest.games_seen, manifest.parent_version) == (steps, games_seen, version - 1)
        path = store.directory(MODEL, version) / MODEL_FILE
        module = backend.load(path, manifest, max_batch=1)  # refuses one that answers otherwise than its exporter
        states, legal_actions, policy, value = manifest.golden.arrays()
        assert len(states) == 8
        np.testing.assert_allclose(module.evaluate([states], [legal_actions])[0], policy, atol=1e-3)
        np.testing.assert_allclose(module.evaluate([states], [legal_actions])[1], value, atol=1e-5)


def test_the_champion_and_its_history_are_read_and_the_numbers_go_on(run):
    store = DirectoryStore(run.models)
    champion = store.champion(MODEL)
    assert (champion.version, champion.epoch, champion.exported_at_ms) == (2, 2, 0)
    assert champion.manifest_sha256 == store.manifest_sha256(MODEL, 2)
    assert [(past.version, past.epoch, past.reason) for past in store.history(MODEL)] == [
        (1, 1, "first champion"),
        (2, 2, "3 won, 4 drawn, 3 lost (50.0%), at least 30% wanted"),
    ]
    store.write_champion(MODEL, 3, epoch=3, reason="again", after=2)
    assert [past.version for past in store.history(MODEL)] == [1, 2, 3]


async def test_the_gatekeeper_knows_champion_candidates_open_match_and_ladder(run):
    settings = GatekeeperSettings(run_dir=run.root, game=MODEL, preset="tiny", address="127.0.0.1:0", gate=GATE)
    async with (
        open_gatekeeper(settings, evaluator=UniformEvaluator(2), control=Serves()) as gatekeeper,
        GatekeeperClient(gatekeeper.address) as client,
    ):
        candidates, champion = await client.models(MODEL)
        rungs = await client.ladder(MODEL)
        (board,) = gatekeeper.ledger.boards("gate")
        promoted = await client.promote(MODEL, 3, reason="by hand")
    assert [candidate.status for candidate in candidates] == [
        CandidateStatus.PROMOTED,
        CandidateStatus.PROMOTED,
        CandidateStatus.PLAYING,
    ]
    report = candidates[1].match
    assert (report.wins, report.draws, report.losses, report.pentanomial) == (3, 4, 3, (0, 0, 5, 0, 0))
    assert (champion.version, champion.epoch) == (2, 2)
    assert [(rung.name, rung.games, rung.anchored) for rung in rungs] == [
        ("random", 0, True),
        ("model:1", 10, False),
        ("model:2", 10, False),
    ]
    assert (board.terms.match_id, board.terms.seed, len(board.results())) == ("gate/3/2/2", 1109667112679109903, 2)
    assert (promoted.version, promoted.epoch) == (3, 3)


def test_every_stored_game_is_valid_and_encodes(run):
    with GameLog.open(run.replay, writer=False) as log:
        assert (len(log), log.damaged, uids_digest(log.uids())) == (69, 0, "af0b3ada7c37a43e")
        samples = [samples_of(logged.payload) for logged in log.scan()]
    assert sum(map(len, samples)) == 433
    assert (
        hashlib.sha256(b"".join(array.tobytes() for one in samples for array in one.arrays[:6])).hexdigest()[:16]
        == "b0bb4d81858dfcfd"
    )


def test_a_log_of_several_files_is_read_and_written_on(old):
    with GameLog.open(old("game_log"), writer=True, segment_bytes=4096) as log:
        assert [logged.uid for logged in log.scan()] == [f"{number:032x}" for number in range(1, 25)]
        assert log.append([(f"{24:032x}", b"again"), (f"{25:032x}", log.get(23).payload)]) == 1
        assert (log.end_index, log.damaged) == (25, 0)


@pytest.mark.slow
def test_training_goes_on_from_the_checkpoint(run, game):
    training = open_training(trainer_settings(run), game)
    try:
        learner = training.learner
        assert (learner.state.step, learner.state.samples_trained, learner.average.updates) == (24, 1536, 24)
        assert (len(training.replay.log), learner.window.total, training.accounts.candidate_version) == (69, 433, 3)
        weights = b"".join(tensor.numpy().tobytes() for tensor in learner.network.state_dict().values())
        assert hashlib.sha256(weights).hexdigest()[:16] == "02cb3fb93616c297"
        report = learner.step()
        assert not report.skipped
        assert report.total == pytest.approx(2.39345, abs=1e-3)
    finally:
        training.replay.close()


async def test_games_that_wait_in_the_stream_are_delivered_and_acknowledged(run):
    stream = open_stream(run.stream_url, name="games")
    try:
        deliveries = await stream.consume(consumer="trainer", limit=100, block_s=0)
        assert uids_digest(delivery.uid for delivery in deliveries) == "b5061112c211915a"
        assert sum(len(samples_of(delivery.payload)) for delivery in deliveries) == 65
        assert {delivery.deliveries for delivery in deliveries} == {1}
        await stream.acknowledge([delivery.entry_id for delivery in deliveries[:4]])
        await stream.dead_letter(deliveries[4], reason="none")
        await stream.publish("f" * 32, deliveries[5].payload)
        assert [new.uid for new in await stream.consume(consumer="trainer", limit=100, block_s=0)] == ["f" * 32]
        stats = await stream.stats()
        assert (stats.length, stats.pending, stats.dead) == (6, 6, 1)
    finally:
        await stream.aclose()


def test_the_history_of_training_goes_on_in_the_same_columns(run):
    history = open_history(run.metrics)
    history.write(99, {"losses/total": 0.5})
    history.close()
    header, *rows = csv.reader((run.metrics / "trainer.csv").read_text().splitlines())
    later = {"losses/reply", "charts/policy_entropy", "charts/illegal_mass"}  # in files of later runs alone
    later |= {f"charts/{name}" for name in HELD_OUT_MEASURES}
    columns = [name for name in FIGURES if name not in later]
    assert (header, len(rows), rows[0][1], rows[-1][1]) == (["time", "step", *columns], 7, "0", "99")
    lines = [json.loads(line) for line in (run.metrics / "trainer.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [0, 0, 11, 15, 19, 24, 99]


def test_the_book_of_the_ladder_has_every_game(run, game):
    with LadderBook(run.root, game, model=MODEL) as book:
        matches = book.matches(seed=0, simulations=4, opening_plies=2)
        assert {match.match_id: len(book.board(match, 1).results()) for match in matches} == {
            "ladder/random/greedy/0/2/0": 2,
            "ladder/model:2/random/4/2/0": 2,
            "ladder/model:1/random/4/2/0": 2,
            "ladder/model:1/greedy/4/2/0": 2,
            "ladder/model:2/greedy/4/2/0": 2,
            "ladder/model:2/model:1/4/2/0": 2,
        }
        assert [(rating.name, round(rating.elo)) for rating in book.ratings(matches)] == RATINGS


def test_a_tournament_that_was_played_to_its_end_has_the_same_table(old, game):
    players = tuple(map(Player.named, ("random", "greedy", "alpha_beta:2")))
    terms = TournamentTerms(game=game, players=players, games=8, seed=3, opening_plies=2, simulations=100)
    with ResultJournal(old("tournament"), terms.said()) as journal:
        boards = restored(terms, journal.results)
    assert (len(journal.results), all(board.exhausted for board in boards)) == (24, True)
    table = tabulate(terms, boards)
    assert [(row.name, row.games, row.share, round(row.elo)) for row in table.players] == [
        ("alpha_beta:2", 16, 0.875, 334),
        ("greedy", 16, 0.3125, 0),
        ("random", 16, 0.3125, 0),
    ]


def test_a_backup_is_restored_to_an_equal_tree(backup, tmp_path):
    assert list_backups(backup.parent) == [backup]
    contents = verify_backup(backup)
    restore_backup(backup, tmp_path / "again")
    restored_files = tree(tmp_path / "again")
    assert restored_files == {name: stored.sha256 for name, stored in contents.files.items()} == tree(backup / "files")
    assert (len(restored_files), contents.size_bytes) == (26, 313917)
    with RunDirectory.create_or_open(tmp_path / "again", MODEL, {}, preset="tiny") as run:
        assert run.header.seed == SEED


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "plies", "samples", "digest"),
    [
        ("abalone", 200, 20, "171f0f795c5e88a2"),
        ("chinese_checkers", 400, 20, "4790ad88bd1b4515"),
        ("chinese_checkers_rhombus", 400, 20, "b7b040e7c25528a1"),
        ("chinese_checkers_star37", 120, 20, "f86a22a46d9c3c1f"),
        ("connect_four", 22, 22, "56721cdd04542ce4"),
        ("othello", 60, 20, "c567f0dca0c39d27"),
        ("rock_paper_scissors", 200, 20, "d17c581417e3c0be"),
        ("take_six", 30, 30, "cd8b9fec312de696"),
        ("tic_tac_toe", 7, 7, "d12f18238ece1e66"),
        ("connect_four_resigned", 11, 11, "ce02c2aa97eb92a9"),
        ("tic_tac_toe_of_agents", 7, 7, "b72e5338dd027707"),
        ("tic_tac_toe_afterstates", 5, 0, "e3b0c44298fc1c14"),  # a game without a tree has no policy targets
    ],
)
def test_a_record_of_each_game_is_valid_and_encodes(old, name, plies, samples, digest):
    read = validate(decode_record(old("records").joinpath(f"{name}.pb").read_bytes()))
    assert name.startswith(read.game.spec().name)
    found = extract(read, TrainSettings())
    assert (len(read.movers), len(found)) == (plies, samples)
    assert hashlib.sha256(b"".join(array.tobytes() for array in found.arrays[:6])).hexdigest()[:16] == digest


def test_there_is_a_record_of_every_game_that_comes_with_the_product(old):
    assert {path.stem for path in old("records").iterdir()} >= set(built_in_games())


@pytest.mark.parametrize(("name", "number"), [("connect_four", 6), ("take_six", 4)])
def test_openings_are_read_and_written_alike(old, name, number):
    path, game = old(f"openings_{name}.txt"), make(name)
    openings = read_openings(game, path)
    assert len(openings) == number
    assert [opening_line(game, opening) for opening in openings] == path.read_text().splitlines()[1:]


@pytest.mark.slow
def test_an_opening_book_of_the_solver_is_read_and_used(old):
    book = load_book(old("connect_four_4x5.book"))
    assert (book.game, book.plies, len(book.scores)) == (make("connect_four", rows=4, columns=5), 4, 243)
    scored = Solver(book.game, book=book).scores(new_state(book.game))
    assert (scored.scores.tolist(), scored.nodes) == ([-1, 0, 0, 0, -1], 0)


@pytest.mark.parametrize(
    ("service", "pid", "port"),
    [("gatekeeper", 15935, 40409), ("inference_server", 15933, 41973), ("trainer", 15937, 32867), ("worker-0", 15939, 46659)],
)
def test_a_service_that_announced_itself_is_taken_for_ready(old, monkeypatch, service, pid, port):
    announced = old("announce") / f"{service}.json"
    child = Child(ChildPlan(service, service, (), {}, announced, Path(), 1.0), say=print)
    monkeypatch.setattr(Child, "pid", pid)
    child.look()
    assert (child.state, child.metrics_port) == (ChildState.READY, port)


def test_games_of_a_warm_start_that_were_played_are_not_played_again(old):
    shares = Shares(old("warm_start"), 8)
    assert (shares.finished, shares.take()) == (5, 5)
    shares.close()
