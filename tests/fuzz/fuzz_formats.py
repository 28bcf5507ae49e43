"""Targets of stored files, bodies, packets and texts: one line for each format."""

from __future__ import annotations

import io
import json
import random
import tempfile
import zipfile
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from unittest import mock

from fuzz_files import OLD, ROOT, file_target, game_targets, old, text_target
from fuzz_models import MODEL
from fuzz_mutation import mutate_bytes, mutate_json, mutate_json_lines, mutate_lines, mutate_toml
from fuzz_targets import Target, reader
from pydantic import ValidationError

from games.core import Game, make
from games.positions import read_moves
from gatekeeper import lease
from gatekeeper.disk import Disk
from gatekeeper.ledger import Ledger
from inference_server.rest.answers import HttpRefusal
from inference_server.rest.infer_bodies import read_infer
from trainer.checkpoint import unpack
from trainer.checkpoint_files import load_latest, save
from trainer.checkpoint_parts import stored
from trainer.run_figures import RunFigures
from zerofleet.agents import make_agent
from zerofleet.agents.exact.solver.book import load_book
from zerofleet.agents.model.search_options import parse_search
from zerofleet.cli.bench.learn import report as bench_learn
from zerofleet.cli.reproduce.results import StageResults
from zerofleet.contracts import model_checks
from zerofleet.contracts.manifests import StoredFile, to_json
from zerofleet.contracts.shared_memory import PROTOCOL, Hello
from zerofleet.library.accuracy_record import Accuracy, Figures, MeasuredAccuracy, Result, ShareValue, read_accuracy
from zerofleet.library.metrics import read_metrics
from zerofleet.library.planning.costs import read_costs
from zerofleet.presets.experiment import read_experiment
from zerofleet.presets.theses.stages import MatchStage, Meeting, fingerprint, read_stage
from zerofleet.storage.backups.contents import CONTENTS_FILE, BackupContents, read_contents
from zerofleet.storage.gate_journal import EventJournal
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.storage.model_store.base import next_version, read_manifest
from zerofleet.storage.model_store.location import parse_location
from zerofleet.storage.run_paths import RunPaths
from zerofleet.storage.runs import read_header
from zerofleet.storage.streams import open_stream
from zerofleet.strength.gate_record import read_record
from zerofleet.strength.ladders import LadderBook
from zerofleet.strength.ladders.rungs import parse_rungs
from zerofleet.strength.ladders.standings import standings
from zerofleet.strength.matches import Player, read_openings
from zerofleet.strength.position_file import read_positions
from zerofleet.strength.tournaments import ResultJournal, TournamentTerms, tabulate
from zerofleet.strength.tournaments.play import restored
from zerofleet.supervisor.child import Child, ChildPlan
from zerofleet.supervisor.leftovers import end_leftovers
from zerofleet.supervisor.overview import latest_numbers, live_service
from zerofleet.testing.models import sample_archive

__all__ = ["format_targets"]


def format_targets(root: Path) -> list[Target]:
    """Return every target of this module; their files are in `root`, of a directory each."""
    game = make(MODEL)
    return [
        *game_targets(root),
        *_models(root),
        *_journals(root, game),
        *_settings(root, game),
        *_figures(root),
        *_in_memory(root, game),
    ]


def _journals(root: Path, game: Game) -> list[Target]:
    """Return the files that a service or command continues."""
    lines = mutate_json_lines
    return [
        file_target(root, "run.json", old("run/run.json"), mutate_json, lambda path: read_header(path.parent)),
        file_target(
            root, "gatekeeper/journal.jsonl", old("run/gatekeeper/journal.jsonl"), lines, lambda path: _gate(path, game)
        ),
        file_target(root, "lease.json", old(f"run/models/{MODEL}/gatekeeper_lease.json"), mutate_json, lease._read),
        file_target(root, "ladder/games.jsonl", old("run/ladder/games.jsonl"), lines, lambda path: _ladder(path, game)),
        file_target(
            root, "tournament/results.jsonl", old("tournament/results.jsonl"), lines, lambda path: _tournament(path, game)
        ),
        file_target(root, "announce/services/trainer.json", old("announce/gatekeeper.json"), mutate_json, _announced),
        file_target(root, f"backup/{CONTENTS_FILE}", _backup(), mutate_json, lambda path: read_contents(path.parent)),
    ]


