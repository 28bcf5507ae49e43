"""Process for reading: settings, then lists of entries, each of which is answered. It ends with its connection."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from functools import partial
from multiprocessing.connection import Connection

from games.faults import fault_of
from trainer.readers.base import Entry, Reader, RecordReader
from trainer.readers.messages import Answers, ReaderSettings, receive_entries, send_answers
from trainer.samples import extract

__all__ = ["answers", "read_until_closed"]


def read_until_closed(connection: Connection) -> None:
    """Answer the trainer's messages until the connection ends, as it does when the trainer is killed."""
    try:
        settings = ReaderSettings.receive(connection)
        game, warm_start_game = settings.games()
        reader = RecordReader(game, partial(extract, settings=settings.train), warm_start_game=warm_start_game)
        while True:
            send_answers(connection, answers(reader, receive_entries(connection)))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


def answers(reader: Reader, entries: Sequence[Entry]) -> Answers:
    """Return the answer to entries; an error that ends a trainer is part of it."""
    try:
        return Answers(reader.read(entries))
    except Exception as error:
        fault = fault_of(error)
        return Answers(fault=str(fault)) if fault else Answers(error=traceback.format_exc())
