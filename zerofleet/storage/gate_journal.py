"""Journal of the gatekeeper: its events, each durable before it counts; replayed at the next start."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import structlog

from zerofleet.contracts.gate_events import EVENTS, SCHEMA, Event, JournalBegun, MatchClosed
from zerofleet.errors import RunDirectoryError, Unavailable
from zerofleet.storage.crash_points import crash_point
from zerofleet.storage.journal import Journal, Mark

__all__ = ["JOURNAL_FILE", "EventJournal"]

JOURNAL_FILE = "journal.jsonl"
"""Name of the journal in the gatekeeper's directory."""

_GAME = b'{"event":"game",'
"""Begin of the lines of games, nearly all of a journal; one that is written in another way is parsed as all others."""

log = structlog.get_logger()


class EventJournal:
    """An append-only file of events. One process, one thread at a time; the lease excludes others."""

    def __init__(self, path: Path, *, model: str, require_held: Callable[[], object] = lambda: None) -> None:
        """`require_held` raises `StaleEpoch` when another process has taken the lease: the file is then that process's."""
        self._model = model
        self._require_held = require_held
        self._journal = Journal(
            path,
            EVENTS,
            header=EVENTS.dump_json(JournalBegun(model=model)),
            check_header=self._require_own,
            remedy="restore the file, or move it away: the champion stays, match results and ratings are reset",
        )

    def read(self, *, games_of: Sequence[str] | None = None) -> list[Event]:
        """Return every event so far, oldest first, without a truncated last line; of games, those of these matches alone.

        Raises `RunDirectoryError` when the file is damaged elsewhere, or has another model or schema.
        """
        names = None if games_of is None else [json.dumps(match_id).encode() for match_id in games_of]

        def is_wanted(text: bytes) -> bool:
            return names is None or not text.startswith(_GAME) or any(name in text for name in names)

        events = self._journal.read(is_wanted)
        self._note_dropped()
        return events

    def stream(self) -> Iterator[Event]:
        """Yield the events that `read` returns, one in memory at a time. Raises as `read`."""
        yield from self._journal.stream()
        self._note_dropped()

    def closings(self) -> Counter[str]:
        """Return the number of events that close each match. Raises as `read`."""
        others = self._journal.stream(lambda text: not text.startswith(_GAME))
        return Counter(event.match_id for event in others if isinstance(event, MatchClosed))

    @property
    def size_bytes(self) -> int:
        """Size of the file as of the last read or write; 0 before, and after a failed `rewrite`."""
        return self._journal.size_bytes

    def rewind(self) -> None:
        """Let `read_more` begin at the first event."""
        self._journal.rewind()

    def read_more(self) -> list[Event] | None:
        """Return some of the events since the last call; none at the end, None where the file was rewritten: rewind it.

        Raises as `read`.
        """
        return self._journal.read_more()

    def mark(self) -> Mark | None:
        """Return the place up to which `read_more` has read, None without one; see `Journal.mark`."""
        return self._journal.mark()

    def resume(self, mark: Mark) -> bool:
        """Let `read_more` begin at a place whose content before it is unchanged; return whether it is. Raises as `read`."""
        return self._journal.resume(mark)

    def take_over(self) -> None:
        """Stop rewrites of earlier holders of the lease, and require that it is held; called before the first `read`.

        A former holder that was suspended within `rewrite` would remove the events of this process. It asks for the lease when
        its file is complete, and this process removes such files when it has the lease: the file is replaced before, or never.
        Raises `StaleEpoch`, `Unavailable`.
        """
        self._require_held()
        with self._unavailable("nothing was changed"):
            self._journal.drop_unfinished()

    def rewrite(self, events: Iterable[Event]) -> None:
        """Replace the file atomically by a header and these events.

        Raises `Unavailable` when a write fails, `StaleEpoch` when the lease is lost; the file is then as before.
        """
        with self._unavailable("nothing was changed"):
            self._journal.rewrite(events, confirm=self._confirm_rewrite)
        crash_point("gate_journal_after_replacement")

    def append(self, event: Event) -> None:
        """Append an event, durably.

        Raises `Unavailable` when the write fails, `StaleEpoch` when the lease is lost; the event is then not added.
        """
        self._require_held()
        with self._unavailable("the event was not counted"):
            self._journal.append(event)

    def _confirm_rewrite(self) -> None:
        crash_point("gate_journal_before_replacement")
        self._require_held()

    def _note_dropped(self) -> None:
        if dropped_bytes := self._journal.dropped_bytes:
            log.warning("journal.tail_dropped", path=str(self._journal.path), size_bytes=dropped_bytes)

    @contextmanager
    def _unavailable(self, consequence: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise Unavailable(f"cannot write {self._journal.path}: {error}; {consequence}") from error

    def _require_own(self, text: bytes) -> None:
        path, first = self._journal.path, self._journal.parse(text)
        if not isinstance(first, JournalBegun) or first.schema_version != SCHEMA:
            raise RunDirectoryError(f"{path} was written by another version of Zerofleet; this one reads schema {SCHEMA}")
        if first.model != self._model:
            raise RunDirectoryError(f"{path} belongs to model {first.model}, not {self._model}; name another state_dir")