def _settings(root: Path, game: Game) -> list[Target]:
    """Return the files that people write, or take from elsewhere."""
    four = make("connect_four")
    return [
        file_target(root, "experiment.toml", _experiments(), mutate_toml, lambda path: read_experiment(path).build_preset()),
        file_target(root, "costs.json", _COSTS.read_bytes(), mutate_json, lambda path: read_costs(path, game=four)),
        file_target(
            root, "positions.txt", b"# moves\na1 b2\na1 b2 c3\n-\n", mutate_lines, lambda path: read_positions(game, path)
        ),
        file_target(
            root, "openings.txt", old("openings_connect_four.txt"), mutate_lines, lambda path: read_openings(four, path)
        ),
        file_target(root, "solver.book", old("connect_four_4x5.book"), mutate_bytes, load_book),
    ]


def _figures(root: Path) -> list[Target]:
    """Return the files with results."""
    bench = json.dumps({"format": bench_learn.FORMAT, "seeds": [{"seed": 1}]}).encode()
    trained, lines = old("run/metrics/trainer.jsonl"), mutate_json_lines
    return [
        file_target(root, "metrics/trainer.jsonl", trained, lines, lambda path: read_metrics(path.parent)),
        file_target(root, "metrics/run.jsonl", old("run/metrics/run.jsonl"), lines, _followed),
        file_target(root, "accuracy.jsonl", _accuracy(), lines, lambda path: read_accuracy(RunPaths(path.parent))),
        file_target(root, "bench_learn.json", bench, mutate_json, bench_learn.read_result),
        file_target(root, "reproduction/results/stage.json", _stage_result(), mutate_json, _read_stage_result),
    ]


def _in_memory(root: Path, game: Game) -> list[Target]:
    """Return bodies, packets and texts."""
    counts, stage = (_CHECKPOINT / "checkpoint.json").read_bytes(), _STAGE.model_dump_json().encode()
    hello, of_http = Hello(PROTOCOL, MODEL, 2, 4096).pack(), (HttpRefusal,)
    return [
        reader("checkpoint.json", [counts], _read_counts, mutate=mutate_json),
        reader("checkpoint tensors", [_STATE], partial(_read_tensors, root), mutate=mutate_bytes),
        reader("stage", [stage], read_stage, mutate=mutate_json, also=(ValidationError,)),
        reader("HTTP body of infer", [_infer_body()], lambda data: read_infer(data, None), mutate=mutate_json, also=of_http),
        reader("hello of shared memory", [hello], Hello.unpack, mutate=mutate_json),
        text_target("moves", "a1 b2 c3", lambda text: read_moves(game, text)),
        text_target("agent", "uct:20,c=1.5", lambda text: make_agent(text, game) if len(text) < 40 else None),
        text_target("search options", "c=2.5", parse_search),
        text_target("rungs", "random,alpha_beta:3,uct:20", parse_rungs),
        text_target("model store", "s3://bucket/prefix", parse_location),
        text_target("stream address", "sqlite:////runs/games.db?idle_s=3", lambda text: open_stream(text, name="games")),
    ]


# -- models


def _models(root: Path) -> list[Target]:
    home, weights = f"run/models/{MODEL}", model_checks._check_weights
    archives = [old(f"{home}/1/model.pt"), sample_archive()]
    history, lines = old(f"{home}/champion_history.jsonl"), mutate_json_lines

    def at(path: Path) -> DirectoryStore:
        return DirectoryStore(path.parents[1])

    return [
        file_target(root, "manifest.json", old(f"{home}/1/manifest.json"), mutate_json, _read_manifest),
        file_target(root, "model.pt", archives, _mutate_archive, lambda path: model_checks._check_archive(path, 1 << 20)),
        file_target(root, "weights.safetensors", old(f"{home}/1/weights.safetensors"), mutate_bytes, weights),
        file_target(
            root,
            f"champion/{MODEL}/champion.json",
            old(f"{home}/champion.json"),
            mutate_json,
            lambda path: at(path).champion(MODEL),
        ),
        file_target(
            root, f"history/{MODEL}/champion_history.jsonl", history, lines, lambda path: at(path).history(MODEL, whole=True)
        ),
        reader(".last_version", [b"3\n"], lambda data: next_version(data, [1, 2, 3], where="models"), mutate=mutate_bytes),
    ]


def _read_manifest(path: Path) -> None:
    model_checks.require_contents(read_manifest(path.read_bytes(), MODEL, 1, where=str(path)), where=str(path))


def _mutate_archive(rng: random.Random, data: bytes) -> bytes:
    """Return an archive with damaged bytes, or one of valid checksums with a damaged entry."""
    if rng.random() < 0.3:
        return mutate_bytes(rng, data)
    out = io.BytesIO()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
            entries = old.infolist()
            at = rng.randrange(len(entries))
            for number, entry in enumerate(entries):
                content = old.read(entry)
                new.writestr(entry.filename, mutate_bytes(rng, content) if number == at else content)
    except Exception:
        return mutate_bytes(rng, data)
    return out.getvalue()


