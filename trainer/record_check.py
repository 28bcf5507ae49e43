"""Check of delivered records: each is accepted, a duplicate, or refused with a reason.

A game is refused when its record is unreadable or contradicts the rules, belongs to another game, claims a model that was
never published or is too old for the settings or the window, comes from a worker over its quota or in quarantine, or reuses
the uid of a different game. Games of a warm start may have their own rules, and their uid is their number: the first arrival
counts, and a second worker's version of it is a duplicate, as is a game that a worker played again move by move.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from trainer.fleet import Fleet
from trainer.model_ages import ModelAges
from trainer.readers.base import Reader, ReadGame, has_agents_only
from trainer.replay import AcceptedGame, Replay
from zerofleet.contracts.records import UID_PATTERN, decode_record
from zerofleet.errors import RecordRejected
from zerofleet.storage.streams import Delivery

__all__ = ["CheckedRecords", "RecordCheck", "Refusal"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Game for the dead letters."""

    delivery: Delivery
    reason: str  # short label of the metric
    text: str


@dataclass(slots=True)
class CheckedRecords:
    """Deliveries by the outcome of their check."""

    accepted: list[AcceptedGame] = field(default_factory=list)
    repeated: list[Delivery] = field(default_factory=list)
    """Games already stored."""
    refused: list[Refusal] = field(default_factory=list)
    settled: list[str] = field(default_factory=list)
    """Stream entries that may be acknowledged once the accepted games are on disk."""

    @property
    def duplicates(self) -> int:
        """Number of games already stored."""
        return len(self.repeated)


class RecordCheck:
    """Check of deliveries of one game."""

    def __init__(
        self,
        reader: Reader,
        replay: Replay,
        newest_version: Callable[[], int],
        *,
        published_version: Callable[[], int] = lambda: 0,
        champion_version: Callable[[], int] = lambda: 0,
        fleet: Fleet | None = None,
        max_staleness: int = 0,
    ) -> None:
        """`newest_version`: highest model version ever published, read for games that claim a higher one than is known.

        `published_version`: one that is known without a look at the store. `champion_version`: version whose games are never
        too old, 0 if none. `fleet`: admission by worker. `max_staleness`: `TrainSettings.max_staleness`.
        """
        self._replay = replay
        self._reader = reader
        self._newest_version = newest_version
        self._published_version = published_version
        self._newest = 0  # highest answer so far
        self._champion_version = champion_version
        self._fleet = fleet
        self._max_staleness = max_staleness
        self._ages = ModelAges(replay.window.total)

    def check(self, deliveries: Sequence[Delivery]) -> CheckedRecords:
        """Check each delivery, in order; games of the same call are also compared with each other.

        Raises as `Reader.read` does, and `OSError` when the log cannot be read; then nothing was counted.
        """
        checked = CheckedRecords()
        stored = {delivery.uid: self._stored(delivery.uid) for delivery in deliveries}
        new = [one for one in deliveries if stored[one.uid] is None and UID_PATTERN.fullmatch(one.uid)]
        found = self._reader.read([(delivery.uid, delivery.payload) for delivery in new])
        games = {delivery.entry_id: game for delivery, game in zip(new, found, strict=True)}
        newest = self._newest_for(max((game.claimed_version for game in found if isinstance(game, ReadGame)), default=0))
        for delivery in deliveries:
            try:
                if not UID_PATTERN.fullmatch(delivery.uid):
                    raise RecordRejected("uid", f"uid {delivery.uid[:64]!r} is not 32 lower-case hex digits")
                known = stored[delivery.uid]
                if known is None:
                    checked.accepted.append(self._accept(delivery, games[delivery.entry_id], newest))
                    stored[delivery.uid] = delivery.payload
                elif known in (delivery.payload, _UNREADABLE) or _is_repetition(known, delivery.payload):
                    checked.repeated.append(delivery)
                else:
                    raise RecordRejected("conflict", f"game {delivery.uid} is stored already with different content")
                checked.settled.append(delivery.entry_id)
            except RecordRejected as error:
                checked.refused.append(Refusal(delivery, error.reason, str(error)))
        return checked

    def _newest_for(self, claimed: int) -> int:
        """Return the newest version known; the store, whose list grows with the run, is asked when `claimed` is above it."""
        self._newest = max(self._newest, self._published_version())
        if claimed > self._newest:
            self._newest = max(self._newest, self._newest_version())
        return self._newest

    def _stored(self, uid: str) -> bytes | None:
        """Return the stored content of a uid, or `None`."""
        if not UID_PATTERN.fullmatch(uid):
            return None
        index = self._replay.log.find_index(uid)
        if index is None:
            return None
        try:
            return self._replay.log.get(index).payload
        except (RecordRejected, IndexError):  # damaged on disk, or dropped with its file: it was counted then
            return _UNREADABLE

    def _accept(self, delivery: Delivery, game: ReadGame | RecordRejected, newest: int) -> AcceptedGame:
        if isinstance(game, RecordRejected):
            raise game
        claimed = game.claimed_version
        if claimed > newest:
            raise RecordRejected("model_version", f"claims model version {claimed}, the newest published is {newest}")
        self._require_young(claimed, newest)
        if self._fleet is not None and claimed:
            self._fleet.admit(game.worker_id, game.moves, game.scores)
        if self._replay.window.refuses_late:  # without it nothing ever removes an entry
            self._ages.note(claimed, len(game.samples))
        return AcceptedGame(delivery.uid, delivery.payload, game.samples, delivery.traceparent)

    def _require_young(self, version: int, newest: int) -> None:
        """Refuse a game whose newest model is too old by the settings, or older than those of the window.

        Games of agents have no model, and those of the champion are never too old.
        """
        behind = newest - version
        if 0 < self._max_staleness < behind and 0 < version < self._champion_version():
            raise RecordRejected(
                "stale_model",
                f"played by model version {version}, {behind} behind the newest; train.max_staleness={self._max_staleness}",
            )
        window = self._replay.window
        if not window.refuses_late:
            return
        oldest = self._ages.oldest(window.total - len(window))
        if 0 < version < oldest and version < self._champion_version():
            raise RecordRejected("stale_model", f"played by model version {version}, the window holds games from {oldest} on")


_UNREADABLE = b""  # no record is empty


def _is_repetition(known: bytes, payload: bytes) -> bool:
    """Return whether a record repeats a stored one: the same game played again, or both between agents alone.

    Raises `RecordRejected` for an unreadable record.
    """
    stored, repeated = decode_record(known), decode_record(payload)
    if has_agents_only(stored) and has_agents_only(repeated):
        return True
    stored.finished_at_ms = repeated.finished_at_ms
    return bool(stored == repeated)
