"""Process for reading: orders, then lists of entries, each of which is answered. It ends with its connection."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection

from games.faults import fault_of
from trainer.readers.base import Entry, Reader, RecordReader
from trainer.readers.messages import Answers, Orders
from zerofleet.errors import RecordRejected

__all__ = ["answers", "read_until_closed"]

PROTOCOL = 5


def read_until_closed(connection: Connection) -> None:
    """Answer the trainer's messages until the connection ends, as it does when the trainer is killed."""
    try:
        orders: Orders = pickle.loads(connection.recv_bytes())  # noqa: S301 - of the trainer that started this process
        game, warm_start_game = orders.games()
        reader = RecordReader(game, orders.take, warm_start_game=warm_start_game)
        while True:
            entries: Sequence[Entry] = pickle.loads(connection.recv_bytes())  # noqa: S301 - of the same
            connection.send_bytes(pickle.dumps(answers(reader, entries), PROTOCOL))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


def answers(reader: Reader, entries: Sequence[Entry]) -> Answers:
    """Return the answer to entries; an error that ends a trainer is part of it."""
    try:
        games = reader.read(entries)
    except Exception as error:
        fault = fault_of(error)
        return Answers(fault=str(fault)) if fault else Answers(error=traceback.format_exc())
    return Answers([(game.reason, str(game)) if isinstance(game, RecordRejected) else game for game in games])
