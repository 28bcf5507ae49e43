"""Targets of stored files, stream entries, packets and texts: one line of `format_targets` for each format.

Inputs are written to files in a directory in memory where a reader takes a path.
"""

from __future__ import annotations

import asyncio
import io
import json
import random
import shutil
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

from fuzz_models import MODEL, archive
from fuzz_mutation import Mutation, mutate_bytes, mutate_json, mutate_json_lines, mutate_lines, mutate_toml
from fuzz_messages import mutate_message
from fuzz_targets import Target, reader
from pydantic import ValidationError

from games.core import Game, make
from games.positions import read_moves
from gatekeeper import lease
from inference_server.rest.answers import HttpRefusal
from inference_server.rest.infer_bodies import read_infer
from trainer.checkpoint import unpack
from trainer.checkpoint_parts import stored
from trainer.run_figures import RunFigures
from zerofleet.agents import make_agent
from zerofleet.agents.exact.solver.book import load_book
from zerofleet.agents.model.search_options import parse_search
from zerofleet.cli.bench.learn import report as bench_learn
from zerofleet.cli.reproduce.results import StageResults
from zerofleet.contracts import model_checks
from zerofleet.contracts.manifests import StoredFile, to_json
from zerofleet.contracts.records import decode_record, validate
from zerofleet.contracts.shared_memory import PROTOCOL, Hello
from zerofleet.contracts.wire import records_pb2
from zerofleet.errors import RecordRejected
from zerofleet.library.accuracy_record import Accuracy, Figures, MeasuredAccuracy, Result, ShareValue, read_accuracy
from zerofleet.library.metrics import read_metrics
from zerofleet.library.planning.costs import read_costs
from zerofleet.presets.experiment import read_experiment
from zerofleet.presets.theses.stages import MatchStage, Meeting, fingerprint, read_stage
from zerofleet.storage.backups.contents import CONTENTS_FILE, BackupContents, read_contents
from zerofleet.storage.game_log import GameLog, format
from zerofleet.storage.gate_journal import EventJournal
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.storage.model_store.location import parse_location
from zerofleet.storage.model_store.base import next_version, read_manifest
from zerofleet.storage.run_paths import RunPaths
from zerofleet.storage.runs import read_header
from zerofleet.storage.streams import open_stream
from zerofleet.strength.ladders import LadderBook
from zerofleet.strength.ladders.rungs import parse_rungs
from zerofleet.strength.matches import Player, read_openings
from zerofleet.strength.position_file import read_positions
from zerofleet.strength.tournaments import ResultJournal, TournamentTerms
from zerofleet.supervisor.child import Child, ChildPlan
from zerofleet.supervisor.leftovers import end_leftovers
from zerofleet.supervisor.overview import _latest, live_service

__all__ = ["format_targets"]

ROOT = Path(__file__).parents[2]
OLD = ROOT / "tests" / "golden" / "old_formats"
RECORDS = ("tic_tac_toe", "connect_four", "rock_paper_scissors", "take_six", "tic_tac_toe_afterstates", "connect_four_resigned")


