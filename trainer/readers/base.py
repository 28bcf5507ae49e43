"""Reader of records: all checks of a game that do not need the state of the trainer.

Reading is most of the work of an intake: the message, the rules, the samples. It needs neither the log nor the window, so it
runs in the trainer's thread for the intake, or in processes of its own (`trainer.readers.processes`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from games.core import Game
from games.positions import titled
from zerofleet.contracts.records import ValidatedGame, decode_record, validate
from zerofleet.contracts.wire.records_pb2 import GameRecord
from zerofleet.errors import RecordRejected

if TYPE_CHECKING:  # the contract of learners imports torch, of which the intake has no need
    from trainer.learners.contract import Taken

__all__ = ["Entry", "ReadGame", "Reader", "RecordReader", "has_agents_only"]

Entry = tuple[str, bytes]
"""Uid and record of a game, as the stream delivers them."""


class ReadGame(NamedTuple):
    """Game whose record keeps the rules, and its samples."""

    claimed_version: int
    """Newest model version that the record names; 0 for a game of agents."""
    worker_id: str
    moves: list[int]
    scores: list[float]
    samples: Taken


class Reader(Protocol):
    """Reader of records."""

    def read(self, entries: Sequence[Entry]) -> list[ReadGame | RecordRejected]:
        """Return each game, or the reason why it is none, in order.

        Raises `RuleFault` for a fault in the game's own code, `Unavailable` when the same games should be read again later,
        `ReaderFailed` when that is of no use.
        """
        ...

    def close(self) -> None:
        """Release everything; idempotent."""
        ...


class RecordReader:
    """Reader in the calling thread."""

    def __init__(self, game: Game, take: Callable[[ValidatedGame], Any], *, warm_start_game: Game | None = None) -> None:
        """`take` returns a game's samples (`trainer.learners.contract.Window.read`).

        `warm_start_game`: game of the agents, if not `game`.
        """
        self._game = game
        self._take = take
        self._warm_start_game = game if warm_start_game is None else warm_start_game

    def read(self, entries: Sequence[Entry]) -> list[ReadGame | RecordRejected]:
        """See `Reader`."""
        return [self._result(uid, payload) for uid, payload in entries]

    def close(self) -> None:
        """See `Reader`."""

    def _result(self, uid: str, payload: bytes) -> ReadGame | RecordRejected:
        try:
            return self._read(uid, payload)
        except RecordRejected as error:
            return error

    def _read(self, uid: str, payload: bytes) -> ReadGame:
        record = decode_record(payload)
        if record.uid != uid:
            raise RecordRejected("uid", f"the stream entry has uid {uid}, the record {record.uid[:64]!r}")
        wanted = self._warm_start_game if has_agents_only(record) else self._game
        if record.game != (name := wanted.spec().name):  # before the validation, which would compile that game's rules
            raise RecordRejected("other_game", f"a game of {record.game[:64]!r}, this trainer expects {name}")
        played = validate(record)
        if played.game != wanted or type(played.game) is not type(wanted):
            raise RecordRejected("other_game", f"a game of {titled(played.game)}, this trainer expects {titled(wanted)}")
        claimed = max([*record.seat_versions, *played.search.model_version.tolist()])
        return ReadGame(claimed, record.worker_id, record.moves[:], record.scores[:], self._take(played))


def has_agents_only(record: GameRecord) -> bool:
    """Return whether a game was played without a model."""
    return bool(record.seat_agents) and all(record.seat_agents)
