"""Targets of files: a directory in memory for each, and those of games: records, game log, stream."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from fuzz_messages import mutate_message
from fuzz_mutation import Mutation, mutate_bytes
from fuzz_targets import Target, reader

from zerofleet.contracts.records import decode_record, validate
from zerofleet.contracts.wire import records_pb2
from zerofleet.errors import RecordRejected
from zerofleet.storage.game_log import GameLog, format
from zerofleet.storage.game_log.format import Table
from zerofleet.storage.game_log.sorted_uids import SortedFile
from zerofleet.storage.streams import open_stream

__all__ = ["OLD", "ROOT", "file_target", "game_targets", "old", "text_target"]

ROOT = Path(__file__).parents[2]
OLD = ROOT / "tests" / "golden" / "old_formats"
RECORDS = ("tic_tac_toe", "connect_four", "rock_paper_scissors", "take_six", "tic_tac_toe_afterstates", "connect_four_resigned")

Read = Callable[[Path], Any]


def old(name: str) -> bytes:
    """Return the content of a file that an earlier version wrote."""
    return (OLD / name).read_bytes()


def file_target(root: Path, name: str, seeds: bytes | list[bytes], mutate: Mutation, read: Read) -> Target:
    """Return the target of a reader of a file called `name`, which may have a folder before it."""
    path = root / name.partition(".")[0].replace("/", "-") / name
    path.parent.mkdir(parents=True, exist_ok=True)

    def call(data: bytes) -> None:
        path.unlink(missing_ok=True)  # not over the old content, which a reader may have mapped
        path.write_bytes(data)
        read(path)

    shown = "/".join(Path(name).parts[-2:])
    return reader(f"file {shown}", seeds if isinstance(seeds, list) else [seeds], call, mutate=mutate)


def text_target(name: str, seed: str, read: Callable[[str], Any]) -> Target:
    """Return the target of a reader of text that a user or a setting gives."""
    return reader(f"text {name}", [seed.encode()], lambda data: read(data.decode(errors="replace")), mutate=mutate_bytes)


def game_targets(root: Path) -> list[Target]:
    """Return records, the game log and the database of a stream."""
    records = [(OLD / "records" / f"{name}.pb").read_bytes() for name in RECORDS]
    log = OLD / "game_log"
    return [
        reader("game record", records, lambda data: validate(decode_record(data)), mutate=_mutate_record),
        file_target(root, "log/00000000.games", (log / "00000000.games").read_bytes(), _mutate_log, _read_log),
        file_target(root, "index/00000000.index", (log / "00000000.index").read_bytes(), mutate_bytes, _read_log),
        file_target(root, "uids/00000000.uids", _sorted_uids(root, log), mutate_bytes, _read_log),
        file_target(root, "games.db", old("run/games.db"), mutate_bytes, _stream),
    ]


def _mutate_record(rng: random.Random, data: bytes) -> bytes:
    return mutate_message(rng, data, records_pb2.GameRecord)


def _mutate_log(rng: random.Random, data: bytes) -> bytes:
    """Return a game log with damaged bytes, or with changed games below valid checksums."""
    if rng.random() < 0.5:
        return mutate_bytes(rng, data)
    head = data[: format.HEADER.size]
    entries = []
    for entry in format.walk(data, offset=len(head), next_index=0):
        payload = data[entry.offset + format.ENTRY.size : entry.end]
        if rng.random() < 0.5:
            payload = _mutate_record(rng, payload)
        entries.append(format.pack_entry(entry.number, entry.uid, payload))
    return head + b"".join(entries)


def _sorted_uids(root: Path, log: Path) -> bytes:
    """Return the sorted uids of the first file of a log."""
    path, table = root / "seed.uids", Table.load(log / "00000000.index")
    assert table is not None
    SortedFile.of(path, table).close()
    return path.read_bytes()


def _read_log(path: Path) -> None:
    """Open the log, as a reader and as the writer that repairs it, and read every game; damaged games are skipped."""
    if path.suffix != ".games":  # of a full file, with another behind it
        for name in ("00000000.games", "00000000.index", "00000001.games", "00000001.index", "00000002.games"):
            if not (path.parent / name).exists():
                shutil.copy(OLD / "game_log" / name, path.parent / name)
    for writer in (False, path.suffix != ".index"):
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