def format_targets(root: Path) -> list[Target]:
    """Return every target of this module; their files are in `root`, of a directory each."""
    run = OLD / "run"
    models = run / "models" / MODEL
    game = make(MODEL)
    return [
        *_records(root),
        *_models(root),
        _file(root, "run.json", (run / "run.json").read_bytes(), mutate_json, lambda path: read_header(path.parent)),
        _file(root, "experiment.toml", _experiments(), mutate_toml, lambda path: read_experiment(path).build_preset()),
        _file(root, "costs.json", _COSTS.read_bytes(), mutate_json, lambda path: read_costs(path, game="connect_four")),
        _file(root, "positions.txt", b"# moves\na1 b2\na1 b2 c3\n-\n", mutate_lines, lambda path: read_positions(game, path)),
        _file(root, "openings.txt", (OLD / "openings_connect_four.txt").read_bytes(), mutate_lines,
              lambda path: read_openings(make("connect_four"), path)),
        _file(root, "solver.book", (OLD / "connect_four_4x5.book").read_bytes(), mutate_bytes, load_book),
        _file(root, "gate_journal.jsonl", (run / "gatekeeper" / "journal.jsonl").read_bytes(), mutate_json_lines,
              lambda path: EventJournal(path, model=MODEL).read()),
        _file(root, "lease.json", (models / "gatekeeper_lease.json").read_bytes(), mutate_json, lease._read),
        _file(root, "ladder/games.jsonl", (run / "ladder" / "games.jsonl").read_bytes(), mutate_json_lines,
              lambda path: _ladder(path, game)),
        _file(root, "tournament/results.jsonl", (OLD / "tournament" / "results.jsonl").read_bytes(), mutate_json_lines,
              lambda path: ResultJournal(path.parent, _terms(game)).close()),
        _file(root, "metrics/trainer.jsonl", (run / "metrics" / "trainer.jsonl").read_bytes(), mutate_json_lines,
              lambda path: read_metrics(path.parent)),
        _file(root, "metrics/run.jsonl", (run / "metrics" / "run.jsonl").read_bytes(), mutate_json_lines,
_followed),
        _file(root, "announce/services/trainer.json", (OLD / "announce" / "gatekeeper.json").read_bytes(), mutate_json, _announced),
        _file(root, f"backup/{CONTENTS_FILE}", _backup(), mutate_json, lambda path: read_contents(path.parent)),
        _file(root, "games.db", (run / "games.db").read_bytes(), mutate_bytes, _stream),
        _file(root, "bench_learn.json", json.dumps({"format": bench_learn.FORMAT, "seeds": [{"seed": 1}]}).encode(), mutate_json,
              bench_learn.read_result),
        _file(root, "accuracy.jsonl", _accuracy(), mutate_json_lines, lambda path: read_accuracy(RunPaths(path.parent))),
        _file(root, "reproduction/results/stage.json", _stage_result(), mutate_json, _read_stage_result),
        reader("checkpoint.json", [(_CHECKPOINT / "checkpoint.json").read_bytes()], _read_counts, mutate=mutate_json),
        reader("checkpoint tensors", [_STATE], _read_tensors, mutate=mutate_bytes),
        reader("stage", [_STAGE.model_dump_json().encode()], read_stage, mutate=mutate_json, also=(ValidationError,)),
        reader("HTTP body of infer", [_infer_body()], lambda data: read_infer(data, None), mutate=mutate_json, also=(HttpRefusal,)),
        reader("hello of shared memory", [Hello(PROTOCOL, MODEL, 2, 4096).pack()], Hello.unpack, mutate=mutate_json),
        _text("moves", "a1 b2 c3", lambda text: read_moves(game, text)),
        _text("agent", "uct:20,c=1.5", lambda text: make_agent(text, game) if len(text) < 40 else None),
        _text("search options", "c=2.5,repetition=draw", parse_search),
        _text("rungs", "random,alpha_beta:3,uct:20", parse_rungs),
        _text("model store", "s3://bucket/prefix", parse_location),
        _text("stream address", "sqlite:////runs/games.db?idle_s=3", lambda text: open_stream(text, name="games")),
    ]  # fmt: skip


Read = Callable[[Path], Any]


def _file(root: Path, name: str, seeds: bytes | list[bytes], mutate: Mutation, read: Read) -> Target:
    """Return the target of a reader of a file called `name`, which may have a folder before it."""
    path = root / name.partition(".")[0].replace("/", "-") / name
    path.parent.mkdir(parents=True, exist_ok=True)

    def call(data: bytes) -> None:
        path.unlink(missing_ok=True)  # not over the old content, which a reader may have mapped
        path.write_bytes(data)
        read(path)

    return reader(f"file {Path(name).parent.name + '/' if '/' in name else ''}{path.name}", seeds if isinstance(seeds, list) else [seeds],
                  call, mutate=mutate)  # fmt: skip


def _text(name: str, seed: str, read: Callable[[str], Any]) -> Target:
    """Return the target of a reader of text that a user or a setting gives."""
    return reader(f"text {name}", [seed.encode()], lambda data: read(data.decode(errors="replace")), mutate=mutate_bytes)


# -- games


def _records(root: Path) -> list[Target]:
    records = [(OLD / "records" / f"{name}.pb").read_bytes() for name in RECORDS]
    log = OLD / "game_log"
    return [
        reader("game record", records, lambda data: validate(decode_record(data)),
               mutate=lambda rng, data: mutate_message(rng, data, records_pb2.GameRecord)),
        _file(root, "log/00000000.games", (log / "00000000.games").read_bytes(), _mutate_log, _read_log),
        _file(root, "index/00000000.index", (log / "00000000.index").read_bytes(), mutate_bytes, _read_log),
    ]  # fmt: skip


