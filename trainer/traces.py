"""Traces of sampled games in the trainer, from the stream to the first candidate trained on them.

A candidate is a separate trace, as it is made of thousands of games: its span links to the sampled games that arrived before
its last step. In the trace of each of them a span `train.first_use` links back, with the version.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from trainer.record_check import CheckedRecords
from trainer.replay import TracedGame
from zerofleet.storage.streams import Delivery
from zerofleet.telemetry import tracing

__all__ = ["CandidateTraces", "Export", "IntakeSpans", "intake_spans"]


@contextmanager
def intake_spans(deliveries: Sequence[Delivery]) -> Iterator[IntakeSpans]:
    """Record the path of sampled games from the stream to the disk, until they are settled with the stream."""
    spans = {
        delivery.entry_id: tracing.begin(
            "game.intake",
            parent=delivery.traceparent,
            kind=tracing.SpanKind.CONSUMER,
            game_uid=delivery.uid,
            deliveries=delivery.deliveries,
        )
        for delivery in deliveries
        if delivery.traceparent
    }
    told = IntakeSpans(spans)
    try:
        yield told
    except BaseException as error:
        told.fail(error)
        raise
    finally:
        told.end()


class IntakeSpans:
    """Spans of the sampled games among deliveries, by entry."""

    def __init__(self, spans: dict[str, tracing.Span]) -> None:
        self._spans = {entry: span for entry, span in spans.items() if span is not tracing.NO_SPAN}

    def checked(self, checked: CheckedRecords) -> None:
        """Note the outcome of each."""
        if not self._spans:
            return
        became = {refusal.delivery.entry_id: refusal.reason for refusal in checked.refused}
        became |= {delivery.entry_id: "duplicate" for delivery in checked.repeated}
        for entry, span in self._spans.items():
            tracing.note(span, verdict=became.get(entry, "accepted"))

    def event(self, name: str) -> None:
        """Add an event to all spans."""
        for span in self._spans.values():
            span.add_event(name)

    def fail(self, error: BaseException) -> None:
        """Mark all spans as failed."""
        for span in self._spans.values():
            tracing.fail(span, error)

    def end(self) -> None:
        """End all spans."""
        for span in self._spans.values():
            span.end()


class CandidateTraces:
    """Trace of the next candidate. Apart from `traceparent`, for the learner's thread only."""

    def __init__(self) -> None:
        self.traceparent = ""
        """Trace context of the newest candidate's export, for its submission."""
        self._first_step_ns = 0
        self._steps = 0

    def stepping(self, step: int) -> None:
        """Note the begin of steps, after `step` earlier ones."""
        if not self._first_step_ns:
            self._first_step_ns, self._steps = time.time_ns(), step

    @contextmanager
    def export(self, games: Sequence[TracedGame], step: int) -> Iterator[Export]:
        """Record the export of a candidate after `step` steps, and the steps before it.

        One that fails leaves these steps to the next.
        """
        now_ns = time.time_ns()
        began_ns = self._first_step_ns or now_ns
        taught = [game.traceparent for game in games]
        root = tracing.begin("candidate", links=taught, began_ns=began_ns, games=len(games))
        with tracing.use(root):
            if root is not tracing.NO_SPAN:
                steps = tracing.begin(
                    "train.steps", parent=tracing.traceparent(root), began_ns=began_ns, steps=step - self._steps
                )
                steps.end(now_ns)
            with tracing.child("candidate.export", step=step) as span:
                self.traceparent = tracing.traceparent(span)
                yield Export(root, span, games, began_ns)
        self._first_step_ns = 0


class Export:
    """Export of a candidate in progress."""

    def __init__(self, root: tracing.Span, span: tracing.Span, games: Sequence[TracedGame], began_ns: int) -> None:
        self._root = root
        self._span = span
        self._games = games
        self._began_ns = began_ns

    def published(self, version: int) -> None:
        """Note the version in the candidate's trace and in that of each game."""
        tracing.note(self._root, version=version)
        tracing.note(self._span, version=version)
        for game in self._games if self._root is not tracing.NO_SPAN else ():
            tracing.begin(
                "train.first_use",
                parent=game.traceparent,
                links=[tracing.traceparent(self._root)],
                began_ns=max(self._began_ns, game.arrived_ns),
                game_uid=game.uid,
                version=version,
            ).end()
