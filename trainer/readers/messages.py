"""Messages between a trainer and its processes for reading: JSON, and bytes beside it.

    settings ─► | entries ─► answers ◄─ | entries ─► ...

A process reads records of workers, which may be forged, so the trainer unpacks no objects from it: answers are JSON and
numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from games.core import Game, GameSpec, make
from games.positions import parameters_text
from trainer.readers.base import Entry, ReadGame
from trainer.samples import Samples
from zerofleet.errors import RecordRejected
from zerofleet.presets import TrainSettings
from zerofleet.presets.warm_start import WarmStartSettings, game_of

__all__ = ["Answers", "ReaderSettings", "receive_answers", "receive_entries", "send_answers", "send_entries"]


@dataclass(frozen=True, slots=True)
class ReaderSettings:
    """First message to a process: the games it reads and the samples it takes."""

    game: str
    parameters: dict[str, str]
    train: TrainSettings
    warm_start: WarmStartSettings

    @classmethod
    def of(cls, game: Game, train: TrainSettings, warm_start: WarmStartSettings) -> ReaderSettings:
        """Return the settings for a run of `game`."""
        return cls(game.spec().name, parameters_text(game), train, warm_start)

    def send(self, connection: Connection) -> None:
        """Send them. Raises `OSError` when the process is gone."""
        connection.send_bytes(_SETTINGS.dump_json(self))

    @classmethod
    def receive(cls, connection: Connection) -> ReaderSettings:
        """Receive them. Raises `EOFError` when the trainer is gone."""
        return _SETTINGS.validate_json(connection.recv_bytes())

    def games(self) -> tuple[Game, Game]:
        """Return the game of the run, and that of the agents of its warm start."""
        game = make(self.game, **self.parameters)
        return game, game_of(game, self.warm_start)


_SETTINGS: TypeAdapter[ReaderSettings] = TypeAdapter(ReaderSettings)


@dataclass(frozen=True, slots=True)
class Answers:
    """Answer to a list of entries: a game or its refusal for each, in order."""

    games: Sequence[ReadGame | RecordRejected] = ()
    fault: str = ""
    """Fault in the game's own code: nothing was read."""
    error: str = ""
    """Traceback of an error of the reader itself: nothing was read."""


def send_entries(connection: Connection, entries: Sequence[Entry]) -> None:
    """Send entries. Raises `OSError` when the process is gone."""
    connection.send_bytes(json.dumps([[uid, len(payload)] for uid, payload in entries]).encode())
    connection.send_bytes(b"".join(payload for _, payload in entries))


def receive_entries(connection: Connection) -> list[Entry]:
    """Receive entries. Raises `EOFError` when the trainer is gone."""
    listed, payloads = json.loads(connection.recv_bytes()), connection.recv_bytes()
    found, begin = [], 0
    for uid, size in listed:
        found.append((uid, payloads[begin : begin + size]))
        begin += size
    return found


def send_answers(connection: Connection, answers: Answers) -> None:
    """Send answers. Raises `OSError` when the trainer is gone."""
    read = [game for game in answers.games if isinstance(game, ReadGame)]
    listed = [_described(game) for game in answers.games]
    connection.send_bytes(json.dumps({"games": listed, "fault": answers.fault, "error": answers.error}).encode())
    connection.send_bytes(b"".join(game.samples.to_rows().tobytes() for game in read))  # type: ignore[attr-defined]


def receive_answers(connection: Connection, spec: GameSpec) -> Answers:
    """Receive answers. Raises `EOFError` or `OSError` when the process is gone, `ValueError` for a damaged answer."""
    head, rows = json.loads(connection.recv_bytes()), connection.recv_bytes()
    counts = [one["samples"] for one in head["games"] if "samples" in one]
    samples = _split(rows, counts, spec)
    games = [
        ReadGame(one["version"], one["worker"], one["moves"], one["scores"], next(samples))
        if "samples" in one
        else RecordRejected(one["reason"], one["text"])
        for one in head["games"]
    ]
    return Answers(games, head["fault"], head["error"])


def _described(game: ReadGame | RecordRejected) -> dict[str, Any]:
    if isinstance(game, RecordRejected):
        return {"reason": game.reason, "text": str(game)}
    return {
        "version": game.claimed_version,
        "worker": game.worker_id,
        "moves": game.moves,
        "scores": game.scores,
        "samples": len(game.samples),
    }


def _split(rows: bytes, counts: Sequence[int], spec: GameSpec) -> Iterator[Samples]:
    """Yield the samples of each game from the rows of all games."""
    size = Samples.empty(spec, 0).row_type.itemsize
    whole = Samples.from_rows(np.frombuffer(rows, np.uint8).reshape(sum(counts), size), spec)
    for begin, end in pairwise(accumulate(counts, initial=0)):
        yield Samples(*(array[begin:end] for array in whole.arrays))
