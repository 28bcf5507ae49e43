"""A stopped run of a size that takes days to play, made in minutes from the files of a short real one.

    python -m benchmarks.large_run --source runs/connect_four-laptop --target runs/large --games 1000000

Games are the stored games of the source in turn, each with a uid, a time, a worker and versions of its own; versions are the
files of a version of the source with other weights; lines of the gate's journal are those of its matches under other numbers;
rows of the metrics are its rows at other times. All are written by the product's own writers.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from games.core import make
from zerofleet.contracts import gate_events as events
from zerofleet.contracts.manifests import Manifest
from zerofleet.contracts.naming import model_name
from zerofleet.contracts.promotions import CandidateStatus, MatchReport
from zerofleet.contracts.records import decode_record
from zerofleet.contracts.wire import records_pb2 as pb
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.gate_journal import JOURNAL_FILE, EventJournal
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.storage.run_paths import RunPaths
from zerofleet.storage.runs import read_header

__all__ = ["Growth", "Sizes", "make_large_run"]

TEMPLATES = 5_000
BATCH = 2_000  # games of one write
WORKERS = 8
GAMES_PER_MATCH = 200
RUNGS = ("random", "mcts:50", "alpha_beta:2", "alpha_beta:4", "mcts:800")
GAMES_PER_RUNG = 4
ROW_EVERY_S = 10
REPORT = MatchReport(1, 110, 30, 60, (10, 10, 30, 20, 30), 0.625, 0.56, 0.69, 2.95)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of a run."""

    games: int = 1_000_000
    versions: int = 300
    rated: int = 300
    """Newest versions that meet the rungs of the ladder."""
    rows: int = 100_000
    """Rows of each of the two files of metrics."""
    matches: int = 200
    """Matches of the gate whose games the journal holds."""


def make_large_run(source: Path, target: Path, sizes: Sizes) -> None:
    """Make the run directory `target`, which is new, from the run directory `source`."""
    origin, made = RunPaths(source), RunPaths(target)
    made.root.mkdir(parents=True)
    for file in (origin.header, origin.experiment):
        shutil.copy(file, made.root)
    header = read_header(source)
    model = model_name(make(header.game, **header.parameters))
    began_ms = int(header.created_at.timestamp() * 1000)
    with GameLog.open(origin.replay, writer=False) as log:
        records = [decode_record(logged.payload) for logged in itertools.islice(log.scan(), TEMPLATES)]
    with GameLog.open(made.replay, writer=True) as log:
        games = _games(records, sizes, began_ms)
        while batch := list(itertools.islice(games, BATCH)):
            log.append(batch)
    _publish(DirectoryStore(origin.models), DirectoryStore(made.models), model, sizes.versions)
    played = [record for record in records if len(record.moves) > 1]
    EventJournal(made.gatekeeper / JOURNAL_FILE, model=model).rewrite(_events(played, sizes))
    _write_metrics(origin, made, sizes.rows, began_ms / 1000)


class Growth:
    """Growth of a run directory, as that of a live run: rows of metrics, games, and games of an open match."""

    def __init__(self, paths: RunPaths) -> None:
        self._paths = paths
        self._log = GameLog.open(paths.replay, writer=True)
        self._record = decode_record(self._log.get(self._log.end_index - 1).payload)
        self._names = ("trainer", "run")
        self._rows = {
            name: (paths.metrics / f"{name}.jsonl").read_bytes().splitlines(keepends=True)[-1] for name in self._names
        }
        self._match_id = f"watch/growth/{time.time_ns()}"
        self._group = 0
        self._journal = self._paths.gatekeeper / JOURNAL_FILE
        _append(self._journal, _dump(_opened(self._match_id, "gate", ("model:2", "model:1"), 1 << 20)))

    def __enter__(self) -> Growth:
        return self

    def __exit__(self, *_: object) -> None:
        self._log.close()

    def grow(self) -> None:
        """Add one of everything."""
        for name in self._names:
            _append(self._paths.metrics / f"{name}.jsonl", self._rows[name])
        record = self._record
        record.uid = hashlib.blake2b(f"{self._match_id}/{self._group}".encode(), digest_size=16).hexdigest()
        self._log.append([(record.uid, record.SerializeToString())])
        _append(self._journal, _dump(_ended(self._match_id, self._group, (0, 1), ("model:2", "model:1"), record)))
        self._group += 1


def _append(path: Path, line: bytes) -> None:
    with path.open("ab") as file:
        file.write(line)


def _dump(event: events.Event) -> bytes:
    return events.EVENTS.dump_json(event) + b"\n"


def _games(records: Sequence[pb.GameRecord], sizes: Sizes, began_ms: int) -> Iterator[tuple[str, bytes]]:
    """Yield games with their uids; versions ascend over the course of the run."""
    for number in range(sizes.games):
        record, version = records[number % len(records)], 1 + number * sizes.versions // sizes.games
        record.uid = hashlib.blake2b(f"large/{number}".encode(), digest_size=16).hexdigest()
        record.worker_id = f"worker-{number % WORKERS}"
        record.finished_at_ms = began_ms + number * sizes.rows * ROW_EVERY_S * 1000 // sizes.games
        record.seat_versions[:] = [version] * len(record.seat_versions)
        for move in record.searched:
            move.model_version = version
        yield record.uid, record.SerializeToString()