# -- files of a run


def _followed(path: Path) -> None:
    """Read the history of a run as the overview, the figures of a run and the trainer's follower read it."""
    read_metrics(path.parent)
    latest_numbers(RunPaths(path.parent.parent))
    content = path.read_bytes()
    path.write_bytes(b"")
    follower = RunFigures(path)
    path.write_bytes(content)
    follower.latest()


def _announced(path: Path) -> None:
    """Read an announce file as overview, supervisor and the next run read it."""
    live_service(path)
    end_leftovers(RunPaths(path.parent.parent))
    child = Child(ChildPlan("trainer", "trainer", (), {}, path, Path(), 1.0), say=lambda *_: None)
    with mock.patch.object(Child, "pid", 15935):
        child.look()


def _ladder(path: Path, game: Game) -> None:
    with LadderBook(path.parents[1], game, model=MODEL) as book:
        for match in book.matches(seed=0, simulations=4, opening_plies=2):
            book.board(match, 1)


def _gate(path: Path, game: Game) -> None:
    """Read the journal as commands and pages read it, then as a gatekeeper that starts, which compacts it."""
    standings(read_record(path.parent, MODEL, game), [])
    with Disk() as disk:
        Ledger(EventJournal(path, model=MODEL), model=MODEL, game=game, disk=disk).load()


def _tournament(path: Path, game: Game) -> None:
    terms = _terms(game)
    with ResultJournal(path.parent, terms.said()) as journal:
        tabulate(terms, restored(terms, journal.results))


def _terms(game: Game) -> TournamentTerms:
    players = tuple(map(Player.named, ("random", "greedy", "alpha_beta:2")))
    return TournamentTerms(game=game, players=players, games=8, seed=3, opening_plies=2, simulations=100)


def _experiments() -> list[bytes]:
    return [path.read_bytes() for path in sorted((ROOT / "examples").glob("*.toml"))]


def _backup() -> bytes:
    files = {"run.json": StoredFile(sha256="0" * 64, size=172)}
    return to_json(BackupContents(created_at_ms=1, source="runs/a", files=files))


_SHARE = ShareValue(count=1, of=2, share=0.5, low=0.1, high=0.9)


def _accuracy() -> bytes:
    figures = Figures(kept=_SHARE, decided=_SHARE, exact=_SHARE, mean_lost=0.5)
    accuracy = Accuracy(
        player="model:1", game=MODEL, parameters={}, seed=1, unit="points", first_ply=0, simulations=0,
        results=(Result(source="random", mode="policy alone", all=figures, plies=()),),
    )  # fmt: skip
    measured = MeasuredAccuracy(version=1, measured_at=datetime(2026, 1, 1, tzinfo=UTC), accuracy=accuracy)
    return measured.model_dump_json().encode() + b"\n"


# -- checkpoints, stages, bodies


_COSTS = ROOT / "zerofleet" / "library" / "planning" / "example_costs.json"
_CHECKPOINT = OLD / "run" / "replay" / "checkpoints" / "00000004"
_STATE = (_CHECKPOINT / "state.safetensors").read_bytes()


def _read_counts(data: bytes) -> None:
    unpack(data, _STATE, where="checkpoint")


def _read_tensors(root: Path, data: bytes) -> None:
    """Read a checkpoint of changed tensors below a valid hash."""
    counts = json.loads((_CHECKPOINT / "checkpoint.json").read_bytes())
    counts["tensors"] = asdict(stored(data))
    with tempfile.TemporaryDirectory(dir=root) as directory:
        save(Path(directory), json.dumps(counts).encode(), data)
        load_latest(Path(directory), unpack)


_STAGE = MatchStage(id="a", seed=1, game=MODEL, meetings=(Meeting(name="m", subject="uct:20", opponent="random", games=2),))


def _stage_result() -> bytes:
    return json.dumps({"format": 1, "fingerprint": fingerprint(_STAGE), "seconds": 1.0, "tallies": []}).encode()


def _read_stage_result(path: Path) -> None:
    path.replace(path.parent / "a.json")
    StageResults(path.parents[1]).tallies(_STAGE)


def _infer_body() -> bytes:
    inputs = [
        {"name": "state__0", "datatype": "UINT8", "shape": [1, 4], "data": [0, 0, 0, 0]},
        {"name": "legal__1", "datatype": "INT16", "shape": [1, 9], "data": list(range(9))},
    ]
    return json.dumps({"id": "a", "inputs": inputs, "outputs": [{"name": "policy"}], "parameters": {"priority": 2}}).encode()
