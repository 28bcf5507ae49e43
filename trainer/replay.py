"""Replay store: accepted games on disk, their samples in memory.

The game log is authoritative; the window of samples, of the kind that the learner needs (`trainer.learners`), is filled from it
at start and follows it afterwards. A mark every few hundred games stores the number of earlier samples, so that a restart
reads only the games needed for the window. Older games are deleted on request, once no checkpoint on disk needs them.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import structlog

from trainer.checkpoint_files import KEPT_CHECKPOINTS
from zerofleet.contracts.records import decode_record, validate
from zerofleet.errors import RecordRejected, RunDirectoryError
from zerofleet.storage.game_log import GameLog

if TYPE_CHECKING:  # the contract of learners imports torch, of which the intake has no need
    from trainer.learners.contract import Taken, Window

__all__ = ["MOST_TRACED", "AcceptedGame", "Mark", "Replay", "TracedGame"]

MARK_EVERY_GAMES = 256
MOST_TRACED = 128  # links of one span, by OpenTelemetry's default
_SPEAK_EVERY_S = 5.0

log = structlog.get_logger()


class AcceptedGame(NamedTuple):
    """Valid game and its training samples."""

    uid: str
    payload: bytes
    samples: Taken
    traceparent: str = ""
    """Trace context of its publication; empty for most games."""


class TracedGame(NamedTuple):
    """Game whose trace is linked to the first candidate trained on it."""

    uid: str
    traceparent: str
    arrived_ns: int  # since 1970


class Mark(NamedTuple):
    """Place in the log from which a window can be filled."""

    game: int  # number in the log
    samples: int  # in all games before it


class Replay:
    """Log and window of one game. One thread stores games; another may draw from the window meanwhile."""

    def __init__(self, window: Window[Any], games: GameLog, marks: Sequence[Mark] = (), *, kept_games: int = 0) -> None:
        """`kept_games`: newest games that stay on disk in any case, see `keep`; 0: all."""
        self.log = games
        self.window = window
        self.games_added = 0
        """Games of the log whose samples are in the window, or were; the log alone has those that `keep` is adding."""
        self._marks = list(marks) or [Mark(0, 0)]
        self._traced: deque[TracedGame] = deque(maxlen=MOST_TRACED)  # both threads use it, by single operations
        self._kept_games = kept_games
        self._needed_from = deque[int](maxlen=KEPT_CHECKPOINTS)  # first games of the last checkpoints; used likewise

    @classmethod
    def open(cls, games: GameLog, window: Window[Any], marks: Sequence[Mark] = (), *, kept_games: int = 0) -> Self:
        """Fill the window from a log that is open for writing.

        `marks` are those of the last checkpoint; `window` begins with the samples of the first one. Raises `RunDirectoryError`
        when games counted by the checkpoint are missing.
        """
        replay = cls(window, games, marks, kept_games=kept_games)
        replay._fill(resumed=bool(marks))
        return replay

    def close(self) -> None:
        """Close the log."""
        self.log.close()

    @property
    def marks(self) -> tuple[Mark, ...]:
        """Marks for the next checkpoint: the last one before the window, and those inside it."""
        begin = self.window.total - len(self.window)
        while len(self._marks) > 1 and self._marks[1].samples <= begin:
            del self._marks[0]
        return tuple(self._marks)

    def keep(self, games: Sequence[AcceptedGame]) -> None:
        """Store games that are not in the log yet; on return they are on disk and can be drawn.

        Files of games that are neither among the last `kept_games` nor needed by a checkpoint on disk are deleted; a deletion
        that fails is logged, and tried again by the next call. Raises as `GameLog.append` does; then nothing was stored.
        """
        index = self.log.end_index
        self.log.append([(game.uid, game.payload) for game in games])
        for number, game in enumerate(games, start=index):
            self._add(number, game.samples)
            if game.traceparent:
                self._traced.append(TracedGame(game.uid, game.traceparent, time.time_ns()))
        self.games_added = len(self.log)
        if self._kept_games:
            self._drop_old()

    def note_checkpoint(self, marks: Sequence[tuple[int, int]]) -> None:
        """Note that a checkpoint with these marks is on disk, so that the games that it needs stay."""
        self._needed_from.append(marks[0][0])

    def take_traced(self) -> list[TracedGame]:
        """Return the traced games stored since the last call, at most the newest `MOST_TRACED`."""
        return [self._traced.popleft() for _ in range(len(self._traced))]

    def read(self, payload: bytes) -> Taken:
        """Return the samples of a record; raises `RecordRejected`."""
        samples: Taken = self.window.read(validate(decode_record(payload)))
        return samples

    def _drop_old(self) -> None:
        if len(self._needed_from) < KEPT_CHECKPOINTS:
            return  # the games that an earlier checkpoint needs are not known
        first = self.log.start_index
        if (kept := self.log.drop_before(min(self._needed_from[0], self.log.end_index - self._kept_games))) > first:
            log.info("replay.games_deleted", games=kept - first, oldest_kept=kept)

    def _add(self, number: int, samples: Taken) -> None:
        if number >= self._marks[-1].game + MARK_EVERY_GAMES:
            self._marks.append(Mark(number, self.window.total))
        self.window.add(samples)

    def _fill(self, *, resumed: bool) -> None:
        """Read the games from the first mark on; `resumed`: it comes from a checkpoint, which counts the games before it."""
        begin, spoke = time.monotonic(), time.monotonic()
        refused: Counter[str] = Counter()
        first = self._marks[0].game
        if first > self.log.end_index:
            raise RunDirectoryError(
                f"the checkpoint counts {first} games, the log has {self.log.end_index}: games are missing; "
                "restore them, or remove the checkpoints to train on the remaining games"
            )
        if resumed and first < self.log.start_index:
            raise RunDirectoryError(
                f"the checkpoint needs games from {first} on, the log begins with {self.log.start_index}: restore another "
                "backup, or remove the checkpoints to train on the remaining games"
            )
        self._marks = self._marks[:1]
        for logged in self.log.scan(first):
            try:
                self._add(logged.index, self.read(logged.payload))
            except RecordRejected as error:
                refused[error.reason] += 1
            if time.monotonic() - spoke > _SPEAK_EVERY_S:
                spoke = time.monotonic()
                log.info("replay.filling", game=logged.index, of=self.log.end_index)
        self.games_added = len(self.log)
        if refused:
            log.error(
                "replay.refused_games", why=dict(refused), advice="they were stored by another version; they are not used"
            )
        if self.log.end_index > first:
            seconds = round(time.monotonic() - begin, 2)
            log.info("replay.filled", games=self.log.end_index - first, samples=len(self.window), seconds=seconds)