def _publish(source: DirectoryStore, target: DirectoryStore, model: str, versions: int) -> None:
    """Store and promote the versions: files of the champion, with weights that differ in one number."""
    champion = source.champion(model)
    if champion is None:
        raise SystemExit("the source has no champion yet: let it run for a minute more")
    home, manifest = source.directory(model, champion.version), source.manifest(model, champion.version)
    files = {name: (home / name).read_bytes() for name in manifest.files}
    for version in range(1, versions + 1):
        weights = files["weights.safetensors"][:-4] + version.to_bytes(2, "little") + bytes(2)
        made = _manifest(manifest, version)
        stored = target.publish(model, {**files, "weights.safetensors": weights}, made)
        target.write_champion(model, stored, epoch=version, reason=f"promoted at once, measured against {version - 1}")


def _manifest(manifest: Manifest, version: int) -> Manifest:
    return replace(manifest, parent_version=version - 1, train_steps=1000 * version, games_seen=3000 * version)


def _events(records: Sequence[pb.GameRecord], sizes: Sizes) -> Iterator[events.Event]:
    """Yield the journal: every version is submitted and promoted, some are measured, some meet the rungs."""
    with_match = {round(place * sizes.versions / sizes.matches) + 1 for place in range(sizes.matches)}
    played = itertools.cycle(records)
    for version in range(1, sizes.versions + 1):
        yield events.Submitted(version=version, manifest_sha256=f"{version:064x}")
        measured = version > 1 and version in with_match
        status = CandidateStatus.PROMOTED if measured else CandidateStatus.UNPROVEN
        report = replace(REPORT, champion_version=version - 1) if measured else None
        decided = events.StatusChanged(version=version, status=status, reason="stronger", report=report)
        if measured:
            match = list(_match(f"watch/{version}/{version - 1}", "gate", (version, version - 1), played, GAMES_PER_MATCH))
            yield from (*match[:-1], decided, match[-1])
        else:
            yield decided
        for rung in RUNGS if version > sizes.versions - sizes.rated else ():
            yield from _match(f"ladder/{version}/{rung}", "ladder", (version, rung), played, GAMES_PER_RUNG)


def _match(
    match_id: str,
    purpose: Literal["gate", "ladder"],
    players: tuple[int, int | str],
    played: Iterator[pb.GameRecord],
    games: int,
) -> Iterator[events.Event]:
    first, second = (f"model:{one}" if isinstance(one, int) else one for one in players)
    groups = games // 2
    yield _opened(match_id, purpose, (first, second), groups)
    for group in range(groups):
        for seating, names in (((0, 1), (first, second)), ((1, 0), (second, first))):
            yield _ended(match_id, group, seating, names, next(played))
    yield events.MatchClosed(match_id=match_id, rated_groups=groups)


def _opened(match_id: str, purpose: Literal["gate", "ladder"], players: tuple[str, str], groups: int) -> events.MatchOpened:
    return events.MatchOpened(
        match_id=match_id,
        purpose=purpose,
        first=players[0],
        second=players[1],
        seed=1,
        opening_plies=4,
        max_groups=groups,
    )


def _ended(
    match_id: str, group: int, seating: tuple[int, int], names: tuple[str, str], record: pb.GameRecord
) -> events.GameEnded:
    return events.GameEnded(
        match_id=match_id,
        group=group,
        seating=seating,
        players=names,
        moves=tuple(record.moves),
        scores=tuple(record.scores),
    )


def _write_metrics(source: RunPaths, target: RunPaths, rows: int, began_s: float) -> None:
    """Write rows of trainer and supervisor: those of the source in turn, at other times and with growing counts."""
    target.metrics.mkdir()
    for name in ("trainer", "run"):
        known = [json.loads(line) for line in (source.metrics / f"{name}.jsonl").read_text().splitlines()][3:]
        with (target.metrics / f"{name}.jsonl").open("w") as file:
            for place, row in zip(range(rows), itertools.cycle(known)):
                file.write(json.dumps(_row(row, name, place, began_s)) + "\n")


def _row(row: dict[str, object], name: str, place: int, began_s: float) -> dict[str, object]:
    at_s = began_s + ROW_EVERY_S * place
    if name == "trainer":
        return {**row, "time": at_s, "step": 3 * place, "charts/games_ever": 10.0 * place}
    at = datetime.fromtimestamp(at_s, UTC).isoformat(timespec="seconds")
    return {**row, "at": at, "elapsed_s": float(ROW_EVERY_S * place), "step": 3 * place, "games_stored": 10 * place}


def main() -> None:
    """Make the run of the command line."""
    parser = argparse.ArgumentParser(description="Make a large run from a short one.")
    parser.add_argument("--source", type=Path, required=True, help="stopped run directory with a champion")
    parser.add_argument("--target", type=Path, required=True, help="new run directory")
    for name, default in (("games", 1_000_000), ("versions", 300), ("rated", 300), ("rows", 100_000), ("matches", 200)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    began_s = time.process_time()
    sizes = Sizes(given.games, given.versions, given.rated, given.rows, given.matches)
    make_large_run(given.source, given.target, sizes)
    sys.stdout.write(f"made {given.target} in {time.process_time() - began_s:.0f} s of processor time\n")


if __name__ == "__main__":
    main()