def _mutate_log(rng: random.Random, data: bytes) -> bytes:
    """Return a game log with damaged bytes, or with changed games below valid checksums."""
    if rng.random() < 0.5:
        return mutate_bytes(rng, data)
    head = data[: format.HEADER.size]
    entries = []
    for entry in format.walk(data, offset=len(head), next_index=0):
        payload = data[entry.offset + format.ENTRY.size : entry.end]
        if rng.random() < 0.5:
            payload = mutate_message(rng, payload, records_pb2.GameRecord)
        entries.append(format.pack_entry(entry.number, entry.uid, payload))
    return head + b"".join(entries)


def _read_log(path: Path) -> None:
    """Open the log, as a reader and as the writer that repairs it, and read every game; damaged games are skipped."""
    if path.suffix == ".index":  # of a full file, with another behind it
        for name in ("00000000.games", "00000001.games", "00000001.index", "00000002.games"):
            if not (path.parent / name).exists():
                shutil.copy(OLD / "game_log" / name, path.parent / name)
    for writer in (False, path.suffix == ".games"):
        with GameLog.open(path.parent, writer=writer) as log:
            for game in log.scan():
                log.find(game.uid)
            for index in range(log.start_index, log.end_index):
                with suppress(RecordRejected):
                    validate(decode_record(log.get(index).payload))


def _stream(path: Path) -> None:
    """Consume, settle and count the games of a damaged database."""

    async def use() -> None:
        stream = open_stream(f"sqlite:///{path}", name="games")
        try:
            taken = await stream.consume(consumer="fuzz", limit=4, block_s=0.0)
            for delivery in taken:
                await stream.dead_letter(delivery, reason="fuzz")
            await stream.dead()
            await stream.stats()
        finally:
            await stream.aclose()

    with ThreadPoolExecutor(1) as thread:  # its own loop, inside that of the campaign
        thread.submit(asyncio.run, use()).result()
    for name in (f"{path}-wal", f"{path}-shm", f"{path}-journal"):
        Path(name).unlink(missing_ok=True)


# -- models


def _models(root: Path) -> list[Target]:
    models = OLD / "run" / "models" / MODEL
    return [
        _file(root, "manifest.json", (models / "1" / "manifest.json").read_bytes(), mutate_json, _read_manifest),
        _file(root, "model.pt", [(models / "1" / "model.pt").read_bytes(), archive()], _mutate_archive,
              lambda path: model_checks._check_archive(path, 1 << 20)),
        _file(root, "weights.safetensors", (models / "1" / "weights.safetensors").read_bytes(), mutate_bytes, model_checks._check_weights),
        _file(root, f"champion/{MODEL}/champion.json", (models / "champion.json").read_bytes(), mutate_json,
              lambda path: DirectoryStore(path.parents[1]).champion(MODEL)),
        _file(root, f"history/{MODEL}/champion_history.jsonl", (models / "champion_history.jsonl").read_bytes(), mutate_json_lines,
              lambda path: DirectoryStore(path.parents[1]).history(MODEL, whole=True)),
        reader(".last_version", [b"3\n"], lambda data: next_version(data, [1, 2, 3], where="models"), mutate=mutate_bytes),
    ]  # fmt: skip


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
    except Exception:  # noqa: BLE001 - a seed that was kept because it is no archive
        return mutate_bytes(rng, data)
    return out.getvalue()


# -- files of a run


def _followed(path: Path) -> None:
    """Read the history of a run as the overview, the figures of a run and the trainer's follower read it."""
    read_metrics(path.parent)
    _latest(RunPaths(path.parent.parent))
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
        for match in book.matches(simulations=4, opening_plies=2):
            book.board(match, 1)


def _terms(game: Game) -> dict[str, object]:
    players = tuple(map(Player.named, ("random", "greedy", "alpha_beta:2")))
    return TournamentTerms(game=game, players=players, games=8, seed=3, opening_plies=2, simulations=100).said()


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


def _read_tensors(data: bytes) -> None:
    """Read a checkpoint of changed tensors below a valid hash."""
    counts = json.loads((_CHECKPOINT / "checkpoint.json").read_bytes())
    counts["tensors"] = asdict(stored(data))
    unpack(json.dumps(counts).encode(), data, where="checkpoint")


_STAGE = MatchStage(
    id="a", seed=1, game=MODEL, meetings=(Meeting(name="m", subject="uct:20", opponent="random", games=2),)
)


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
